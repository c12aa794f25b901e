//! Redaction of secrets in the arguments of audit records.

mod words;

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Value};

use self::words::Announced;
use haft_core::{ToolDefinition, limits, text::truncate};

/// The replacement for a redacted value.
const REDACTED: &str = "[redacted]";

/// Substrings that mark a name as the name of a secret. Names are compared in lower case and
/// without separators.
const SECRET_SUBSTRINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "subscriptionkey",
    "masterkey",
    "sshkey",
    "authorization",
    "bearer",
    "sessionid",
    "mnemonic",
    "seedphrase",
    "recoverycode",
    "cardnumber",
    "securitycode",
    "connectionstring",
    "databaseurl",
];

/// Whole words that mark a name as the name of a secret: `pin` marks `card_pin`, but not
/// `shopping`.
const SECRET_WORDS: &[&str] = &[
    "auth", "cookie", "cookies", "cvc", "cvv", "dsn", "jwt", "jwts", "otp", "pass", "pin", "pwd", "ssn",
    "totp",
];

/// Suffixes that mark the parameter of a URL as a secret, besides those of other names. A presigned
/// URL has `X-Amz-Signature`, `X-Goog-Signature`, `Signature` or `sig`, and Google reads API keys
/// from `key`.
const URL_SECRET_SUFFIXES: &[&str] = &["signature", "hmac"];
const URL_SECRETS: &[&str] = &["sig", "sign", "key"];

/// The marks and the label of a private key in PEM format (RFC 7468) and in similar formats.
const PEM_BEGIN: &str = "BEGIN ";
const PEM_END: &str = "END ";
const PEM_SECRET: &str = "PRIVATE KEY";
/// The maximum length of a label, in bytes.
const MAX_LABEL_BYTES: usize = 64;

/// Suffixes that mark a name as the name of a secret, as in `accesstoken` and `dbpwd`.
const SECRET_SUFFIXES: &[&str] = &["token", "tokens", "pwd", "dbpass", "userpass"];

/// The suffix of members that contain a count, such as `max_tokens`. A numeric value of a member
/// with this suffix is not redacted.
const COUNT_SUFFIX: &str = "tokens";

/// Keys of members whose value may be the name of a secret, for example in
/// `{"name": "Authorization", "value": "…"}`.
const NAME_KEYS: &[&str] = &["name", "key", "header", "field", "parameter", "variable"];

/// Returns the arguments of a call for its audit record, with redacted secrets.
///
/// `text` contains the arguments as received, and `value` the validated arguments. If `value` is
/// `None`, `text` is parsed. If `text` is not a JSON object or exceeds [`limits::ARGUMENT_BYTES`],
/// only its length is returned.
pub(super) fn redact(definition: Option<&ToolDefinition>, text: &str, value: Option<&Value>) -> Value {
    let parsed = || (text.len() <= limits::ARGUMENT_BYTES).then(|| serde_json::from_str(text).ok())?;
    let Some(Value::Object(arguments)) = value.cloned().or_else(parsed) else {
        return Value::String(length_marker(text, "no JSON object"));
    };
    // The tool is unknown. Without its schema, any argument could be a secret, so all values are
    // redacted.
    let Some(definition) = definition else { return redact_all(arguments) };
    let secrets = definition.input_schema().secret_members();
    if secrets.is_whole_value {
        return redact_all(arguments);
    }
    let names = definition.policy().redacted.iter().chain(&secrets.names);
    Redactor { names: names.map(|name| normalize(name)).collect() }.redact_members(arguments)
}

/// Returns the replacement for `text`, with its length. `fault` is the reason why its members
/// cannot be redacted.
fn length_marker(text: &str, fault: &str) -> String {
    format!("[{} bytes that are {fault}]", text.len())
}

fn redact_all(arguments: Map<String, Value>) -> Value {
    arguments.into_iter().map(|(name, _)| (name, Value::from(REDACTED))).collect()
}

struct Redactor {
    /// The names of the members declared as secret in the tool's policy or input schema, in the
    /// form returned by [`normalize`].
    names: BTreeSet<String>,
}

