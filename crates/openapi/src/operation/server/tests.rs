use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::{Value, json};

use super::document_servers;
use crate::document::Document;

/// Returns the base URL of an operation with the servers `own` in a document with `servers`, which
/// was fetched from `from`.
fn base_url(
    servers: Value,
    own: Option<Value>,
    from: Option<&str>,
    options: Options<'_>,
) -> Result<String, String> {
    let root = json!({"openapi": "3.1.0", "servers": servers});
    let from = from.map(|url| Url::parse(url).unwrap());
    let document = Document::parse(&root.to_string(), from, 10_000).ok().unwrap();
    let variables: BTreeMap<_, _> =
        options.variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let parse = |url: &&str| Url::parse(url).unwrap();
    let allowed: Vec<_> = options.allowed.iter().map(parse).collect();
    let servers = document_servers(&document, options.base_url.as_ref().map(parse), &variables, &allowed);
    let operation = own.map_or(json!({}), |own| json!({ "servers": own }));
    servers.base_url(&json!({}), &operation).map(String::from)
}

#[derive(Default)]
struct Options<'a> {
    base_url: Option<&'a str>,
    variables: &'a [(&'a str, &'a str)],
    allowed: &'a [&'a str],
}

fn servers(url: &str) -> Value {
    json!([{ "url": url }])
}

#[test]
fn first_server_is_used() {
    let two = json!([{"url": "https://a.example/v1"}, {"url": "https://b.example"}]);
    assert_eq!(base_url(two, None, None, Options::default()).unwrap(), "https://a.example/v1");
}

#[test]
fn variables_have_defaults_and_permitted_values() {
    let template = json!([{"url": "https://{region}.example/{version}", "variables": {
        "region": {"default": "eu", "enum": ["eu", "us"]}, "version": {"default": "v2"},
    }}]);
    let with =
        |variables| base_url(template.clone(), None, None, Options { variables, ..Options::default() });
    assert_eq!(with(&[]).unwrap(), "https://eu.example/v2");
    assert_eq!(with(&[("region", "us")]).unwrap(), "https://us.example/v2");
    assert!(with(&[("region", "evil.example/#")]).unwrap_err().contains("does not permit"));
    let undeclared = base_url(servers("https://{tenant}.example"), None, None, Options::default());
    assert!(undeclared.unwrap_err().contains("\"tenant\" of the server has no default: set it"));
}

#[test]
fn relative_servers_need_the_url_of_the_document() {
    let from = Some("https://api.example/docs/openapi.json");
    assert_eq!(base_url(servers("/v3"), None, from, Options::default()).unwrap(), "https://api.example/v3");
    assert_eq!(
        base_url(servers("v3"), None, from, Options::default()).unwrap(),
        "https://api.example/docs/v3"
    );
    assert_eq!(base_url(Value::Null, None, from, Options::default()).unwrap(), "https://api.example/");
    for relative in [servers("/v3"), Value::Null] {
        assert!(base_url(relative, None, None, Options::default()).unwrap_err().contains("set a base URL"));
    }
}

/// A document from one site cannot direct requests to another one, such as a metadata service.
#[test]
fn fetched_document_calls_its_own_origin_only() {
    let from = Some("https://docs.example/openapi.json");
    let foreign = servers("http://169.254.169.254/latest");
    let error = base_url(foreign.clone(), None, from, Options::default()).unwrap_err();
    assert!(error.contains("the server http://169.254.169.254 may not be called"), "{error}");
    let allowed = Options { allowed: &["http://169.254.169.254"], ..Options::default() };
    assert!(base_url(foreign.clone(), None, from, allowed).is_ok());
    let replaced = Options { base_url: Some("https://proxy.example/api"), ..Options::default() };
    assert_eq!(base_url(foreign, None, from, replaced).unwrap(), "https://proxy.example/api");
}

/// Credentials belong to the first server of the document. An operation cannot send them elsewhere.
#[test]
fn operation_calls_the_origin_of_the_document_only() {
    let of_operation = |url, allowed| {
        let options = Options { allowed, ..Options::default() };
        base_url(servers("https://api.example"), Some(servers(url)), None, options)
    };
    assert_eq!(of_operation("https://api.example/v2", &[]).unwrap(), "https://api.example/v2");
    assert!(of_operation("https://evil.example", &[]).unwrap_err().contains("may not be called"));
    assert!(of_operation("http://api.example", &[]).is_err());
    assert!(of_operation("https://uploads.example", &["https://uploads.example/x"]).is_ok());
}

#[test]
fn other_schemes_and_user_names_are_rejected() {
    for url in ["file:///etc/passwd", "ftp://example.org", "https://user:s3cret@example.org"] {
        let error = base_url(servers(url), None, None, Options::default()).unwrap_err();
        assert!(!error.contains("s3cret"), "{error}");
    }
}
