//! Reads settings from a tree of TOML values.
//!
//! The `toml` crate can do that, too. It has code for dates, numbers of 128 bits and positions in every type of setting,
//! which was 1.4 % of the program. The file was checked against the schema before, so an error here has only a position.

use std::fmt::Display;
use std::ops::Range;

use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

/// A value of the file that cannot be read. A text about it could quote a secret, so there is none.
#[derive(Debug, Default)]
pub(crate) struct UnreadableSetting {
    /// Where the value is, if it is known.
    pub(crate) span: Option<Range<usize>>,
}

impl UnreadableSetting {
    fn within(self, span: &Range<usize>) -> Self {
        Self { span: self.span.or_else(|| Some(span.clone())) }
    }
}

impl Display for UnreadableSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(super::source::UNREADABLE)
    }
}

impl std::error::Error for UnreadableSetting {}

impl Error for UnreadableSetting {
    fn custom<T: Display>(_: T) -> Self {
        Self::default()
    }

    fn invalid_type(_: Unexpected<'_>, _: &dyn Expected) -> Self {
        Self::default()
    }

    fn invalid_value(_: Unexpected<'_>, _: &dyn Expected) -> Self {
        Self::default()
    }

    fn invalid_length(_: usize, _: &dyn Expected) -> Self {
        Self::default()
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        Self::default()
    }

    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        Self::default()
    }

    fn missing_field(_: &'static str) -> Self {
        Self::default()
    }

    fn duplicate_field(_: &'static str) -> Self {
        Self::default()
    }
}

/// A value with its position.
pub(crate) struct SettingValue<'t>(Spanned<DeValue<'t>>);

impl<'t> SettingValue<'t> {
    /// The settings in a table.
    pub(crate) fn of(table: DeTable<'t>) -> Self {
        Self(Spanned::new(0..0, DeValue::Table(table)))
    }
}

/// A number of the file as the widest type that holds it.
enum WrittenNumber {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl WrittenNumber {
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::Integer(integer) => {
                let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok()?;
                let signed = i64::try_from(number).map(Self::Signed).ok();
                signed.or_else(|| u64::try_from(number).map(Self::Unsigned).ok())
            }
            DeValue::Float(float) => float.as_str().parse().map(Self::Float).ok(),
            _ => None,
        }
    }
}

impl<'de> Deserializer<'de> for SettingValue<'_> {
    type Error = UnreadableSetting;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnreadableSetting> {
        let span = self.0.span();
        let read = match self.0.into_inner() {
            DeValue::String(text) => visitor.visit_string(text.into_owned()),
            DeValue::Boolean(value) => visitor.visit_bool(value),
            // Only schemas of tools hold dates, and JSON has none.
            DeValue::Datetime(date) => visitor.visit_string(date.to_string()),
            DeValue::Array(items) => visitor.visit_seq(ItemAccess(items.into_iter())),
            DeValue::Table(table) => visitor.visit_map(MemberAccess { rest: table.into_iter(), value: None }),
            number => match WrittenNumber::of(&number) {
                Some(WrittenNumber::Signed(number)) => visitor.visit_i64(number),
                Some(WrittenNumber::Unsigned(number)) => visitor.visit_u64(number),
                Some(WrittenNumber::Float(number)) => visitor.visit_f64(number),
                None => Err(UnreadableSetting::default()),
            },
        };
        read.map_err(|error| error.within(&span))
    }

    // TOML has no null: a key that is there has a value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnreadableSetting> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, UnreadableSetting> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnreadableSetting> {
        let span = self.0.span();
        let read = match self.0.into_inner() {
            DeValue::String(text) => visitor.visit_enum(owned(text)),
            DeValue::Table(table) => match table.into_iter().next() {
                Some((name, value)) => visitor.visit_enum(TableVariant { name: name.into_inner(), value: Self(value) }),
                None => Err(UnreadableSetting::default()),
            },
            _ => Err(UnreadableSetting::default()),
        };
        read.map_err(|error| error.within(&span))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn owned(text: DeString<'_>) -> StringDeserializer<UnreadableSetting> {
    text.into_owned().into_deserializer()
}

struct ItemAccess<'t>(<DeArray<'t> as IntoIterator>::IntoIter);

impl<'de> SeqAccess<'de> for ItemAccess<'_> {
    type Error = UnreadableSetting;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, UnreadableSetting> {
        self.0.next().map(|item| seed.deserialize(SettingValue(item))).transpose()
    }
}

struct MemberAccess<'t> {
    rest: <DeTable<'t> as IntoIterator>::IntoIter,
    value: Option<Spanned<DeValue<'t>>>,
}

impl<'de> MapAccess<'de> for MemberAccess<'_> {
    type Error = UnreadableSetting;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, UnreadableSetting> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(StrDeserializer::new(key.get_ref())).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, UnreadableSetting> {
        seed.deserialize(SettingValue(self.value.take().ok_or_else(UnreadableSetting::default)?))
    }
}

/// A variant of an enum, written as a table with one key.
struct TableVariant<'t> {
    name: DeString<'t>,
    value: SettingValue<'t>,
}

impl<'de, 't> EnumAccess<'de> for TableVariant<'t> {
    type Error = UnreadableSetting;
    type Variant = SettingValue<'t>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, SettingValue<'t>), UnreadableSetting> {
        Ok((seed.deserialize(owned(self.name))?, self.value))
    }
}

impl<'de> VariantAccess<'de> for SettingValue<'_> {
    type Error = UnreadableSetting;

    fn unit_variant(self) -> Result<(), UnreadableSetting> {
        Err(UnreadableSetting::default())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, UnreadableSetting> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, UnreadableSetting> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnreadableSetting> {
        self.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase", deny_unknown_fields)]
    struct Section {
        word: String,
        mode: Mode,
        #[serde(default)]
        missing: Option<u8>,
        numbers: Vec<f64>,
        large: u64,
        anything: BTreeMap<String, serde_json::Value>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Off,
        Level(u8),
    }

    fn read(text: &str) -> Result<Section, Option<Range<usize>>> {
        let table = DeTable::parse(text).unwrap().into_inner();
        Section::deserialize(SettingValue::of(table)).map_err(|error| error.span)
    }

    const REST: &str = "numbers = [1.5, inf, -2e3]\nlarge = 0xffff_ffff_ffff_ffff\n";

    #[test]
    fn values_of_every_kind_are_read_as_the_toml_crate_reads_them() {
        let anything = "anything = { a = [1, -2, true], b = { c = 'd' } }";
        for mode in ["'off'", "{ level = 3 }"] {
            let text = format!("word = 'w'\nmode = {mode}\n{REST}{anything}");
            assert_eq!(read(&text).unwrap(), toml::from_str(&text).unwrap());
        }
        let dated = format!("word = 'w'\nmode = 'off'\n{REST}anything = {{ day = 1979-05-27 }}");
        assert_eq!(read(&dated).unwrap().anything["day"], "1979-05-27");
    }

    #[test]
    fn an_error_has_the_position_of_the_innermost_value() {
        for (wrong, place) in [
            ("word = 'w'\nmode = 'loud'\n", "'loud'"),
            ("word = 'w'\nmode = { level = 300 }\n", "300"),
            ("mode = 'off'\nword = 77\n", "77"),
        ] {
            let text = format!("{wrong}{REST}anything = {{}}");
            let at = text.find(place).unwrap();
            assert_eq!(read(&text), Err(Some(at..at + place.len())), "{wrong}");
        }
    }
}
