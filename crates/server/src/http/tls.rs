//! Encryption with a certificate and a key from files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{Accept, TlsAcceptor};

/// The files, in PEM form, that make a server's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Tls {
    /// Reads the files.
    pub(super) fn encryption(&self) -> io::Result<Encryption> {
        let wrong = |path: &Path, problem: &str| io::Error::other(format!("{}: {problem}", path.display()));
        let read = |path: &Path| std::fs::read(path).map_err(|error| wrong(path, &error.to_string()));
        let pem = read(&self.certificate)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|_| wrong(&self.certificate, "not a PEM file"))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificate, "no certificate in it"));
        }
        let pem = read(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| wrong(&self.key, "no private key in it"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| wrong(&self.certificate, &error.to_string()))?;
        Ok(Encryption(Arc::new(config)))
    }
}

/// Encrypts connections.
#[derive(Debug)]
pub(super) struct Encryption(Arc<ServerConfig>);

impl Encryption {
    /// Performs the handshake on a connection.
    pub(super) fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Accept<S> {
        TlsAcceptor::from(Arc::clone(&self.0)).accept(stream)
    }
}
