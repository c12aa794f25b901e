//! The TLS configuration of HTTP clients: rustls with the certificates of the operating system. The
//! cryptography comes from the default provider of the process, or else from ring.
//!
//! `haft-local` has a similar module. A shared module would have to be in `haft-core`, which has no
//! network code.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// The certificate authorities that a TLS client trusts.
pub(super) enum RootCertificates {
    /// The certificates of the operating system.
    System,
    /// No certificates, so every TLS connection fails. A client for plain HTTP needs this variant
    /// in a container without system certificates, where `System` is an error.
    None,
}

/// Builds a TLS configuration with the process's default [`CryptoProvider`], or with ring if there
/// is no default.
pub(super) fn client_config(roots: &RootCertificates) -> Result<ClientConfig, Error> {
    let ring = || Arc::new(rustls::crypto::ring::default_provider());
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ring);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match roots {
        RootCertificates::System => builder.with_platform_verifier()?,
        RootCertificates::None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