impl Redactor {
    fn redact_members(&self, members: Map<String, Value>) -> Value {
        let is_secret_name = |(name, value): (&String, &Value)| {
            NAME_KEYS.contains(&normalize(name).as_str())
                && value.as_str().is_some_and(|it| self.must_redact(it, &Value::from(it)))
        };
        let names_a_secret = members.iter().any(is_secret_name);
        let members = members.into_iter().map(|(name, value)| {
            let is_value = names_a_secret && matches!(normalize(&name).as_str(), "value" | "values");
            let is_secret = is_value || self.must_redact(&name, &value);
            let value = if is_secret { Value::from(REDACTED) } else { self.redact_value(value) };
            (name, value)
        });
        members.collect()
    }

    /// Returns `true` if `value`, the value of the member `name`, must be redacted.
    fn must_redact(&self, name: &str, value: &Value) -> bool {
        self.names.contains(&normalize(name)) || is_secret(name, value)
    }

    fn redact_value(&self, value: Value) -> Value {
        match value {
            Value::Object(members) => self.redact_members(members),
            Value::Array(items) => self.redact_items(items),
            Value::String(text) => Value::String(self.redact_text(text)),
            scalar => scalar,
        }
    }

    /// Redacts the items of a list, which may be the words of a command: `["--password", "…"]`.
    fn redact_items(&self, items: Vec<Value>) -> Value {
        let mut announced = Announced::Nothing;
        let redacted = items.into_iter().map(|item| {
            let before = std::mem::take(&mut announced);
            match item {
                Value::String(text) => {
                    announced = self.announced_by(&text);
                    Value::String(
                        self.redact_announced(&before, &text).unwrap_or_else(|| self.redact_text(text)),
                    )
                }
                Value::Number(number) if self.is_announced(&before, &Value::from(number.clone())) => {
                    REDACTED.into()
                }
                other => self.redact_value(other),
            }
        });
        redacted.collect()
    }

    /// Redacts secrets in `text`, a string value. JSON in `text` is parsed and redacted, because
    /// models often send JSON inside a string. An invalid or truncated JSON object or array is
    /// replaced with its length.
    fn redact_text(&self, text: String) -> String {
        let mut start = text.trim_start().chars();
        let is_json = match start.next() {
            Some('{' | '"') => true,
            Some('[') => matches!(start.as_str().trim_start().chars().next(), Some('{' | '[' | '"')),
            _ => false,
        };
        if !is_json {
            return self.redact_lines(&without_private_keys(&text));
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                let redacted = self.redact_value(value.clone());
                if redacted == value { text } else { redacted.to_string() }
            }
            Err(_) if text.trim_start().starts_with('"') => self.redact_lines(&without_private_keys(&text)),
            Err(_) => length_marker(&text, "not valid JSON"),
        }
    }

    /// Redacts each line of `text`. The lines that continue a redacted value are removed.
    fn redact_lines(&self, text: &str) -> String {
        let mut redacted = String::with_capacity(text.len());
        let mut is_secret = false;
        for line in text.split_inclusive('\n') {
            if is_secret && !begins_entry(line) {
                continue;
            }
            let entry = self.redact_entry(line);
            is_secret = entry.is_some();
            redacted += &entry.unwrap_or_else(|| self.redact_words(line));
        }
        redacted
    }

    /// Redacts the value if `line` is a header or a setting with the name of a secret, such as
    /// `Authorization: Bearer …` or `DB_PASSWORD=…`. The end of the line is kept. Returns `None`
    /// for other lines.
    fn redact_entry(&self, line: &str) -> Option<String> {
        let text = line.trim_end_matches(['\r', '\n']);
        let line_end = line.get(text.len()..).unwrap_or_default();
        let (name, value) = text.split_once([':', '='])?;
        let is_secret = !value.starts_with("//")
            && !name.trim().contains(char::is_whitespace)
            && self.must_redact(name, &Value::from(value));
        is_secret.then(|| {
            let mark = text.get(name.len()..=name.len()).unwrap_or_default();
            let space = if mark == ":" { " " } else { "" };
            format!("{name}{mark}{space}{REDACTED}{line_end}")
        })
    }

    /// Redacts `user:password` and the secret parameters in `word` if it is a URL. A user name
    /// without a password is kept. Other words are returned unchanged.
    fn redact_url(&self, word: &str) -> String {
        let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let host = authority.rsplit_once('@').filter(|(user, _)| user.contains(':'));
        let authority = host.map_or_else(|| authority.to_owned(), |(_, host)| format!("{REDACTED}@{host}"));
        let parts = path.split_inclusive(['?', '&', '#']).map(|part| {
            let Some((name, value)) = part.split_once('=') else { return part.to_owned() };
            if !is_url_secret(name) && !self.must_redact(name, &Value::from(value)) {
                return part.to_owned();
            }
            let is_separator = |end: &char| matches!(end, '?' | '&' | '#') || end.is_whitespace();
            let end = value.chars().next_back().filter(is_separator);
            format!("{name}={REDACTED}{}", end.map(String::from).unwrap_or_default())
        });
        format!("{scheme}://{authority}{}", parts.collect::<String>())
    }
}

