use std::{sync::Arc, time::Duration};

use haft_core::text::ErrorChain;
use reqwest::{
    StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE},
    redirect::Policy,
};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use serde_json::Value;

use super::{
    address::AddressFilter,
    endpoint_response::{registration_response, token_response},
};
use crate::http::{self, challenge::BearerChallenge};

/// The maximum duration of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum length of a response body, in bytes. Metadata and tokens are short.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The media type of a request to a token endpoint (RFC 6749, section 4.1.3).
const FORM: &str = "application/x-www-form-urlencoded";
/// The byte order mark, which some programs write in front of JSON.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The HTTP client for metadata and tokens. It connects to permitted addresses only. For a server
/// with an `https` URL, it sends requests to `https` URLs only.
pub(crate) struct OAuthHttp {
    filter: AddressFilter,
    requires_https: bool,
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
        Ok(Self { filter, requires_https: url.scheme() == "https", following, stopping })
    }

    /// Returns `true` if `url` may be an endpoint of an authorization server: an `https` URL, or an
    /// `http` URL if the server itself has one.
    pub(super) fn permits_scheme(&self, url: &Url) -> bool {
        match url.scheme() {
            "https" => true,
            "http" => !self.requires_https,
            _ => false,
        }
    }

    /// Fails unless [`permits_scheme`](Self::permits_scheme).
    pub(super) fn check_scheme(&self, url: &Url) -> Result<(), String> {
        let origin = || url.origin().ascii_serialization();
        if self.permits_scheme(url) { Ok(()) } else { Err(format!("{} is no https URL", origin())) }
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
            .header("content-type", FORM)
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
        self.check_scheme(request.url())?;
        if !self.filter.permits_host(request.url()) {
            let host = request.url().host_str().unwrap_or_default().to_owned();
            return Err(format!("{host} is no permitted address").into());
        }
        let mut response = client.execute(request).await?;
        let mut body = http::read_body(&mut response, MAX_BODY_BYTES).await?;
        if body.starts_with(BYTE_ORDER_MARK) {
            body.drain(..BYTE_ORDER_MARK.len());
        }
        let mut received = ::http::Response::new(body);
        *received.status_mut() = response.status();
        *received.headers_mut() = std::mem::take(response.headers_mut());
        Ok(received)
    }
}

/// The client of rmcp, which reads responses in their exact form only. Lenient forms are rewritten.
impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let client = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Follow => &self.following,
                _ => &self.stopping,
            };
            let request = reqwest::Request::try_from(request.request)?;
            let is_post = request.method() == reqwest::Method::POST;
            let is_form = request.headers().get(CONTENT_TYPE).is_some_and(|it| it == FORM);
            let mut response = self.send(client, request).await?;
            match is_post {
                true if is_form => rewrite_token_response(&mut response),
                true => rewrite_registration_response(&mut response)?,
                false => rewrite_challenges(response.headers_mut()),
            }
            Ok(response)
        })
    }
}

/// Replaces `response` with a token or an error that rmcp reads. rmcp reports the text of an error
/// only in the form of RFC 6749, section 5.2.
fn rewrite_token_response(response: &mut ::http::Response<Vec<u8>>) {
    match token_response(response.status(), response.body()) {
        Ok(members) => replace(response, StatusCode::OK, &members.into()),
        Err(error) => replace(response, StatusCode::BAD_REQUEST, &error.to_json()),
    }
}

fn rewrite_registration_response(
    response: &mut ::http::Response<Vec<u8>>,
) -> Result<(), OAuthHttpClientError> {
    let members = registration_response(response.status(), response.body()).map_err(|it| it.to_string())?;
    replace(response, StatusCode::CREATED, &members.into());
    Ok(())
}

fn replace(response: &mut ::http::Response<Vec<u8>>, status: StatusCode, body: &Value) {
    *response.status_mut() = status;
    *response.body_mut() = body.to_string().into_bytes();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
}

/// Replaces the challenges of all schemes with one of the scheme `Bearer`.
fn rewrite_challenges(headers: &mut HeaderMap) {
    let challenge = BearerChallenge::of(headers);
    headers.remove(WWW_AUTHENTICATE);
    if let Some(value) = challenge.and_then(|it| HeaderValue::from_str(&it.to_string()).ok()) {
        headers.insert(WWW_AUTHENTICATE, value);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::{OAuthHttp, Url};

    /// The metadata of an `https` server does not lead to an `http` URL, also not on loopback.
    #[tokio::test]
    async fn https_server_has_no_http_endpoints() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/token", listener.local_addr().unwrap())).unwrap();
        let http = OAuthHttp::new("https://127.0.0.1:1/mcp").await.unwrap();
        let failed = http.get(&url).await.unwrap_err();
        assert!(failed.ends_with("is no https URL"), "{failed}");
        let failed = http.post_form(&url, None, &[("client_secret", "s3cret".to_owned())]).await.unwrap_err();
        assert!(failed.ends_with("is no https URL"), "{failed}");
        let request = http.following.post(url.clone()).build().unwrap();
        let failed = http.send(&http.following, request).await.unwrap_err();
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
            let http = OAuthHttp::new(server).await.unwrap();
            assert_eq!(http.permits_scheme(&Url::parse(url).unwrap()), is_permitted, "{server} {url}");
        }
    }
}
