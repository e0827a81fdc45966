//! Two sessions of the same client with the same server, compared: pure functions over the records.

use gladhand_core::operations::Feature;
use gladhand_dialects::{Absence, absent};
use gladhand_redaction::redact_words;
use serde::Serialize;

use crate::commands::open::draw::shown;
use crate::commands::open::exchange::{Record, Verdict};
use crate::commands::open::report::Reason;
use gladhand_client::upstream::Target;

/// The losses and gains of all clients.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// Whether the server opened a session directly, in any dialect.
    pub(super) opened: bool,
    /// The server as a person would type it.
    #[serde(skip)]
    pub(super) shown: String,
    pub(super) command: Vec<String>,
    pub(super) url: Option<String>,
    /// The features that the server has for some client directly.
    pub(super) server_features: Vec<&'static str>,
    pub(super) clients: Vec<Client>,
}

/// The losses and gains of one client.
#[derive(Debug, Serialize)]
pub(super) struct Client {
    pub(super) dialect: &'static str,
    pub(super) asked_version: String,
    pub(super) direct: Session,
    pub(super) bridge: Session,
    /// Features that it has only through the bridge.
    pub(super) gains: Vec<&'static str>,
    /// Features that it has only directly.
    pub(super) loses: Vec<&'static str>,
    /// Lists that differ.
    pub(super) lists: Vec<ListDifference>,
    /// Features that the server has for other clients, and this one cannot get even through the bridge.
    pub(super) unavailable: Vec<Unavailable>,
}

/// A session, or why there is none.
#[derive(Debug, Serialize)]
pub(super) struct Session {
    pub(super) opened: bool,
    pub(super) version: Option<String>,
    pub(super) reason: Option<&'static str>,
    pub(super) message: Option<String>,
    pub(super) features: Vec<&'static str>,
}

/// A list with other entries through the bridge.
#[derive(Debug, Serialize)]
pub(super) struct ListDifference {
    pub(super) list: &'static str,
    pub(super) only_direct: Vec<String>,
    pub(super) only_bridge: Vec<String>,
}

/// A feature that a client cannot get.
#[derive(Debug, Serialize)]
pub(super) struct Unavailable {
    pub(super) feature: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Comparison {
    pub(super) fn new(
        target: &Target,
        direct: &[Record],
        bridged: &[Record],
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Self {
        let is_open = |record: &Record| matches!(record.verdict, Verdict::Opened(_));
        let has = |feature: &Feature| direct.iter().any(|record| features(record).contains(feature));
        let offered: Vec<Feature> = Feature::ALL.into_iter().filter(has).collect();
        let (command, url) = match target {
            Target::Command(words) => (redact_words(words), None),
            Target::Url(_) => (Vec::new(), Some(target.to_string())),
        };
        // Over HTTP the bridge has clients that the server itself cannot have: those of dialects without HTTP.
        let clients = bridged.iter().filter(|record| is_wanted(record)).map(|bridged| {
            let same =
                |record: &&Record| record.dialect.name == bridged.dialect.name && record.version == bridged.version;
            Client::new(direct.iter().find(same), bridged, &offered)
        });
        Self {
            // A bridge may open a session before it finds out that its server has ended.
            opened: direct.iter().any(is_open),
            shown: shown(target),
            command,
            url,
            server_features: words(&offered),
            clients: clients.collect(),
        }
    }
}

impl Client {
    fn new(direct: Option<&Record>, bridged: &Record, offered: &[Feature]) -> Self {
        let directly = direct.map(features).unwrap_or_default();
        let through = features(bridged);
        let only = |these: &[Feature], those: &[Feature]| {
            words(&these.iter().copied().filter(|feature| !those.contains(feature)).collect::<Vec<_>>())
        };
        Self {
            dialect: bridged.dialect.name,
            asked_version: bridged.version.clone(),
            gains: only(&through, &directly),
            loses: only(&directly, &through),
            lists: direct.map(|direct| differences(direct, bridged)).unwrap_or_default(),
            unavailable: unavailable(bridged, offered),
            direct: Session::of(direct),
            bridge: Session::of(Some(bridged)),
        }
    }

    /// `mcp@2025-11-25`.
    pub(super) fn name(&self) -> String {
        format!("{}@{}", self.dialect, self.asked_version)
    }
}

impl Session {
    fn of(record: Option<&Record>) -> Self {
        let Some(record) = record else {
            let message = Some("the dialect has no form over HTTP".to_owned());
            return Self { opened: false, version: None, reason: Some("not_over_http"), message, features: Vec::new() };
        };
        let reason = Reason::of(&record.verdict);
        let version = match &record.verdict {
            Verdict::Opened(agreement) => Some(agreement.version.clone()),
            _ => None,
        };
        Self {
            opened: version.is_some(),
            version,
            reason: reason.as_ref().map(|reason| reason.reason),
            message: reason.map(|reason| reason.message),
            features: words(&features(record)),
        }
    }
}

fn words(features: &[Feature]) -> Vec<&'static str> {
    features.iter().map(|feature| feature.word()).collect()
}

/// The features that a session has.
fn features(record: &Record) -> Vec<Feature> {
    let Verdict::Opened(agreement) = &record.verdict else { return Vec::new() };
    let absent = absent(record.dialect, agreement);
    Feature::ALL.into_iter().filter(|feature| !absent.iter().any(|(missing, _)| missing == feature)).collect()
}

/// The features that the server has and a session through the bridge lacks, with the reason.
fn unavailable(bridged: &Record, offered: &[Feature]) -> Vec<Unavailable> {
    let Verdict::Opened(agreement) = &bridged.verdict else { return Vec::new() };
    let lacks = |(feature, _): &(Feature, Absence)| offered.contains(feature);
    let shown = |(feature, absence): (Feature, Absence)| Unavailable {
        feature: feature.word(),
        reason: absence.word(),
        message: absence.to_string(),
    };
    absent(bridged.dialect, agreement).into_iter().filter(lacks).map(shown).collect()
}

/// The lists whose entries differ. A list that one session lacks belongs to a feature that it lacks.
fn differences(direct: &Record, bridged: &Record) -> Vec<ListDifference> {
    let mut differences = Vec::new();
    for list in &direct.lists {
        let other = bridged.lists.iter().find(|other| other.feature == list.feature);
        let (Ok(ours), Some(Ok(theirs))) = (&list.names, other.map(|other| &other.names)) else { continue };
        let only = |these: &[String], those: &[String]| {
            these.iter().filter(|name| !those.contains(name)).cloned().collect::<Vec<_>>()
        };
        let (only_direct, only_bridge) = (only(ours, theirs), only(theirs, ours));
        if !only_direct.is_empty() || !only_bridge.is_empty() {
            differences.push(ListDifference { list: list.feature.word(), only_direct, only_bridge });
        }
    }
    differences
}
