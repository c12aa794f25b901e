use std::{sync::Arc, time::Duration};

use haft_core::text::ErrorChain;
use reqwest::{StatusCode, Url, redirect::Policy};
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
pub(crate) struct OAuthHttp {
    filter: AddressFilter,
    /// A client that follows redirects within an origin.
    following: reqwest::Client,
    /// A client that follows no redirects.
    stopping: reqwest::Client,
}

impl OAuthHttp {
    /// Creates a client for the metadata of the server at `url`.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault.
    pub(crate) async fn new(url: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("invalid URL: {error}"))?;
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

    /// Requests `url` and returns the body of the response.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault, also for another status than 200.
    pub(crate) async fn get(&self, url: &Url) -> Result<Vec<u8>, String> {
        let request = self.following.get(url.clone()).build().map_err(|error| error.to_string())?;
        let response = self.send(&self.following, request).await;
        let response = response.map_err(|error| ErrorChain(&*error).to_string())?;
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
    pub(super) async fn post_form(
        &self,
        url: &Url,
        client: Option<(String, String)>,
        form: &[(&str, String)],
    ) -> Result<::http::Response<Vec<u8>>, String> {
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
            .header("content-type", "application/x-www-form-urlencoded")
            .body(encode(&fields));
        if let Some((id, secret)) = client {
            let [id, secret] = [id, secret].map(|text| encode(&[("", &text)])[1..].to_owned());
            request = request.basic_auth(id, Some(secret));
        }
        let request = request.build().map_err(|error| error.without_url().to_string())?;
        let response = self.send(&self.stopping, request).await;
        response.map_err(|error| ErrorChain(&*error).to_string())
    }

    async fn send(
        &self,
        client: &reqwest::Client,
        request: reqwest::Request,
    ) -> Result<::http::Response<Vec<u8>>, OAuthHttpClientError> {
        if !self.filter.permits_host(request.url()) {
            let host = request.url().host_str().unwrap_or_default().to_owned();
            return Err(format!("{host} is no permitted address").into());
        }
        let mut response = client.execute(request).await?;
        let body = http::read_body(&mut response, MAX_BODY_BYTES).await?;
        let mut received = ::http::Response::new(body);
        *received.status_mut() = response.status();
        *received.headers_mut() = std::mem::take(response.headers_mut());
        Ok(received)
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let client = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Follow => &self.following,
                _ => &self.stopping,
            };
            self.send(client, reqwest::Request::try_from(request.request)?).await
        })
    }
}
