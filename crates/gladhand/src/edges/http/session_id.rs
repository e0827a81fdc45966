//! The names of sessions on the wire.

use std::fmt;

/// Names a session towards its peer. Whoever knows it may use the session, so it is never shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionId(u128);

impl SessionId {
    /// A fresh one that nobody can guess.
    pub(super) fn draw() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has random bytes once it has booted");
        Self(u128::from_ne_bytes(bytes))
    }

    /// Reads one as it is written.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        let (high, low) = digits.split_at(16);
        Some(Self(u128::from(half(high)?) << 64 | u128::from(half(low)?)))
    }

    /// As it goes over the wire.
    pub(super) fn written(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// Half of the digits.
fn half(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written_and_never_shown() {
        let id = SessionId::draw();
        assert_eq!(SessionId::read(&id.written()), Some(id));
        assert_ne!(id, SessionId::draw());
        assert_eq!(format!("{id:?}"), "[redacted]");
        for wrong in ["", "0", &"0".repeat(31), &"0".repeat(33), &"F".repeat(32), &format!("+{}", "0".repeat(31))] {
            assert_eq!(SessionId::read(wrong), None, "{wrong}");
        }
    }
}
