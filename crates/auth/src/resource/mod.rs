//! Guards our own endpoint, as an OAuth resource server (RFC 6750, RFC 9728).
//!
//! [`Principal`], [`Refusal`] and [`Withdrawal`] are what an endpoint needs of any guard. With the feature `guard`,
//! `Guard` is one that verifies tokens.

#[cfg(feature = "guard")]
mod guard;
mod principal;
mod refusal;

#[cfg(feature = "guard")]
pub use guard::{Dpop, Guard, Issuer, KeySource, KnownToken, Policy, ToolScopes};
pub use principal::{Principal, Withdrawal};
pub use refusal::{Refusal, Refused, Scheme};
