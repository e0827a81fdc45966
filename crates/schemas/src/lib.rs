//! JSON Schema checks with bounded cost.
//!
//! [`Check`] is one compiled schema. [`Schemas`] implements [`Validation`](gladhand_core::validation::Validation), through
//! which a hub validates the arguments and results of tools.

mod schema;
mod unique_items;
mod weight;

pub use schema::{Check, Problem, Schemas};
