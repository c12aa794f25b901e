//! HTTP clients: their common settings, redirects, and bounded bodies.

mod body;
mod retry_after;

use std::time::Duration;

use reqwest::{
    ClientBuilder, Url,
    header::{ACCEPT_ENCODING, HeaderMap, HeaderValue},
    redirect::{Action, Attempt, Policy},
};

pub use self::{
    body::{ReadBodyError, content_coding, read_body},
    retry_after::retry_after,
};
use crate::tls::{RootCertificates, client_config};

/// The default maximum time for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;

/// Returns the builder of an HTTP client with these settings:
///
/// - the TLS configuration of [`tls`](crate::tls) with `roots`,
/// - ten seconds for opening a connection,
/// - no redirects, because requests have credentials; see [`follow_within_origin`],
/// - the header `Accept-Encoding: identity`: without it, a server may use any coding (RFC 9110,
///   section 12.5.3), and the client decodes none,
/// - the user agent `haft/VERSION`,
/// - the proxy variables of the environment.
///
/// # Errors
///
/// Fails if the [TLS configuration](client_config) cannot be built.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_http::{client, tls::RootCertificates};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = client::builder(RootCertificates::SystemIfPresent)?;
/// let client = builder.timeout(Duration::from_secs(30)).build()?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
pub fn builder(roots: RootCertificates) -> Result<ClientBuilder, rustls::Error> {
    let codings = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(client_config(roots)?)
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .default_headers(codings)
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION"))))
}

/// Follows a redirect within the origin of the first request, at most five times. Other redirects
/// are errors. For [`Policy::custom`].
pub fn follow_within_origin(attempt: Attempt<'_>) -> Action {
    let origin = attempt.previous().first().map(Url::origin);
    if origin.is_some_and(|origin| origin != attempt.url().origin()) {
        attempt.error("the server redirects to another origin")
    } else if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error("the server redirects too often")
    } else {
        attempt.follow()
    }
}
