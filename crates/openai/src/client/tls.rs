//! The TLS configuration of HTTP clients: rustls on ring, with the system's certificates.
//!
//! Duplicated in `haft-local`: their only shared dependency is the core, and it has no sockets.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Trusted certificate authorities.
pub(super) enum Roots {
    /// The certificates of the operating system.
    System,
    /// No certificates: every TLS connection fails. Works in a container without certificates.
    None,
}

/// Builds the configuration with the process's default [`CryptoProvider`], or else with ring.
pub(super) fn config(roots: &Roots) -> Result<ClientConfig, Error> {
    let ring = || Arc::new(rustls::crypto::ring::default_provider());
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ring);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match roots {
        Roots::System => builder.with_platform_verifier()?,
        Roots::None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
