//! Builds the JSON objects of debug output.

use gladhand_core::wire::RawValue;
use serde::{Serialize, Serializer};

/// The members of an object, in order.
#[derive(Debug, Default)]
pub(crate) struct DebugFields(Vec<(&'static str, Box<RawValue>)>);

impl DebugFields {
    /// Adds a member at the end.
    pub(crate) fn and(mut self, name: &'static str, value: &impl Serialize) -> Self {
        self.0.push((name, raw(value)));
        self
    }

    /// Adds a member before all others.
    pub(crate) fn prepend(mut self, name: &'static str, value: &impl Serialize) -> Self {
        self.0.insert(0, (name, raw(value)));
        self
    }

    /// The members as a JSON object.
    pub(crate) fn into_json(self) -> Box<RawValue> {
        raw(&self)
    }
}

impl Serialize for DebugFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("debug data can be serialized")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_in_order() {
        let fields = DebugFields::default().and("b", &1).and("a", &"x").prepend("c", &None::<u8>);
        assert_eq!(fields.into_json().get(), r#"{"c":null,"b":1,"a":"x"}"#);
    }
}
