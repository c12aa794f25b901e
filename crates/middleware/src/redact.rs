//! Arguments without what nobody should read who reads about them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use haft_core::{ToolDefinition, limits};

/// What stands in the place of a value that is not shown.
const REDACTED: &str = "[redacted]";

/// What makes a name a secret's, wherever it is in it, without regard to case and to what stands between words.
const PARTS: &[&str] = &[
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

/// The same for words that are found in harmless names too: only as a whole word.
const WORDS: &[&str] = &[
    "auth", "cookie", "cookies", "cvc", "cvv", "dsn", "jwt", "jwts", "otp", "pass", "pin", "pwd", "ssn",
    "totp",
];

/// The same at the end of a name: `accesstoken`, `dbpwd`.
const ENDS: &[&str] = &["token", "tokens", "pwd", "dbpass", "userpass"];

/// A word for something secret that may also be counted: `max_tokens` is none.
const COUNTED: &str = "tokens";

/// How the member is called that says what another one is, as in `{"name": "Authorization", "value": "…"}`.
const NAMES: &[&str] = &["name", "key", "header", "field", "parameter", "variable"];

/// The arguments of a call as they may be written down: `text` is what came, `value` what was read of it, if it was. A value that may be
/// secret is replaced, and of what is no JSON object nothing is left but its length.
pub(super) fn redacted(definition: Option<&ToolDefinition>, text: &str, value: Option<&Value>) -> Value {
    let parsed = || (text.len() <= limits::ARGUMENT_BYTES).then(|| serde_json::from_str(text).ok())?;
    let Some(Value::Object(arguments)) = value.cloned().or_else(parsed) else {
        return Value::String(withheld(text));
    };
    // Of a tool that nobody knows, nobody knows what is secret.
    let Some(definition) = definition else { return all(arguments) };
    let secrets = definition.input_schema().secret_members();
    if secrets.all {
        return all(arguments);
    }
    let named = definition.policy().redacted.iter().chain(&secrets.names);
    Redaction { named: named.map(|name| normal(name)).collect() }.of_members(arguments)
}

fn withheld(text: &str) -> String {
    format!("[{} bytes that are no JSON object]", text.len())
}

fn all(arguments: Map<String, Value>) -> Value {
    arguments.into_iter().map(|(name, _)| (name, Value::from(REDACTED))).collect()
}

struct Redaction {
    /// The names that the host or the schema said, without what stands between words.
    named: BTreeSet<String>,
}

impl Redaction {
    fn of_members(&self, members: Map<String, Value>) -> Value {
        let is_named = |(name, value): (&String, &Value)| {
            NAMES.contains(&normal(name).as_str())
                && value.as_str().is_some_and(|it| self.hides(it, &Value::from(it)))
        };
        let names_a_secret = members.iter().any(is_named);
        let members = members.into_iter().map(|(name, value)| {
            let is_value = names_a_secret && matches!(normal(&name).as_str(), "value" | "values");
            let is_secret = is_value || self.hides(&name, &value);
            let value = if is_secret { Value::from(REDACTED) } else { self.of(value) };
            (name, value)
        });
        members.collect()
    }

    /// Whether what is called so is not to be shown.
    fn hides(&self, name: &str, value: &Value) -> bool {
        self.named.contains(&normal(name)) || is_secret(name, value)
    }

    fn of(&self, value: Value) -> Value {
        match value {
            Value::Object(members) => self.of_members(members),
            Value::Array(items) => items.into_iter().map(|item| self.of(item)).collect(),
            Value::String(text) => Value::String(self.of_text(text)),
            scalar => scalar,
        }
    }

    /// Models write objects as text, too. What is JSON that was cut is not looked into.
    fn of_text(&self, text: String) -> String {
        let mut start = text.trim_start().chars();
        let is_json = match start.next() {
            Some('{' | '"') => true,
            Some('[') => matches!(start.as_str().trim_start().chars().next(), Some('{' | '[' | '"')),
            _ => false,
        };
        if !is_json {
            return self.of_line(text);
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                let redacted = self.of(value.clone());
                if redacted == value { text } else { redacted.to_string() }
            }
            Err(_) if text.trim_start().starts_with('"') => text,
            Err(_) => withheld(&text),
        }
    }

    /// A header or a setting, such as `Authorization: Bearer …`, and addresses with a password in them.
    fn of_line(&self, text: String) -> String {
        if let Some((name, value)) = text.split_once([':', '='])
            && !value.starts_with("//")
            && !name.trim().contains(char::is_whitespace)
            && self.hides(name, &Value::from(value))
        {
            let mark = text.get(name.len()..=name.len()).unwrap_or_default();
            let space = if mark == ":" { " " } else { "" };
            return format!("{name}{mark}{space}{REDACTED}");
        }
        if !text.contains("://") {
            return text;
        }
        let words = text.split_inclusive(char::is_whitespace);
        words.map(|word| self.of_address(word)).collect()
    }

    /// An address without the password of its user, and without the parameters of its query that are secret.
    fn of_address(&self, word: &str) -> String {
        let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let host = authority.rsplit_once('@').filter(|(user, _)| user.contains(':'));
        let authority = host.map_or_else(|| authority.to_owned(), |(_, host)| format!("{REDACTED}@{host}"));
        let parts = path.split_inclusive(['?', '&', '#']).map(|part| {
            let Some((name, value)) = part.split_once('=') else { return part.to_owned() };
            if !self.hides(name, &Value::from(value)) {
                return part.to_owned();
            }
            let end = value.chars().next_back().filter(|end| matches!(end, '?' | '&' | '#'));
            format!("{name}={REDACTED}{}", end.map(String::from).unwrap_or_default())
        });
        format!("{scheme}://{authority}{}", parts.collect::<String>())
    }
}

/// Whether a name is one that secrets usually have. That there is one, or none, is no secret.
fn is_secret(name: &str, value: &Value) -> bool {
    if matches!(value, Value::Null | Value::Bool(_)) {
        return false;
    }
    let (normal, words) = (normal(name), words(name));
    let normal = without_number(&normal);
    if normal.ends_with(COUNTED) && value.is_number() {
        return false;
    }
    PARTS.iter().any(|part| normal.contains(part))
        || ENDS.iter().any(|end| normal.ends_with(end))
        || words.iter().any(|word| WORDS.contains(&without_number(word)) || word == "token")
}

/// A name without a number at its end: `cvv2`, `token1`.
fn without_number(name: &str) -> &str {
    name.trim_end_matches(|char: char| char.is_ascii_digit())
}

/// A name without case and without what stands between its words.
fn normal(name: &str) -> String {
    name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The words of a name in any style: `api_key`, `api-key`, `apiKey`, `APIKey`.
fn words(name: &str) -> Vec<String> {
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
