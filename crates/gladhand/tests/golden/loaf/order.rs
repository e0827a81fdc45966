//! The order of members, which is part of the protocol (§1) and which parsed documents do not keep.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The names of the members of each object in a document, by its JSON pointer.
type Members = BTreeMap<String, Vec<String>>;

/// The order of members in a document, seen from an object inside it.
pub(super) fn order_of_members(text: &str, from: &str) -> Option<Members> {
    let mut members = Members::new();
    let mut document = serde_json::Deserializer::from_str(text);
    Place { path: String::new(), members: &mut members }.deserialize(&mut document).ok()?;
    Some(members.into_iter().filter_map(|(path, names)| Some((path.strip_prefix(from)?.to_owned(), names))).collect())
}

/// How the order of members differs, looking only at those that both have.
pub(super) fn other_order(recorded: &Members, got: &Members) -> Option<String> {
    recorded.iter().find_map(|(path, names)| {
        let ours = got.get(path)?;
        let common = |names: &[String], others: &[String]| -> Vec<String> {
            names.iter().filter(|name| others.contains(name)).cloned().collect()
        };
        let (recorded, got) = (common(names, ours), common(ours, names));
        (recorded != got)
            .then(|| format!("{path}: members in another order\n    recorded {recorded:?}\n    got      {got:?}"))
    })
}

/// One value on the way through a document.
struct Place<'m> {
    path: String,
    members: &'m mut Members,
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let path = format!("{}/{name}", self.path);
            map.next_value_seed(Place { path, members: self.members })?;
            names.push(name);
        }
        self.members.insert(self.path, names);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut at = 0;
        while list.next_element_seed(Place { path: format!("{}/{at}", self.path), members: self.members })?.is_some() {
            at += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
