//! Being written.

use gladhand_wire::TextPolicy;

use crate::side::{Claim, Dialect};

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "fluxloop",
    versions: &[],
    text: TextPolicy::UNDECIDED,
    has_tokens: false,
    claim: |_| Claim::No,
    server: |_| unimplemented!(),
    client: |_| unimplemented!(),
};
