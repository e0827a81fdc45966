//! The time that the analysis of one file may take. Parsing takes quadratic time for some texts, such as a long row of
//! opening brackets.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Maximum time for one file. A scan looks at its own limit and at cancellation between two files.
const MAX_TIME: Duration = Duration::from_secs(2);

/// The time that is left for one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    until: Instant,
}

impl Budget {
    /// The budget of a file whose analysis begins now.
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + MAX_TIME }
    }

    pub(super) fn is_spent(self) -> bool {
        Instant::now() >= self.until
    }

    /// The answer to a parser that asks whether to continue.
    pub(super) fn next_step(self) -> ControlFlow<()> {
        if self.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
