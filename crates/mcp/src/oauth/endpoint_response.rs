use std::fmt;

use haft_core::text::{truncate_with_ellipsis, without_hidden_chars};
use reqwest::StatusCode;
use serde_json::{Map, Value, json};

/// The maximum length of the error of an authorization server, in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// The fault in the response of a token or registration endpoint. Its text names members, and has
/// no value of a response other than an error.
#[derive(Debug)]
pub(super) enum EndpointError {
    /// An error of the endpoint (RFC 6749, section 5.2; RFC 7591, section 3.2.2).
    Rejected { error: String, description: Option<String> },
    /// A response that is neither a success nor an error in JSON.
    Invalid(String),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Rejected { error, description: Some(description) } => format!("{error}: {description}"),
            Self::Rejected { error, description: None } => error.clone(),
            Self::Invalid(reason) => reason.clone(),
        };
        f.write_str(&truncate_with_ellipsis(&without_hidden_chars(&text), MAX_ERROR_BYTES))
    }
}

impl EndpointError {
    /// Returns the error in the form of RFC 6749, section 5.2.
    pub(super) fn to_json(&self) -> Value {
        let clean = |text: &str| -> String {
            truncate_with_ellipsis(&without_hidden_chars(text), MAX_ERROR_BYTES).into_owned()
        };
        match self {
            Self::Rejected { error, description } => {
                json!({"error": clean(error), "error_description": description.as_deref().map(clean)})
            }
            Self::Invalid(reason) => json!({"error": "invalid_response", "error_description": clean(reason)}),
        }
    }
}

/// Returns the members of the token response `body` in the form of RFC 6749, section 5.1.
///
/// # Errors
///
/// Fails with another status than 2xx, with an error in `body`, whatever the status is, and without
/// an access token.
pub(super) fn token_response(status: StatusCode, body: &[u8]) -> Result<Map<String, Value>, EndpointError> {
    let mut members = members(status, body, "token", "access_token")?;
    normalize_token(&mut members);
    for name in ["access_token", "token_type"] {
        require_text(&members, "token", name)?;
    }
    Ok(members)
}

/// Changes `members`, those of a token response, to the form of RFC 6749, section 5.1:
///
/// - `expires_in` is an integer. A fraction is dropped, and text is parsed.
/// - `scope` is one text.
/// - `token_type` is `bearer` if it is absent, and in lower case if it is another form of it.
/// - Members that are `null`, empty or of another type are removed if they are optional.
pub(super) fn normalize_token(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    normalize(members, "expires_in", |value| seconds(value).map(Value::from));
    normalize(members, "scope", |value| scope(value).map(Value::from));
    normalize(members, "refresh_token", |value| Some(value.clone()).filter(|it| !text(it).is_empty()));
    let bearer = || Value::from("bearer");
    let token_type = members.entry("token_type").or_insert_with(bearer);
    if token_type.as_str().is_some_and(|it| it.trim().is_empty() || it.trim().eq_ignore_ascii_case("bearer"))
    {
        *token_type = bearer();
    }
}

/// Returns the members of the response `body` to a registration, in the form that rmcp reads. Of
/// these, only the id and the secret of the client are used.
///
/// # Errors
///
/// Fails with another status than 2xx, with an error in `body`, and without a client id.
pub(super) fn registration_response(
    status: StatusCode,
    body: &[u8],
) -> Result<Map<String, Value>, EndpointError> {
    let mut members = members(status, body, "registration", "client_id")?;
    members.retain(|name, value| !value.is_null() && matches!(name.as_str(), "client_id" | "client_secret"));
    normalize(&mut members, "client_id", |value| match value {
        Value::Number(number) => Some(number.to_string().into()),
        value => Some(value.clone()),
    });
    require_text(&members, "registration", "client_id")?;
    if members.contains_key("client_secret") && !members.get("client_secret").is_some_and(Value::is_string) {
        return Err(EndpointError::Invalid(
            "the member \"client_secret\" of the registration response is no text".to_owned(),
        ));
    }
    members.insert("redirect_uris".to_owned(), json!([]));
    Ok(members)
}

/// Returns the members of `body`, a response of the endpoint `kind`. An error in it counts unless
/// it has the member `result`.
fn members(
    status: StatusCode,
    body: &[u8],
    kind: &str,
    result: &str,
) -> Result<Map<String, Value>, EndpointError> {
    let Ok(members) = serde_json::from_slice::<Map<String, Value>>(body) else {
        return Err(EndpointError::Invalid(match status.is_success() {
            true => format!("the {kind} response is no JSON object"),
            false => format!("the {kind} endpoint returned HTTP {status}"),
        }));
    };
    let error = members.get("error").map(error_text).filter(|error| !error.is_empty());
    let description = members.get("error_description").map(error_text).filter(|it| !it.is_empty());
    let has_result = members.get(result).is_some_and(|value| !text(value).is_empty());
    match error {
        Some(error) if !status.is_success() || !has_result => {
            Err(EndpointError::Rejected { error, description })
        }
        _ if !status.is_success() => {
            Err(EndpointError::Invalid(format!("the {kind} endpoint returned HTTP {status}")))
        }
        _ => Ok(members),
    }
}

fn require_text(members: &Map<String, Value>, kind: &str, name: &str) -> Result<(), EndpointError> {
    let fault = match members.get(name) {
        Some(Value::String(text)) if !text.is_empty() => return Ok(()),
        Some(Value::String(_)) => "empty",
        Some(_) => "no text",
        None => "missing",
    };
    Err(EndpointError::Invalid(format!("the member {name:?} of the {kind} response is {fault}")))
}

/// Replaces the member `name`, or removes it if `change` returns `None`.
fn normalize(members: &mut Map<String, Value>, name: &str, change: impl Fn(&Value) -> Option<Value>) {
    if let Some(value) = members.remove(name).as_ref().and_then(change) {
        members.insert(name.to_owned(), value);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the text of an error, which some servers send as an object with a code and a message.
fn error_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(false) => String::new(),
        Value::Object(members) => {
            let parts =
                ["code", "type", "message"].into_iter().filter_map(|name| members.get(name)?.as_str());
            match parts.collect::<Vec<_>>().join(": ") {
                parts if parts.is_empty() => "an error without a text".to_owned(),
                parts => parts,
            }
        }
        other => other.to_string(),
    }
}

/// Returns a number of seconds without its fraction. `None` for another value, such as a negative
/// number.
fn seconds(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Number(number) => return number.as_u64().or_else(|| whole_seconds(number.as_f64()?)),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    number.parse().ok().or_else(|| whole_seconds(number.parse().ok()?))
}

fn whole_seconds(seconds: f64) -> Option<u64> {
    std::time::Duration::try_from_secs_f64(seconds).ok().map(|duration| duration.as_secs())
}

/// Returns the scopes of `value`, a text or a list of texts, separated by spaces.
fn scope(value: &Value) -> Option<String> {
    let scopes: Vec<_> = match value {
        Value::String(text) => text.split_whitespace().collect(),
        Value::Array(items) => items.iter().flat_map(|item| text(item).split_whitespace()).collect(),
        _ => Vec::new(),
    };
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

#[cfg(test)]
mod tests;
