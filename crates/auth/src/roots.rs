//! The trusted certificate authorities: those of the system, and configured ones.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use gladhand_tls::client_builder;
use reqwest::{Certificate, Client, ClientBuilder};

/// The variable that names a file which replaces the system's authorities.
pub const SSL_CERT_FILE: &str = "SSL_CERT_FILE";

/// The maximum size of a certificate file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Authorities that are trusted in addition to those of the system. Default: none.
#[derive(Clone, Default)]
pub struct Roots {
    more: Vec<Certificate>,
}

/// Why a certificate file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadRoots {
    /// The file cannot be read.
    #[error("{}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file contains no usable certificates.
    #[error("{}: {problem}", file.display())]
    NoCertificates {
        /// The file.
        file: PathBuf,
        /// The defect.
        problem: &'static str,
    },
}

impl Roots {
    /// Reads the authorities from a PEM file, if one is given. Reports errors in it, or in the file that
    /// `SSL_CERT_FILE` names.
    pub fn read(file: Option<&Path>) -> Result<Self, BadRoots> {
        if let Some(system) = std::env::var_os(SSL_CERT_FILE).filter(|file| !file.is_empty()) {
            // This file is used in every place that loads the system's authorities.
            certificates(Path::new(&system))?;
        }
        let more = file.map(certificates).transpose()?.unwrap_or_default();
        Ok(Self { more })
    }

    /// Creates a client that trusts these authorities, with the other options from `options`.
    pub fn client(&self, options: impl Fn(ClientBuilder) -> ClientBuilder) -> reqwest::Result<Client> {
        let more = || self.more.iter().cloned();
        let client = options(client_builder().tls_certs_merge(more())).build();
        // A machine without system authorities can still reach servers that do not need them.
        client.or_else(|_| options(client_builder().tls_certs_only(more())).build())
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roots").field("more", &self.more.len()).finish()
    }
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, BadRoots> {
    let wrong = |problem| BadRoots::NoCertificates { file: file.to_owned(), problem };
    let unreadable = |source| BadRoots::Unreadable { file: file.to_owned(), source };
    // A device or a pipe could be read without end.
    let about = std::fs::metadata(file).map_err(unreadable)?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return Err(wrong("not a regular file of at most 1 MiB"));
    }
    let mut pem = Vec::new();
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    opened.take(MAX_FILE_BYTES).read_to_end(&mut pem).map_err(unreadable)?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|_| wrong("not a PEM file"))?;
    if certificates.is_empty() {
        return Err(wrong("no certificate in it"));
    }
    // The PEM parser does not check the content of certificates; building a client does.
    match client_builder().tls_certs_only(certificates.iter().cloned()).build() {
        Ok(_) => Ok(certificates),
        Err(_) => Err(wrong("a certificate in it cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defect_of_a_certificate_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let complaint = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Roots::read(Some(&file)).unwrap_err().to_string()
        };
        for (text, problem) in [
            ("", "no certificate in it"),
            ("hello", "no certificate in it"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "not a PEM file"),
            (
                "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n",
                "a certificate in it cannot be read",
            ),
        ] {
            assert_eq!(complaint(text), format!("{}: {problem}", file.display()));
        }
        std::fs::remove_file(&file).unwrap();
        assert!(Roots::read(Some(&file)).unwrap_err().to_string().contains("No such file"));
        assert!(Roots::read(None).is_ok());
        #[cfg(unix)]
        for endless in ["/dev/zero", "/dev/null", "/"] {
            let problem = Roots::read(Some(Path::new(endless))).unwrap_err().to_string();
            assert_eq!(problem, format!("{endless}: not a regular file of at most 1 MiB"));
        }
        std::fs::File::create(&file).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(Roots::read(Some(&file)).unwrap_err().to_string().contains("at most 1 MiB"));
    }
}
