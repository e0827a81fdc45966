//! Property tests of negotiation with arbitrary offers.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Secret;

const NAMES: [&str; 8] = ["tools", "tools.listChanged", "memory", "env", "sampling", "future", "odd", "odd.part"];

fn defines(version: &str, _: Side, capability: &str) -> Defined {
    match capability {
        "odd" | "odd.part" => Defined::Unknown,
        "future" if version < "2" => Defined::NotInThisVersion,
        _ => Defined::Yes,
    }
}

fn rules(versions: VersionRule, minimum: Minimum) -> Rules {
    Rules { dialect: "test", versions, minimum, defines }
}

fn capabilities() -> impl Strategy<Value = BTreeSet<Capability>> {
    proptest::collection::btree_set(proptest::sample::select(&NAMES[..]).prop_map(Capability::named), 0..6)
}

fn offers() -> impl Strategy<Value = Offer> {
    let versions = proptest::collection::vec(proptest::sample::select(&["1.0", "1.1", "2.0", "3.0"][..]), 0..3);
    let wants = prop_oneof![Just(Wants::Everything), capabilities().prop_map(Wants::Only)];
    let tokens = proptest::collection::vec(proptest::sample::select(&["a", "b", ""][..]).prop_map(Secret::new), 0..3);
    (versions, capabilities(), wants, tokens).prop_map(|(versions, provides, wants, tokens)| Offer {
        provides: provides.into_iter().map(|name| (name, None)).collect::<BTreeMap<_, _>>(),
        wants,
        tokens,
        ..Offer::new(Peer::default(), versions)
    })
}

fn all_rules() -> impl Strategy<Value = Rules> {
    let versions = prop_oneof![
        Just(VersionRule::ServerOffers),
        Just(VersionRule::Common),
        Just(VersionRule::CommonMajor),
        Just(VersionRule::ServerDecides)
    ];
    let minimum = prop_oneof![Just(Minimum::Nothing), Just(Minimum::OneCapability)];
    (versions, minimum).prop_map(|(versions, minimum)| rules(versions, minimum))
}

proptest! {
    #[test]
    fn an_agreement_contains_only_declared_capabilities(
        rules in all_rules(), client in offers(), server in offers()
    ) {
        if let Ok(agreement) = agree(&rules, &client, &server) {
            for term in agreement.agreed(Side::Server) {
                prop_assert!(server.provides.contains_key(&term.capability));
                prop_assert!(client.wants.wants(&term.capability));
                prop_assert_eq!(defines(&agreement.version, Side::Server, &term.capability.0), Defined::Yes);
            }
            for term in agreement.agreed(Side::Client) {
                prop_assert!(client.provides.contains_key(&term.capability));
                prop_assert!(server.wants.wants(&term.capability));
            }
            let named = client.versions.iter().chain(&server.versions).any(|version| *version == agreement.version);
            prop_assert!(named, "the agreed version is in neither offer");
        }
    }

    #[test]
    fn every_declared_or_wanted_capability_has_a_term(rules in all_rules(), client in offers(), server in offers()) {
        if let Ok(agreement) = agree(&rules, &client, &server) {
            for name in server.provides.keys() {
                prop_assert!(agreement.term(Side::Server, &name.0).is_some());
            }
            if let Wants::Only(wanted) = &client.wants {
                for name in wanted {
                    prop_assert!(agreement.term(Side::Server, &name.0).is_some());
                }
            }
        }
    }

    #[test]
    fn a_part_is_never_in_force_without_its_capability(rules in all_rules(), client in offers(), server in offers()) {
        if let Ok(agreement) = agree(&rules, &client, &server) {
            for side in [Side::Client, Side::Server] {
                for term in agreement.agreed(side) {
                    if let Some(parent) = term.capability.parent()
                        && let Some(whole) = agreement.term(side, parent)
                    {
                        prop_assert_eq!(whole.verdict, Verdict::Agreed);
                    }
                }
            }
        }
    }

    #[test]
    fn symmetric_rules_give_the_same_result_in_both_orders(
        common in any::<bool>(), left in offers(), right in offers()
    ) {
        let rule = if common { VersionRule::Common } else { VersionRule::CommonMajor };
        let rules = rules(rule, Minimum::OneCapability);
        // Tokens are not symmetric: only a server requires them.
        let (left, right) = (Offer { tokens: vec![], ..left }, Offer { tokens: vec![], ..right });
        // A side without versions takes the first version of the other side, which is not symmetric.
        prop_assume!(!left.versions.is_empty() && !right.versions.is_empty());
        match (agree(&rules, &left, &right), agree(&rules, &right, &left)) {
            (Ok(one), Ok(two)) => {
                prop_assert_eq!(&one.version, &two.version);
                let names = |agreement: &Agreement, side| -> Vec<_> {
                    agreement.agreed(side).map(|term| term.capability.clone()).collect()
                };
                prop_assert_eq!(names(&one, Side::Server), names(&two, Side::Client));
                prop_assert_eq!(names(&one, Side::Client), names(&two, Side::Server));
            }
            (Err(one), Err(two)) => prop_assert_eq!(one.word(), two.word()),
            (one, two) => prop_assert!(false, "the two orders differ: {one:?} and {two:?}"),
        }
    }

    #[test]
    fn a_refusal_always_names_a_reason(rules in all_rules(), client in offers(), server in offers()) {
        if let Err(refusal) = agree(&rules, &client, &server) {
            prop_assert!(!refusal.word().is_empty() && !refusal.to_string().is_empty());
            match refusal {
                Refusal::VersionMismatch { asked, spoken } => {
                    prop_assert!(asked.iter().all(|version| !spoken.contains(version)), "{asked:?} {spoken:?}");
                }
                Refusal::AuthFailed => prop_assert!(!server.tokens.is_empty()),
                Refusal::NoCapabilities { .. } => prop_assert_eq!(rules.minimum, Minimum::OneCapability),
                other => prop_assert!(false, "negotiation must not return this refusal: {other:?}"),
            }
        }
    }
}

#[test]
fn the_server_offers_its_preferred_version_for_one_it_does_not_speak() {
    let rules = rules(VersionRule::ServerOffers, Minimum::Nothing);
    let server = Offer::new(Peer::default(), ["2.0", "1.0"]);
    let agreed = |asked: &str| agree(&rules, &Offer::new(Peer::default(), [asked]), &server).unwrap();
    assert_eq!((agreed("1.0").version.as_str(), agreed("1.0").asked_version), ("1.0", None));
    assert_eq!((agreed("9.9").version.as_str(), agreed("9.9").asked_version.as_deref()), ("2.0", Some("9.9")));
}

#[test]
fn the_token_is_checked_before_capabilities() {
    let rules = rules(VersionRule::CommonMajor, Minimum::OneCapability);
    let server = Offer { tokens: vec![Secret::new("good")], ..Offer::new(Peer::default(), ["1.0"]) };
    let client = |token: &str| Offer { tokens: vec![Secret::new(token)], ..Offer::new(Peer::default(), ["1.0"]) };
    assert_eq!(agree(&rules, &client("bad"), &server).unwrap_err(), Refusal::AuthFailed);
    assert_eq!(agree(&rules, &client("good"), &server).unwrap_err(), Refusal::NoCapabilities { wanted: vec![] });
}
