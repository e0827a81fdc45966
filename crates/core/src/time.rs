//! Timestamps as text, in UTC. Callers pass the time since 1970, because this crate reads no clock.

use std::fmt;
use std::time::Duration;

/// The last second of the year 9999. Later times are shown as this one, because their year would have five digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// A date and a time of day in UTC. As text: `2026-07-28T12:34:56.789Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// The year, from 1970 to 9999.
    pub year: u16,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
    /// The hour, from 0 to 23.
    pub hour: u8,
    /// The minute, from 0 to 59.
    pub minute: u8,
    /// The second, from 0 to 59.
    pub second: u8,
    /// The milliseconds, from 0 to 999.
    pub millis: u16,
}

impl Utc {
    /// The date and time at a duration after the start of 1970.
    pub fn since_1970(duration: Duration) -> Self {
        let seconds = duration.as_secs().min(LAST_SECOND);
        let (days, time) = (seconds / 86_400, seconds % 86_400);
        // Years are counted from March, so that the leap day is the last day of a year and months before it have fixed
        // lengths. 719468 days lie between the start of March in the year 0 and the start of 1970.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self {
            year: year as u16,
            month: month as u8,
            day: day as u8,
            hour: (time / 3600) as u8,
            minute: (time / 60 % 60) as u8,
            second: (time % 60) as u8,
            millis: duration.subsec_millis() as u16,
        }
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, millis } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_772_323_199, "2026-02-28T23:59:59.007Z"),
            (1_772_323_200, "2026-03-01T00:00:00.007Z"),
            (1_798_761_599, "2026-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
            (LAST_SECOND, "9999-12-31T23:59:59.007Z"),
            (u64::MAX, "9999-12-31T23:59:59.007Z"),
        ] {
            assert_eq!(Utc::since_1970(Duration::new(seconds, 7_999_999)).to_string(), expected);
        }
    }
}
