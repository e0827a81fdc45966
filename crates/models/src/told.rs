//! What is told to whoever looks for a fault.

use gladhand_core::wire::RawValue;
use serde::{Serialize, Serializer};

/// Members in the order in which they are said.
#[derive(Debug, Default)]
pub(crate) struct Told(Vec<(&'static str, Box<RawValue>)>);

impl Told {
    /// The same with one more at the end.
    pub(crate) fn and(mut self, name: &'static str, value: &impl Serialize) -> Self {
        self.0.push((name, raw(value)));
        self
    }

    /// The same with one more before all others.
    pub(crate) fn after(mut self, name: &'static str, value: &impl Serialize) -> Self {
        self.0.insert(0, (name, raw(value)));
        self
    }

    /// All of it as an object.
    pub(crate) fn into_json(self) -> Box<RawValue> {
        raw(&self)
    }
}

impl Serialize for Told {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("text, numbers and JSON are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_in_order() {
        let told = Told::default().and("b", &1).and("a", &"x").after("c", &None::<u8>);
        assert_eq!(told.into_json().get(), r#"{"c":null,"b":1,"a":"x"}"#);
    }
}
