//! The TLS configuration of HTTP clients: rustls on ring, with the system's certificates.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Trusted certificate authorities.
pub(super) enum Roots {
    /// Those of the operating system.
    System,
    /// None: every TLS connection fails. Reads no certificates, so it also works in a container without any.
    None,
}

/// Builds the configuration with the process's default [`CryptoProvider`], or with ring if there is none.
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
