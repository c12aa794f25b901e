use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::IssuerClient;

/// Fetches the members `T` of the metadata of `issuer` (RFC 8414, or OpenID Connect Discovery 1.0)
/// from its well-known URLs, the first that has them. The issuer in the metadata must be
/// [the same](is_same_issuer).
///
/// # Errors
///
/// Returns a description of the faults at all URLs.
pub async fn fetch_metadata<T: DeserializeOwned>(http: &IssuerClient, issuer: &str) -> Result<T, String> {
    let mut faults = Vec::new();
    for url in metadata_urls(issuer)? {
        match fetch(http, &url, issuer).await {
            Ok(metadata) => return Ok(metadata),
            Err(error) => faults.push(format!("{url}: {error}")),
        }
    }
    Err(faults.join("; "))
}

async fn fetch<T: DeserializeOwned>(http: &IssuerClient, url: &Url, issuer: &str) -> Result<T, String> {
    let text = http.get(url).await?;
    let invalid = |_| "no metadata of an authorization server".to_owned();
    let metadata: Value = serde_json::from_slice(&text).map_err(invalid)?;
    let found = metadata.get("issuer").and_then(Value::as_str).unwrap_or_default();
    if !is_same_issuer(found, issuer) {
        return Err(format!("the metadata is of the issuer {found:?}"));
    }
    serde_json::from_value(metadata).map_err(invalid)
}

/// Returns `true` if `first` and `second` are the same issuer. Only the slash of an empty path may
/// differ, because many programs add it to a URL.
///
/// # Examples
///
/// ```
/// use haft_http::oauth::is_same_issuer;
///
/// assert!(is_same_issuer("https://auth.example.org/", "https://auth.example.org"));
/// assert!(!is_same_issuer("https://auth.example.org/a/", "https://auth.example.org/a"));
/// ```
pub fn is_same_issuer(first: &str, second: &str) -> bool {
    let origin = |issuer: &str| {
        let url = Url::parse(issuer).ok()?;
        let origin = url.origin().ascii_serialization();
        (issuer.strip_suffix('/').unwrap_or(issuer) == origin).then_some(origin)
    };
    first == second || origin(first).is_some_and(|first| origin(second) == Some(first))
}

/// Returns the URLs of the metadata of `issuer` (RFC 8414, section 3; OpenID Connect Discovery 1.0,
/// section 4), in the order of the MCP specification.
fn metadata_urls(issuer: &str) -> Result<Vec<Url>, String> {
    let base = Url::parse(issuer).map_err(|error| format!("invalid issuer: {error}"))?;
    let is_identifier = matches!(base.scheme(), "http" | "https")
        && base.username().is_empty()
        && base.password().is_none()
        && base.query().is_none()
        && base.fragment().is_none();
    if !is_identifier {
        return Err("invalid issuer: no http or https URL without user, query and fragment".to_owned());
    }
    let path = base.path().trim_end_matches('/').to_owned();
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    let url = |path: String| {
        let mut url = base.clone();
        url.set_path(&path);
        url
    };
    Ok(paths.into_iter().map(url).collect())
}

#[cfg(test)]
mod tests {
    use super::{is_same_issuer, metadata_urls};

    #[test]
    fn only_the_slash_of_an_empty_path_may_differ() {
        for (first, second, is_same) in [
            ("https://a.example", "https://a.example", true),
            ("https://a.example/", "https://a.example", true),
            ("https://a.example/t", "https://a.example/t", true),
            ("https://a.example/t/", "https://a.example/t", false),
            ("https://a.example/T", "https://a.example/t", false),
            ("https://a.example:8443", "https://a.example", false),
            ("http://a.example", "https://a.example", false),
            ("https://u@a.example", "https://a.example", false),
            ("https://a.example?x", "https://a.example", false),
            ("", "https://a.example", false),
            ("", "", true),
        ] {
            assert_eq!(is_same_issuer(first, second), is_same, "{first} {second}");
        }
    }

    /// The paths of the specification, *Authorization Server Metadata Discovery*.
    #[test]
    fn metadata_is_requested_at_the_well_known_urls() {
        let urls = |issuer| -> Result<Vec<_>, _> {
            metadata_urls(issuer).map(|urls| urls.iter().map(ToString::to_string).collect())
        };
        let expected = ["oauth-authorization-server", "openid-configuration"]
            .map(|name| format!("https://auth.example.org/.well-known/{name}"));
        assert_eq!(urls("https://auth.example.org"), Ok(expected.to_vec()));
        let expected = ["oauth-authorization-server/tenant1", "openid-configuration/tenant1"]
            .map(|name| format!("https://auth.example.org/.well-known/{name}"));
        let appended = "https://auth.example.org/tenant1/.well-known/openid-configuration".to_owned();
        let expected: Vec<_> = expected.into_iter().chain([appended]).collect();
        assert_eq!(urls("https://auth.example.org/tenant1"), Ok(expected.clone()));
        assert_eq!(urls("https://auth.example.org/tenant1/"), Ok(expected));
        for issuer in [
            "a.example",
            "file:///etc",
            "https://u:p@a.example",
            "https://a.example/?x",
            "https://a.example#x",
        ] {
            assert!(urls(issuer).is_err(), "{issuer}");
        }
    }
}
