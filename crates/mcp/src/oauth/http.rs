use std::sync::Arc;

use haft_http::oauth::IssuerClient;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE},
};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use serde_json::Value;

use super::endpoint_response::{registration_response, token_response};
use crate::http::challenge::BearerChallenge;

/// The media type of a request to a token endpoint (RFC 6749, section 4.1.3).
const FORM: &str = "application/x-www-form-urlencoded";

/// The client of rmcp, which reads responses in their exact form only. Lenient forms are rewritten.
pub(super) struct OAuthHttp(pub(super) Arc<IssuerClient>);

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let follows_redirects = matches!(request.redirect_policy, OAuthHttpRedirectPolicy::Follow);
            let request = reqwest::Request::try_from(request.request)?;
            let is_post = request.method() == reqwest::Method::POST;
            let is_form = request.headers().get(CONTENT_TYPE).is_some_and(|it| it == FORM);
            let mut response = self.0.send(request, follows_redirects).await?;
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
