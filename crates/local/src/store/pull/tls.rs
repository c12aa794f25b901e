//! The TLS configuration for downloads: rustls with the certificates of the operating system.
//!
//! `haft-openai` has a similar module. The only crate that could contain a shared module is
//! `haft-core`, and it has no network code.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Builds the TLS configuration for requests to `url`, with the default [`CryptoProvider`] of the
/// process, or with ring if no default is set.
///
/// The system certificates are loaded even for an `http://` URL, because the server may redirect to
/// an `https://` URL. If there are none, as in small containers, the configuration for an `http://`
/// URL trusts no certificate.
pub(super) fn config_for(url: &str) -> Result<ClientConfig, Error> {
    let ring = || Arc::new(rustls::crypto::ring::default_provider());
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ring);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match builder.clone().with_platform_verifier() {
        Err(_) if url.to_ascii_lowercase().starts_with("http://") => {
            builder.with_root_certificates(RootCertStore::empty())
        }
        builder => builder?,
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
