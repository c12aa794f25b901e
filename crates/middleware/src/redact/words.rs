//! Secrets in the words of a command line, or of other text.

use serde_json::Value;

use super::{REDACTED, Redactor};

/// The options of programs such as curl whose value is `user:password`.
const USER_OPTIONS: &[&str] = &["-u", "-U", "--user", "--proxy-user"];

/// The meaning of a word for the next one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Announced {
    #[default]
    Nothing,
    /// The next word is the value of the option with this name, which may be a secret.
    Option(String),
    /// The next word is `user:password`.
    User,
}

impl Redactor {
    /// Redacts the secrets in the words of `line`: values of options such as `--password`,
    /// settings, headers, and parameters of URLs.
    pub(super) fn redact_words(&self, line: &str) -> String {
        let mut redacted = String::with_capacity(line.len());
        let mut announced = Announced::Nothing;
        for piece in pieces(line) {
            if piece.trim().is_empty() {
                redacted += piece;
                continue;
            }
            let (quote, content) = unquote(piece);
            let before = std::mem::replace(&mut announced, self.announced_by(content));
            if quote.is_empty() && self.is_header_name(content) {
                // The header ends with the line.
                let line_end = line.get(line.trim_end().len()..).unwrap_or_default();
                return format!("{redacted}{content} {REDACTED}{line_end}");
            }
            let content =
                self.redact_announced(&before, content).unwrap_or_else(|| self.redact_word(quote, content));
            redacted += &format!("{quote}{content}{quote}");
        }
        redacted
    }

    /// Returns the meaning of `word` for the next word.
    pub(super) fn announced_by(&self, word: &str) -> Announced {
        match word.strip_prefix('-').map(|name| name.trim_start_matches('-')) {
            _ if USER_OPTIONS.contains(&word) => Announced::User,
            Some(name)
                if !name.is_empty() && !name.contains(['=', ':']) && !name.contains(char::is_whitespace) =>
            {
                Announced::Option(name.to_owned())
            }
            _ => Announced::Nothing,
        }
    }

    /// Returns `word` with the secret that `announced` announces, or `None` if it announces none.
    pub(super) fn redact_announced(&self, announced: &Announced, word: &str) -> Option<String> {
        match announced {
            Announced::User => word.split_once(':').map(|(user, _)| format!("{user}:{REDACTED}")),
            // A number may be a count: `--max-tokens 100`.
            Announced::Option(_) => {
                let value = word.parse::<u64>().map_or_else(|_| Value::from(word), Value::from);
                (!word.starts_with("--") && self.is_announced(announced, &value)).then(|| REDACTED.to_owned())
            }
            Announced::Nothing => None,
        }
    }

    /// Returns `true` if `value` is the value of a secret option.
    pub(super) fn is_announced(&self, announced: &Announced, value: &Value) -> bool {
        matches!(announced, Announced::Option(name) if self.must_redact(name, value))
    }

    /// Returns `true` if `word` ends with the name of a secret header before its value:
    /// `Authorization:`, `-H'Authorization:` or `\"Authorization:`.
    fn is_header_name(&self, word: &str) -> bool {
        word.strip_suffix(':').is_some_and(|word| {
            let name = word.rsplit(['\'', '"']).next().unwrap_or_default();
            !name.is_empty() && name.chars().all(is_name_char) && self.must_redact(name, &Value::from(""))
        })
    }

    /// Redacts the secret in `word`, the content of `quote`: a setting, a header in quotes, or
    /// URLs.
    fn redact_word(&self, quote: &str, word: &str) -> String {
        if let Some((name, value)) = word.split_once(['=', ':'])
            && !name.contains(char::is_whitespace)
            && !value.starts_with("//")
        {
            let mark = word.get(name.len()..=name.len()).unwrap_or_default();
            // Without quotes, `src/auth.rs:45` is a place in a file.
            let is_entry = mark == "=" || !quote.is_empty() || name.chars().all(is_name_char);
            if is_entry && self.must_redact(name, &Value::from(value)) {
                let space = if value.starts_with(' ') { " " } else { "" };
                return format!("{name}{mark}{space}{REDACTED}");
            }
            if mark == "=" {
                let (quote, content) = unquote(value);
                let announced = self.announced_by(name);
                let redacted = self.redact_announced(&announced, content);
                let content = redacted.unwrap_or_else(|| self.redact_word(quote, content));
                return format!("{name}={quote}{content}{quote}");
            }
        }
        word.split_inclusive(char::is_whitespace).map(|part| self.redact_url(part)).collect()
    }
}

fn is_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

/// Splits `line` into words and the white space between them. A word can have quoted parts, which
/// begin the word or follow a `=` or `:`, so that an apostrophe begins none.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    let mut unclosed = String::new();
    while !rest.is_empty() {
        let is_space = rest.starts_with(char::is_whitespace);
        let end = match is_space {
            true => rest.find(|char: char| !char.is_whitespace()).unwrap_or(rest.len()),
            false => word_end(rest, &mut unclosed),
        };
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Returns the end of the word at the beginning of `text`. Adds a quote to `unclosed` if `text`
/// does not close it, so that the rest of the line is searched once.
fn word_end(text: &str, unclosed: &mut String) -> usize {
    let mut before = '=';
    let mut position = 0;
    while let Some(char) = text.get(position..).and_then(|rest| rest.chars().next()) {
        if char.is_whitespace() {
            return position;
        }
        position += char.len_utf8();
        if matches!(char, '"' | '\'' | '`') && matches!(before, '=' | ':') && !unclosed.contains(char) {
            match text.get(position..).and_then(|rest| rest.find(char)) {
                Some(length) => position += length + char.len_utf8(),
                None => unclosed.push(char),
            }
        }
        before = char;
    }
    text.len()
}

/// Returns the quote around `word`, which may be empty, and its content.
fn unquote(word: &str) -> (&str, &str) {
    for quote in ["\"", "'", "`"] {
        if let Some(content) = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return (quote, content);
        }
    }
    ("", word)
}
