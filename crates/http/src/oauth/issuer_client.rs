use std::{fmt, sync::Arc, time::Duration};

use haft_core::text::ErrorChain;
use reqwest::{StatusCode, Url, redirect::Policy};

use super::address::AddressFilter;
use crate::{
    client::{self, ReadBodyError},
    tls::RootCertificates,
};

/// The maximum duration of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum length of a response body, in bytes. Metadata and tokens are short.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The media type of a request to a token endpoint (RFC 6749, section 4.1.3).
const FORM: &str = "application/x-www-form-urlencoded";
/// The error of [`IssuerClient::send`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The URL has another scheme than `https`, and the client does not permit `http`. The field
    /// is the origin of the URL.
    #[error("{0} is no https URL")]
    NotHttps(String),
    /// The host of the URL is an address that is not permitted.
    #[error("{0} is no permitted address")]
    ForbiddenAddress(String),
    /// The request failed.
    #[error(transparent)]
    Request(#[from] reqwest::Error),
    /// The body of the response cannot be read.
    #[error(transparent)]
    Body(#[from] ReadBodyError),
}

/// An HTTP client for the metadata and tokens of authorization servers. Metadata names URLs that
/// the client then requests, so it connects to permitted addresses only: to public ones, and to
/// addresses of the class (loopback or private) of the first server. If that server has an `https`
/// URL, requests go to `https` URLs only.
///
/// A request takes at most 30 seconds, and a response has at most 1 MiB.
pub struct IssuerClient {
    filter: AddressFilter,
    requires_https: bool,
    /// A client that follows redirects within an origin.
    following: reqwest::Client,
    /// A client that follows no redirects.
    stopping: reqwest::Client,
}

impl IssuerClient {
    /// Creates a client for the metadata of the server at `url`.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault.
    pub async fn new(url: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("invalid URL: {error}"))?;
        let filter = AddressFilter::for_server(&url).await;
        let client = |redirects: Policy| {
            let builder = client::builder(RootCertificates::SystemIfPresent)
                .map_err(|error| format!("invalid TLS configuration: {error}"))?;
            let builder = builder.redirect(redirects).dns_resolver(Arc::new(filter)).timeout(TIMEOUT);
            builder.build().map_err(|error| format!("cannot create the HTTP client: {error}"))
        };
        let following = client(Policy::custom(client::follow_within_origin))?;
        let stopping = client(Policy::none())?;
        Ok(Self { filter, requires_https: url.scheme() == "https", following, stopping })
    }

    /// Returns `true` if `url` may be an endpoint of an authorization server: an `https` URL, or an
    /// `http` URL if the server itself has one.
    pub fn permits_scheme(&self, url: &Url) -> bool {
        match url.scheme() {
            "https" => true,
            "http" => !self.requires_https,
            _ => false,
        }
    }

    /// Checks that [`permits_scheme`](Self::permits_scheme) is `true` for `url`.
    ///
    /// # Errors
    ///
    /// Fails with [`SendError::NotHttps`].
    pub fn check_scheme(&self, url: &Url) -> Result<(), SendError> {
        match self.permits_scheme(url) {
            true => Ok(()),
            false => Err(SendError::NotHttps(url.origin().ascii_serialization())),
        }
    }

    /// Requests `url` and returns the body of the response.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault, also for another status than 200.
    pub async fn get(&self, url: &Url) -> Result<Vec<u8>, String> {
        let request = self.following.get(url.clone()).build().map_err(|error| error.to_string())?;
        let response = self.send(request, true).await;
        let response = response.map_err(|error| ErrorChain(&error).to_string())?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(format!("HTTP {status}")),
        }
    }

    /// Sends `form` to `url`, and `client` in the header `Authorization` (RFC 6749, section 2.3.1).
    /// Follows no redirect, because the request has a secret.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault.
    pub async fn post_form(
        &self,
        url: &Url,
        client: Option<(String, String)>,
        form: &[(&str, String)],
    ) -> Result<http::Response<Vec<u8>>, String> {
        let encode = |fields: &[(&str, &str)]| {
            let mut encoded = url.clone();
            encoded.query_pairs_mut().clear().extend_pairs(fields);
            encoded.query().unwrap_or_default().to_owned()
        };
        let fields: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut request = self
            .stopping
            .post(url.clone())
            .header("accept", "application/json")
            .header("content-type", FORM)
            .body(encode(&fields));
        if let Some((id, secret)) = client {
            let [id, secret] = [id, secret].map(|text| encode(&[("", &text)])[1..].to_owned());
            request = request.basic_auth(id, Some(secret));
        }
        let request = request.build().map_err(|error| error.without_url().to_string())?;
        let response = self.send(request, false).await;
        response.map_err(|error| ErrorChain(&error).to_string())
    }

    /// Sends `request` and reads the body of the response. `follows_redirects` permits redirects
    /// within the origin.
    ///
    /// # Errors
    ///
    /// Fails if the URL is not permitted, or if there is no complete response. Any status is a
    /// response.
    pub async fn send(
        &self,
        request: reqwest::Request,
        follows_redirects: bool,
    ) -> Result<http::Response<Vec<u8>>, SendError> {
        self.check_scheme(request.url())?;
        if !self.filter.permits_host(request.url()) {
            let host = request.url().host_str().unwrap_or_default().to_owned();
            return Err(SendError::ForbiddenAddress(host));
        }
        let client = if follows_redirects { &self.following } else { &self.stopping };
        let mut response = client.execute(request).await?;
        let body = client::read_body(&mut response, MAX_BODY_BYTES).await?;
        let mut received = http::Response::new(body);
        *received.status_mut() = response.status();
        *received.headers_mut() = std::mem::take(response.headers_mut());
        Ok(received)
    }
}

impl fmt::Debug for IssuerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerClient")
            .field("filter", &self.filter)
            .field("requires_https", &self.requires_https)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::{IssuerClient, Url};

    /// The metadata of an `https` server does not lead to an `http` URL, also not on loopback.
    #[tokio::test]
    async fn https_server_has_no_http_endpoints() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/token", listener.local_addr().unwrap())).unwrap();
        let http = IssuerClient::new("https://127.0.0.1:1/mcp").await.unwrap();
        let failed = http.get(&url).await.unwrap_err();
        assert!(failed.ends_with("is no https URL"), "{failed}");
        let failed = http.post_form(&url, None, &[("client_secret", "s3cret".to_owned())]).await.unwrap_err();
        assert!(failed.ends_with("is no https URL"), "{failed}");
        let request = http.following.post(url.clone()).build().unwrap();
        let failed = http.send(request, true).await.unwrap_err();
        assert!(failed.to_string().ends_with("is no https URL"), "{failed}");
        tokio::select! {
            biased;
            accepted = listener.accept() => panic!("{accepted:?}"),
            () = async { tokio::task::yield_now().await } => {}
        }
        for (server, url, is_permitted) in [
            ("https://127.0.0.1:1/mcp", "https://127.0.0.1/token", true),
            ("https://127.0.0.1:1/mcp", "ftp://127.0.0.1/token", false),
            ("http://127.0.0.1:1/mcp", "http://127.0.0.1/token", true),
            ("http://127.0.0.1:1/mcp", "https://127.0.0.1/token", true),
            ("http://127.0.0.1:1/mcp", "javascript:alert(1)", false),
        ] {
            let http = IssuerClient::new(server).await.unwrap();
            assert_eq!(http.permits_scheme(&Url::parse(url).unwrap()), is_permitted, "{server} {url}");
        }
    }
}
