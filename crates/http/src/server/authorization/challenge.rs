use http::HeaderValue;

use super::ProtectedResource;

/// Returns the value of `WWW-Authenticate` for a request without a valid token (RFC 6750, section
/// 3; RFC 9728, section 5.1). `fault` describes the token of the request, if it has one.
pub(in crate::server) fn bearer_challenge(
    resource: Option<&ProtectedResource>,
    fault: Option<&str>,
) -> HeaderValue {
    let mut parameters = Vec::new();
    if let Some(fault) = fault {
        parameters.push(("error", "invalid_token".to_owned()));
        if resource.is_some() {
            parameters.push(("error_description", fault.to_owned()));
        }
    }
    if let Some(resource) = resource {
        parameters.extend(resource_parameters(resource, resource.scopes().iter().map(String::as_str)));
    }
    header(&parameters)
}

/// Returns the value of `WWW-Authenticate` for a request whose token lacks one of `scopes` (RFC
/// 6750, section 3.1).
pub(in crate::server) fn insufficient_scope<'a>(
    resource: &ProtectedResource,
    scopes: impl IntoIterator<Item = &'a str>,
) -> HeaderValue {
    let mut parameters = vec![("error", "insufficient_scope".to_owned())];
    parameters.extend(resource_parameters(resource, scopes));
    header(&parameters)
}

fn resource_parameters<'a>(
    resource: &ProtectedResource,
    scopes: impl IntoIterator<Item = &'a str>,
) -> Vec<(&'static str, String)> {
    let mut parameters = vec![("resource_metadata", resource.metadata_url().to_owned())];
    let scopes = scopes.into_iter().collect::<Vec<_>>().join(" ");
    if !scopes.is_empty() {
        parameters.push(("scope", scopes));
    }
    parameters
}

/// Returns a challenge of the scheme `Bearer`. Characters that a quoted string cannot contain
/// without an escape are removed from the values (RFC 6750, section 3).
fn header(parameters: &[(&str, String)]) -> HeaderValue {
    let is_permitted = |char: &char| matches!(char, ' '..='~') && !matches!(char, '"' | '\\');
    let parameter = |(name, value): &(&str, String)| {
        let value: String = value.chars().filter(is_permitted).collect();
        format!("{name}=\"{value}\"")
    };
    let parameters = parameters.iter().map(parameter).collect::<Vec<_>>().join(", ");
    let value = format!("Bearer {parameters}");
    HeaderValue::from_str(value.trim_end()).unwrap_or(HeaderValue::from_static("Bearer"))
}
