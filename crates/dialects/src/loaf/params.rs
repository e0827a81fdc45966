//! Validates `params`: the available checks, and the error message of each (`loaf` §4).

use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue};

use super::errors::Error;
use super::text::Text;

/// The accepted `params` of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Params {
    /// Any value, which is not read.
    Ignored,
    /// An object, `null` or absent. The fields are checked in this order.
    Optional(&'static [Field]),
    /// An object. The fields are checked in this order.
    Required(&'static [Field]),
}

/// A field and its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The member's name.
    pub name: &'static str,
    /// The required type.
    pub check: Check,
}

/// The required type of a field. Optional fields may be `null` or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// A string that is not blank.
    RequiredString,
    /// A string. A blank string counts as absent.
    OptionalString,
    /// `true` or `false`.
    RequiredBoolean,
    /// `true` or `false`.
    OptionalBoolean,
    /// A finite number.
    OptionalNumber,
    /// An object.
    OptionalObject,
    /// Any value. One of the wrong type counts as absent.
    Anything,
}

impl Check {
    fn passes(self, value: Option<&RawValue>) -> bool {
        let kind = value.map_or(Kind::Null, Kind::of);
        match self {
            Self::RequiredString => value.and_then(Text::of).is_some_and(|text| !text.trimmed().is_empty()),
            Self::OptionalString => matches!(kind, Kind::String | Kind::Null),
            Self::RequiredBoolean => kind == Kind::Bool,
            Self::OptionalBoolean => matches!(kind, Kind::Bool | Kind::Null),
            Self::OptionalNumber => kind == Kind::Null || value.and_then(number).is_some(),
            Self::OptionalObject => matches!(kind, Kind::Object | Kind::Null),
            Self::Anything => true,
        }
    }

    fn problem(self) -> &'static str {
        match self {
            Self::RequiredString => "must be a non-empty string",
            Self::OptionalString => "must be a string",
            Self::RequiredBoolean | Self::OptionalBoolean => "must be a boolean",
            Self::OptionalNumber => "must be a finite number",
            Self::OptionalObject => "must be an object",
            Self::Anything => "must be any value",
        }
    }
}

/// A finite number.
fn number(raw: &RawValue) -> Option<f64> {
    (Kind::of(raw) == Kind::Number).then(|| raw.get().parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}

/// `params` that passed all checks.
#[derive(Debug, Default)]
pub(super) struct Checked<'a>(Members<'a>);

impl<'a> Checked<'a> {
    /// Checks the `params` of a method, and reports the first failed check.
    pub(super) fn check(method: &str, rule: Params, params: Option<&'a RawValue>) -> Result<Self, Error> {
        let (fields, may_be_missing) = match rule {
            Params::Ignored => return Ok(Self::default()),
            Params::Optional(fields) => (fields, true),
            Params::Required(fields) => (fields, false),
        };
        let members = match params {
            None if may_be_missing => Members::default(),
            Some(raw) if may_be_missing && Kind::of(raw) == Kind::Null => Members::default(),
            Some(raw) => Members::of(raw).ok_or_else(|| Error::not_an_object(method))?,
            None => return Err(Error::not_an_object(method)),
        };
        for field in fields {
            if !field.check.passes(members.raw(field.name)) {
                return Err(Error::invalid_field(method, field.name, field.check.problem()));
            }
        }
        Ok(Self(members))
    }

    /// A string, trimmed. `None` if it is absent or blank.
    pub(super) fn text(&self, name: &str) -> Option<Text<'a>> {
        self.0.raw(name).and_then(Text::of).map(Text::trimmed).filter(|text| !text.is_empty())
    }

    /// Whether a boolean is present and true.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.0.raw(name).is_some_and(|raw| raw.get() == "true")
    }

    /// A number. `None` if it is absent or `null`.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.0.raw(name).and_then(number)
    }

    /// The raw value, unchecked.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.raw(name)
    }

    /// An object, unchanged. `None` if it is absent or `null`.
    pub(super) fn object(&self, name: &str) -> Option<&'a RawValue> {
        self.0.some(name)
    }
}
