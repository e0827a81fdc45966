//! Where to listen.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen: a host and a port, or a socket in the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `127.0.0.1:8080`, `[::1]:0`, `localhost:8080`.
    Tcp(String),
    /// `unix:/run/gladhand.sock`.
    Unix(PathBuf),
}

/// The text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT, as in 127.0.0.1:8080, or unix:PATH")]
pub struct BadAddress;

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(BadAddress) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        let (host, port) = text.rsplit_once(':').ok_or(BadAddress)?;
        let is_host = !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'));
        match port.parse::<u16>() {
            Ok(_) if is_host => Ok(Self::Tcp(text.to_owned())),
            _ => Err(BadAddress),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_the_same() {
        for text in ["127.0.0.1:8080", "[::1]:0", "localhost:1", "unix:/run/a b.sock"] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "8080", ":8080", "localhost", "::1:80", "127.0.0.1:65536", "unix:", "127.0.0.1:"] {
            assert_eq!(text.parse::<Address>(), Err(BadAddress), "{text}");
        }
    }
}
