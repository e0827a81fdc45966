//! The names of sessions on the wire.

use std::fmt;

/// Names a session towards its peer. A client that knows it may use the session, so it is never logged.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionId(u128);

impl SessionId {
    /// A new random id that cannot be guessed.
    pub(super) fn draw() -> Self {
        Self(u128::from_ne_bytes(gladhand_system::random_bytes()))
    }

    /// Reads one as it is written.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        // Checks all digits in one pass, which needs no branch per digit.
        let (mut values, mut are_digits) = ([0; 32], true);
        for (value, digit) in values.iter_mut().zip(digits) {
            let is_letter = (b'a'..=b'f').contains(digit);
            are_digits &= is_letter | digit.is_ascii_digit();
            *value = (digit & 0xf) + 9 * u8::from(is_letter);
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(values.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        are_digits.then_some(Self(u128::from_be_bytes(bytes)))
    }

    /// As it goes over the wire.
    pub(super) fn written(self) -> String {
        format!("{:032x}", self.0)
    }
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
        let known = SessionId(0x0123_4567_89ab_cdef << 64 | 1);
        assert_eq!(SessionId::read("0123456789abcdef0000000000000001"), Some(known));
        assert_eq!(format!("{id:?}"), "[redacted]");
        let wrong = [("", 0), ("0", 1), ("0", 31), ("0", 33), ("F", 32), ("g", 32), ("/", 32), ("+", 32)];
        for wrong in wrong.map(|(digit, times)| digit.repeat(times)) {
            assert_eq!(SessionId::read(&wrong), None, "{wrong}");
        }
    }
}
