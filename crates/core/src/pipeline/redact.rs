//! Arguments without what nobody should read who reads about them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{ToolDefinition, limits};

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
    "authorization",
    "bearer",
    "sessionid",
    "mnemonic",
    "seedphrase",
    "recoverycode",
    "cardnumber",
    "securitycode",
    "connectionstring",
];

/// The same for words that are found in harmless names too: only as a whole word.
const WORDS: &[&str] =
    &["auth", "cookie", "cookies", "cvc", "cvv", "jwt", "jwts", "otp", "pass", "pin", "pwd", "ssn", "totp"];

/// Words for something secret that may also be counted: `max_tokens` is none.
const COUNTED: &[&str] = &["token", "tokens"];

/// The arguments of a call as they may be written down: `text` is what came, `value` what was read of it, if it was. A value that may be
/// secret is replaced, and of what is no JSON object nothing is left but its length.
pub(super) fn redacted(definition: Option<&ToolDefinition>, text: &str, value: Option<&Value>) -> Value {
    let parsed = || (text.len() <= limits::ARGUMENT_BYTES).then(|| serde_json::from_str(text).ok())?;
    let Some(Value::Object(arguments)) = value.cloned().or_else(parsed) else {
        return Value::String(withheld(text));
    };
    // Of a tool that nobody knows, nobody knows what is secret.
    let Some(definition) = definition else { return all(arguments) };
    let secrets = definition.input_schema().secrets();
    if secrets.all {
        return all(arguments);
    }
    let named = definition.policy().redacted.iter().cloned().chain(secrets.names);
    Redaction { named: named.map(|name| normal(&name)).collect() }.of_members(arguments)
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
        let members = members.into_iter().map(|(name, value)| {
            let is_secret = self.named.contains(&normal(&name)) || is_secret(&name, &value);
            let value = if is_secret { Value::from(REDACTED) } else { self.of(value) };
            (name, value)
        });
        members.collect()
    }

    fn of(&self, value: Value) -> Value {
        match value {
            Value::Object(members) => self.of_members(members),
            Value::Array(items) => items.into_iter().map(|item| self.of(item)).collect(),
            Value::String(text) => Value::String(self.of_text(text)),
            scalar => scalar,
        }
    }

    /// Models write objects as text, too.
    fn of_text(&self, text: String) -> String {
        if !text.trim_start().starts_with(['{', '[']) {
            return text;
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                let redacted = self.of(value.clone());
                if redacted == value { text } else { redacted.to_string() }
            }
            Err(_) => withheld(&text),
        }
    }
}

/// Whether a name is one that secrets usually have. That there is one, or none, is no secret.
fn is_secret(name: &str, value: &Value) -> bool {
    if matches!(value, Value::Null | Value::Bool(_)) {
        return false;
    }
    let (normal, words) = (normal(name), words(name));
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    PARTS.iter().any(|part| normal.contains(part)) || has(WORDS) || (has(COUNTED) && !value.is_number())
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
