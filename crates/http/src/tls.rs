//! The TLS configuration of HTTP clients: rustls with the certificates of the operating system, and
//! HTTP/1.1.
//!
//! The cryptography is that of the default [`CryptoProvider`] of the process, or else ring.
//!
//! # Examples
//!
//! ```
//! use haft_http::tls::{RootCertificates, client_config};
//!
//! let config = client_config(RootCertificates::SystemIfPresent)?;
//! assert_eq!(config.alpn_protocols, [b"http/1.1"]);
//! # Ok::<(), rustls::Error>(())
//! ```

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// The certificate authorities that a TLS client trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RootCertificates {
    /// The certificates of the operating system. If there are none, as in small containers, the
    /// configuration is an error.
    System,
    /// The certificates of the operating system. If there are none, every TLS connection fails, and
    /// plain HTTP works.
    SystemIfPresent,
    /// No certificates, so every TLS connection fails. A client for plain HTTP then does not load
    /// those of the operating system.
    None,
}

/// Builds the TLS configuration of an HTTP/1.1 client with the default [`CryptoProvider`] of the
/// process, or with ring if there is no default.
///
/// # Errors
///
/// Fails if the provider supports neither TLS 1.2 nor TLS 1.3, or if the certificates of
/// [`RootCertificates::System`] cannot be loaded.
pub fn client_config(roots: RootCertificates) -> Result<ClientConfig, Error> {
    let ring = || Arc::new(rustls::crypto::ring::default_provider());
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ring);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let none = RootCertStore::empty;
    let builder = match roots {
        RootCertificates::System => builder.with_platform_verifier()?,
        RootCertificates::SystemIfPresent => builder
            .clone()
            .with_platform_verifier()
            .unwrap_or_else(|_| builder.with_root_certificates(none())),
        RootCertificates::None => builder.with_root_certificates(none()),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
