//! Being written.

use gladhand_wire::TextPolicy;

use crate::side::{Claim, Dialect};

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "a2e",
    versions: &[],
    text: TextPolicy::UNDECIDED,
    has_tokens: true,
    claim: |_| Claim::No,
    server: |_| unimplemented!(),
    client: |_| unimplemented!(),
};
