//! The TLS configuration of downloads: rustls on ring, with the system's certificates.
//!
//! Duplicated in `haft-openai`: their only shared dependency is the core, and it has no sockets.

use std::sync::Arc;

use rustls::{ClientConfig, Error, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Builds the configuration with the process's default [`CryptoProvider`], or else with ring.
pub(super) fn config() -> Result<ClientConfig, Error> {
    let ring = || Arc::new(rustls::crypto::ring::default_provider());
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ring);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_platform_verifier()?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