/// Returns `text` with each private key in PEM format replaced. A key without an end is replaced to
/// the end of the text.
fn without_private_keys(text: &str) -> Cow<'_, str> {
    let mut rest = text;
    let mut redacted = String::new();
    while let Some((before, after)) = split_private_key(rest) {
        redacted += before;
        redacted += REDACTED;
        rest = after;
    }
    if redacted.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(redacted + rest) }
}

/// Returns the texts before and after the first private key in `text`.
fn split_private_key(text: &str) -> Option<(&str, &str)> {
    let is_key = |(mark, _): &(usize, &str)| {
        let before = text.get(..*mark).unwrap_or_default().trim_end_matches(' ');
        before.ends_with("--") && has_key_label(text, mark + PEM_BEGIN.len())
    };
    let (mark, _) = text.match_indices(PEM_BEGIN).find(is_key)?;
    let (before, key) = text.split_at(mark);
    let before = before.trim_end_matches(' ').trim_end_matches('-');
    let body = key.get(PEM_BEGIN.len()..).unwrap_or_default();
    let end = body.match_indices(PEM_END).find(|(index, _)| has_key_label(body, index + PEM_END.len()));
    let after = end.and_then(|(index, _)| {
        let end = body.get(index..)?;
        Some(end.get(end.find('-')?..)?.trim_start_matches('-'))
    });
    Some((before, after.unwrap_or_default()))
}

/// Returns `true` if the label at `start` of `text`, which ends with a dash, is that of a private
/// key.
fn has_key_label(text: &str, start: usize) -> bool {
    let label = truncate(text.get(start..).unwrap_or_default(), MAX_LABEL_BYTES);
    label.split_once('-').is_some_and(|(label, _)| label.contains(PEM_SECRET))
}

/// Returns `true` if the parameter `name` of a URL is a secret.
fn is_url_secret(name: &str) -> bool {
    let name = normalize(name);
    URL_SECRETS.contains(&name.as_str()) || URL_SECRET_SUFFIXES.iter().any(|end| name.ends_with(end))
}

/// Returns `true` if `line` is a header or a setting, and not the continuation of a value. The last
/// line of Base64 text may end with `=`, so the value must contain another character.
fn begins_entry(line: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    line.split_once([':', '=']).is_some_and(|(name, value)| {
        !name.is_empty()
            && name.chars().all(is_name_char)
            && value.contains(|c: char| c != '=' && !c.is_whitespace())
    })
}

/// Returns `true` if `name` is a typical name of a secret. `null`, booleans and counts such as
/// `max_tokens` are never secrets.
fn is_secret(name: &str, value: &Value) -> bool {
    if matches!(value, Value::Null | Value::Bool(_)) {
        return false;
    }
    let (normalized, words) = (normalize(name), split_words(name));
    let normalized = without_number(&normalized);
    if normalized.ends_with(COUNT_SUFFIX) && value.is_number() {
        return false;
    }
    SECRET_SUBSTRINGS.iter().any(|part| normalized.contains(part))
        || SECRET_SUFFIXES.iter().any(|end| normalized.ends_with(end))
        || words.iter().any(|word| SECRET_WORDS.contains(&without_number(word)) || word == "token")
}

/// Removes the digits at the end of `name`: `cvv2` becomes `cvv`.
fn without_number(name: &str) -> &str {
    name.trim_end_matches(|char: char| char.is_ascii_digit())
}

/// Removes the separators from `name` and converts it to lower case.
fn normalize(name: &str) -> String {
    name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Splits `name` into words in lower case. `api_key`, `api-key`, `apiKey` and `APIKey` have the
/// same words.
fn split_words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, char) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| chars.get(before));
        let is_hump = before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit())
            || chars.get(at + 1).is_some_and(|after| after.is_lowercase());
        if !char.is_alphanumeric() || (char.is_uppercase() && is_hump) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| char.is_alphanumeric()) {
            word.extend(char.to_lowercase());
        }
    }
    words
}
