use haft_core::model::ModelError;
use reqwest::{
    Client,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::{Endpoint, parse_base_url};
use crate::tls::{RootCertificates, client_config};

/// Returns `text` after redaction by an endpoint with the given URL and headers.
fn redacted(url: &str, headers: &[(&'static str, &'static str)], text: &str) -> String {
    let headers =
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let (url, headers) = (parse_base_url(url, "").unwrap(), HeaderMap::from_iter(headers));
    let http = Client::builder()
        .tls_backend_preconfigured(client_config(RootCertificates::None).unwrap())
        .build()
        .unwrap();
    let endpoint = Endpoint::new(&url, headers, &[], &http).unwrap();
    match endpoint.redact(ModelError::InvalidResponse(text.into())) {
        ModelError::InvalidResponse(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn header_value_is_redacted() {
    let key = [("authorization", "Bearer sk-secret-1")];
    let redact = |text| redacted("http://localhost/v1", &key, text);
    assert_eq!(redact("no sk-secret-1, no \"Bearer sk-secret-1\""), "no [secret], no \"[secret]\"");
    assert_eq!(redact("Bearer of bad news"), "Bearer of bad news");
}

/// An excerpt of a response may end inside a secret. This partial secret must also be redacted.
#[test]
fn truncated_secret_is_redacted() {
    let key = [("authorization", "Bearer sk-secret-1")];
    assert_eq!(redacted("http://localhost/v1", &key, "no sk-secret…"), "no [secret]…");
    assert_eq!(redacted("http://localhost/v1", &key, "no sk-s…"), "no sk-s…");
}

/// Short values are not redacted, because they may occur inside other words.
#[test]
fn short_value_is_not_redacted() {
    assert_eq!(redacted("http://localhost/v1", &[("x-tier", "4")], "error 429 of 404"), "error 429 of 404");
}

#[test]
fn encoded_credentials_of_the_url_are_redacted() {
    let text = redacted("http://me:secret@localhost/v1", &[], "no Basic bWU6c2VjcmV0, no bWU6c2VjcmV0");
    assert_eq!(text, "no [secret], no [secret]");
}

#[test]
fn key_in_the_query_is_redacted() {
    let url = "http://localhost/v1?api-version=2026-01-01&key=sk-secret-1";
    assert_eq!(redacted(url, &[], "2026-01-01 sk-secret-1"), "2026-01-01 [secret]");
}

#[test]
fn request_has_path_query_and_headers() {
    let tls = client_config(RootCertificates::None).unwrap();
    let http = Client::builder().tls_backend_preconfigured(tls).build().unwrap();
    let url = parse_base_url("http://me:secret@localhost/v1/?api-version=1", "").unwrap();
    let headers = HeaderMap::from_iter([(HeaderName::from_static("x-team"), HeaderValue::from_static("a"))]);
    let endpoint = Endpoint::new(&url, headers, &[], &http).unwrap();
    let request = endpoint.build_request("/responses", b"{}".to_vec());
    assert_eq!(request.url().as_str(), "http://localhost/v1/responses?api-version=1");
    assert_eq!(endpoint.display_url("/responses"), "http://localhost/v1/responses");
    let request_with_query = endpoint.build_request("/m:stream?alt=sse", Vec::new());
    assert_eq!(request_with_query.url().as_str(), "http://localhost/v1/m:stream?api-version=1&alt=sse");
    assert_eq!(request.headers()["content-type"], "application/json");
    assert_eq!(request.headers()["authorization"], "Basic bWU6c2VjcmV0");
    assert_eq!(request.headers()["x-team"], "a");
}
