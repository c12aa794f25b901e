//! The TLS configuration of the HTTP client: rustls with the certificates of the operating system.
//!
//! `haft-mcp`, `haft-openai` and `haft-local` have similar modules.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Builds the TLS configuration with the default [`CryptoProvider`] of the process, or with ring if
/// no default is set.
///
/// Without system certificates, as in small containers, the configuration trusts no certificate.
pub(super) fn client_config() -> Result<ClientConfig, Error> {
    let ring = || Arc::new(rustls::crypto::ring::default_provider());
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ring);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder
        .clone()
        .with_platform_verifier()
        .unwrap_or_else(|_| builder.with_root_certificates(RootCertStore::empty()));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
