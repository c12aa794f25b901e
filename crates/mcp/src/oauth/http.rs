use std::{sync::Arc, time::Duration};

use reqwest::redirect::Policy;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};

use super::address::AddressFilter;
use crate::http;

/// The maximum duration of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum length of a response body, in bytes. Metadata and tokens are short.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The HTTP client for metadata and tokens. It connects to permitted addresses only.
pub(super) struct OAuthHttp {
    filter: AddressFilter,
    /// A client that follows redirects within an origin.
    following: reqwest::Client,
    /// A client that follows no redirects.
    stopping: reqwest::Client,
}

impl OAuthHttp {
    /// Creates a client for the authorization of the server at `url`.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault.
    pub(super) async fn new(url: &str) -> Result<Self, String> {
        let url = reqwest::Url::parse(url).map_err(|error| format!("invalid URL: {error}"))?;
        let filter = AddressFilter::for_server(&url).await;
        let client = |redirects: Policy| {
            let builder = http::client_builder()?.redirect(redirects);
            let builder = builder.dns_resolver(Arc::new(filter)).timeout(TIMEOUT);
            builder.build().map_err(|error| format!("cannot create the HTTP client: {error}"))
        };
        let following = client(Policy::custom(http::follow_within_origin))?;
        let stopping = client(Policy::none())?;
        Ok(Self { filter, following, stopping })
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let client = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Follow => &self.following,
                _ => &self.stopping,
            };
            let request = reqwest::Request::try_from(request.request)?;
            if !self.filter.permits_host(request.url()) {
                let host = request.url().host_str().unwrap_or_default().to_owned();
                return Err(OAuthHttpClientError::from(format!("{host} is no permitted address")));
            }
            let mut response = client.execute(request).await?;
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                body.extend_from_slice(&chunk);
                if body.len() > MAX_BODY_BYTES {
                    return Err(format!("a response exceeds {MAX_BODY_BYTES} bytes").into());
                }
            }
            let mut received = ::http::Response::new(body);
            *received.status_mut() = response.status();
            *received.headers_mut() = std::mem::take(response.headers_mut());
            Ok(received)
        })
    }
}
