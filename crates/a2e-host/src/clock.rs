//! The time of day, which tests can replace.

use std::fmt;
use std::sync::Arc;

/// Returns the time in seconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Clock {
    /// A clock that returns the result of `time`.
    pub fn showing(time: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(time))
    }

    pub(crate) fn now(&self) -> f64 {
        (self.0)()
    }
}

impl Default for Clock {
    /// The clock of the machine.
    fn default() -> Self {
        Self::showing(crate::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
