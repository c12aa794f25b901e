//! The header `WWW-Authenticate` (RFC 9110, section 11.6.1).

use std::fmt;

use ::http::{HeaderMap, HeaderValue, header::WWW_AUTHENTICATE};

/// The authentication scheme of access tokens (RFC 6750).
const BEARER: &str = "bearer";
/// The parameter with the URL of the metadata of the resource (RFC 9728, section 5.1). It can be in
/// a challenge of any scheme.
const RESOURCE_METADATA: &str = "resource_metadata";

/// The parameters of the challenges with the scheme `Bearer` in a response (RFC 9110, section
/// 11.6.1).
///
/// Reads several challenges in one header line and in several lines, spaces around `=`, quoted
/// pairs, and parameters without quotes. Of a repeated parameter, the first value counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BearerChallenge {
    /// The parameters, with names in lower case.
    parameters: Vec<(String, String)>,
}

/// A challenge of any scheme.
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl BearerChallenge {
    /// Returns the challenge in `headers`, or `None` if they have none.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(WWW_AUTHENTICATE).iter().map(HeaderValue::as_bytes);
        let challenges: Vec<_> = lines.flat_map(|line| parse(&String::from_utf8_lossy(line))).collect();
        let is_bearer = |challenge: &&Challenge| challenge.scheme.eq_ignore_ascii_case(BEARER);
        let mut parameters: Vec<_> =
            challenges.iter().filter(is_bearer).flat_map(|it| it.parameters.clone()).collect();
        let has_bearer = challenges.iter().any(|challenge| is_bearer(&challenge));
        if !parameters.iter().any(|(name, _)| name == RESOURCE_METADATA) {
            let others = challenges.into_iter().flat_map(|it| it.parameters);
            parameters.extend(others.filter(|(name, _)| name == RESOURCE_METADATA).take(1));
        }
        (has_bearer || !parameters.is_empty()).then_some(Self { parameters })
    }

    /// Returns the parameter `name`, which is in lower case.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// The challenge in the only form that rmcp reads: names in lower case, no spaces around `=`, and
/// quoted values. Contains the parameters of discovery, the scope first: rmcp searches for `scope=`
/// from the beginning.
impl fmt::Display for BearerChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")?;
        let mut separator = " ";
        for name in ["scope", "error", "resource_metadata"] {
            if let Some(value) = self.parameter(name).filter(|value| value.is_ascii()) {
                let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "{separator}{name}=\"{quoted}\"")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// Parses the challenges in `line`. Text that is no challenge is skipped.
fn parse(line: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches(|char: char| char.is_whitespace() || matches!(char, ',' | ';'));
        if rest.is_empty() {
            return challenges;
        }
        let (name, after) = split_while(rest, is_token_char);
        if name.is_empty() {
            // Not a token: continue after the next comma, or after a quoted text.
            rest = match rest.strip_prefix('"') {
                Some(quoted) => quoted_text(quoted).1,
                None => split_while(rest, |char| char != ',').1,
            };
            continue;
        }
        match after.trim_start().strip_prefix('=') {
            Some(value) => {
                let (value, after) = parameter_value(value.trim_start());
                if challenges.is_empty() {
                    challenges.push(Challenge::default());
                }
                if let Some(challenge) = challenges.last_mut() {
                    challenge.parameters.push((name.to_ascii_lowercase(), value));
                }
                rest = after;
            }
            None => {
                challenges.push(Challenge { scheme: name.to_owned(), parameters: Vec::new() });
                rest = without_token68(after);
            }
        }
    }
}

/// Returns the value at the beginning of `text`, and the text after it.
fn parameter_value(text: &str) -> (String, &str) {
    match text.strip_prefix('"') {
        Some(quoted) => quoted_text(quoted),
        None => {
            let is_value = |char: char| !char.is_whitespace() && !matches!(char, ',' | ';');
            let (value, after) = split_while(text, is_value);
            (value.to_owned(), after)
        }
    }
}

/// Returns the quoted string whose opening quote precedes `text`, and the text after its closing
/// quote. A string without one ends with the line.
fn quoted_text(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((index, char)) = chars.next() {
        match char {
            '"' => return (value, text.get(index + 1..).unwrap_or_default()),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            char => value.push(char),
        }
    }
    (value, "")
}

/// Removes the credentials at the beginning of `text`, such as those of the scheme `Negotiate`
/// (`token68` in RFC 9110, section 11.2).
fn without_token68(text: &str) -> &str {
    let is_char = |char: char| char.is_ascii_alphanumeric() || "-._~+/".contains(char);
    let (token, after) = split_while(text.trim_start(), is_char);
    let after = after.trim_start_matches('=').trim_start();
    if !token.is_empty() && (after.is_empty() || after.starts_with(',')) { after } else { text }
}

fn split_while(text: &str, predicate: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|char| !predicate(char)).unwrap_or(text.len()))
}

/// Returns `true` for a character of a token (RFC 9110, section 5.6.2).
fn is_token_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char)
}

#[cfg(test)]
mod tests;
