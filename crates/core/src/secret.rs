//! A credential that cannot be printed by accident.

use std::fmt;

use zeroize::Zeroizing;

/// A token or password. It prints as `[redacted]`, is read with [`Secret::expose`], and is wiped from memory on drop.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the credential in plain text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether two secrets are equal. The time taken depends only on their lengths.
    pub fn matches(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        // Compare every byte of the longer secret. A difference in length is a difference.
        let longest = ours.len().max(theirs.len());
        let mut difference = usize::from(ours.len() != theirs.len());
        for at in 0..longest {
            let (a, b) = (ours.get(at).copied().unwrap_or(0), theirs.get(at).copied().unwrap_or(0));
            difference = std::hint::black_box(difference | usize::from(a ^ b));
        }
        difference == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_compare_by_content_and_never_print() {
        assert!(Secret::new("abc").matches(&Secret::new("abc")));
        assert!(Secret::new("").matches(&Secret::new("")));
        for other in ["", "ab", "abcd", "abd", "abc\0"] {
            assert!(!Secret::new("abc").matches(&Secret::new(other)), "{other:?}");
        }
        assert_eq!(format!("{:?}", Secret::new("abc")), "[redacted]");
    }
}
