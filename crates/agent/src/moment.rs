//! Timestamps and their text formats.

use std::time::Duration;

use gladhand_core::time::Utc;

/// A timestamp in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// The current time.
    pub fn now() -> Self {
        Self(gladhand_system::since_1970().as_millis().try_into().unwrap_or(u64::MAX))
    }

    /// As in `2026-01-01T00:00:00.000Z`.
    pub fn text(self) -> String {
        self.utc().to_string()
    }

    /// The folder of the day, as in `2026/01/01`.
    pub(crate) fn folder(self) -> String {
        let Utc { year, month, day, .. } = self.utc();
        format!("{year:04}/{month:02}/{day:02}")
    }

    /// As in `20260101-000000000`.
    pub(crate) fn stamp(self) -> String {
        let Utc { year, month, day, hour, minute, second, millis } = self.utc();
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}{millis:03}")
    }

    fn utc(self) -> Utc {
        Utc::since_1970(Duration::from_millis(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_to_the_millisecond() {
        let moment = Moment(1_794_705_293_015);
        assert_eq!(moment.text(), "2026-11-15T01:14:53.015Z");
        assert_eq!((moment.folder().as_str(), moment.stamp().as_str()), ("2026/11/15", "20261115-011453015"));
        assert_eq!(Moment(0).text(), "1970-01-01T00:00:00.000Z");
    }
}
