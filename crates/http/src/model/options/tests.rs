use reqwest::Request;
use secrecy::SecretString;

use super::{HttpOptions, KeyHeader, may_use_tls};
use crate::model::{BuildError, Connection, parse_base_url};

fn connect(options: &HttpOptions, base_url: &str, key: &str) -> Result<Connection, BuildError> {
    let url = parse_base_url(base_url, "http://localhost:8080/v1")?;
    let key = SecretString::from(key);
    options.connect(&url, (KeyHeader::Bearer, &key), &[("x-version", "1")], |_| "")
}

fn request(base_url: &str, key: &str) -> Request {
    connect(&HttpOptions::default(), base_url, key).unwrap().endpoint().build_request("/chat", Vec::new())
}

#[test]
fn trailing_slashes_are_removed() {
    for base_url in ["http://localhost:8080/v1", " http://localhost:8080/v1// "] {
        assert_eq!(request(base_url, "").url().as_str(), "http://localhost:8080/v1/chat");
    }
}

#[test]
fn key_is_in_its_header() {
    let url = parse_base_url("http://localhost", "").unwrap();
    let key = SecretString::from("sk-1");
    for (header, name, value) in [
        (KeyHeader::Bearer, "authorization", "Bearer sk-1"),
        (KeyHeader::Named("x-api-key"), "x-api-key", "sk-1"),
    ] {
        let connection = HttpOptions::default().connect(&url, (header, &key), &[], |_| "").unwrap();
        let request = connection.endpoint().build_request("", Vec::new());
        assert_eq!(request.headers()[name], value);
        assert_eq!(request.headers().len(), 3, "and content-type and accept-encoding");
    }
}

#[test]
fn header_of_the_program_replaces_that_of_the_api() {
    let headers = vec![("X-Version".to_owned(), SecretString::from("2"))];
    let options = HttpOptions { headers, ..HttpOptions::default() };
    let connection = connect(&options, "http://localhost", "").unwrap();
    let sent: Vec<_> = connection
        .endpoint()
        .build_request("", Vec::new())
        .headers()
        .get_all("x-version")
        .iter()
        .cloned()
        .collect();
    assert_eq!(sent, ["2"]);
}

#[test]
fn invalid_header_value_is_rejected_and_redacted() {
    let error = connect(&HttpOptions::default(), "http://localhost/v1", "sk-sec\nret").unwrap_err();
    assert!(matches!(error, BuildError::InvalidApiKey));
    let headers = vec![("x-team".to_owned(), SecretString::from("sk-sec\nret"))];
    let options = HttpOptions { headers, ..HttpOptions::default() };
    let error = connect(&options, "http://localhost/v1", "").unwrap_err();
    assert!(matches!(&error, BuildError::InvalidHeader { name } if name == "x-team"));
    assert!(!format!("{error:?} {error}").contains("sk-"));
}

#[test]
fn debug_output_of_a_request_has_no_key() {
    assert!(!format!("{:?}", request("http://localhost/v1", "sk-secret")).contains("sk-"));
}

#[test]
fn credentials_in_the_base_url_are_redacted() {
    for base_url in
        ["ftp://me:sk-secret@localhost/v1", "me:sk-secret@localhost", "http://h:p/v1?key=sk-secret"]
    {
        let error = connect(&HttpOptions::default(), base_url, "").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("sk-secret"), "{error}");
    }
    let request = request("http://me:sk%2Fsecret@localhost/v1", "");
    assert_eq!(request.url().as_str(), "http://localhost/v1/chat");
    assert_eq!(request.headers()["authorization"], "Basic bWU6c2svc2VjcmV0");
}

#[test]
fn key_replaces_credentials_in_the_base_url() {
    let request = request("http://me:secret@localhost/v1", "sk-1");
    let sent: Vec<_> = request.headers().get_all("authorization").iter().cloned().collect();
    assert_eq!(sent, ["Bearer sk-1"]);
}

#[test]
fn invalid_proxy_is_rejected_and_redacted() {
    for proxy in ["", "no proxy", "me:sk-secret@"] {
        let options = HttpOptions { proxy: Some(SecretString::from(proxy)), ..HttpOptions::default() };
        let error = connect(&options, "http://localhost/v1", "").unwrap_err();
        assert!(matches!(error, BuildError::InvalidProxy), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("sk-"), "{error}");
    }
}

/// `HTTP_PROXY` and `ALL_PROXY` set the proxy for plain HTTP. The TLS connection to an HTTPS proxy
/// is verified with the system certificates, even if the server has plain HTTP.
#[test]
fn https_proxy_in_the_environment_needs_certificates() {
    let uses_tls = |url: &str, variables: &[(&str, &str)]| {
        let variable = |name: &str| Some(variables.iter().find(|(key, _)| *key == name)?.1.to_owned());
        may_use_tls(&url.parse().unwrap(), variable)
    };
    assert!(!uses_tls("http://gpu:8080/v1", &[]));
    assert!(uses_tls("https://gpu:8080/v1", &[]));
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        assert!(uses_tls("http://gpu:8080/v1", &[(name, "HTTPS://proxy:3129")]), "{name}");
        assert!(!uses_tls("http://gpu:8080/v1", &[(name, "http://proxy:3128")]), "{name}");
    }
    assert!(!uses_tls("http://gpu:8080/v1", &[("HTTPS_PROXY", "https://proxy:3129")]));
}
