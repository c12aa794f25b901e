//! Codes, designations, paths and full names in arguments.

use std::sync::LazyLock;

use haft_core::schema::Property;
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::{description, pattern, spaced_words};

/// The maximum length of an abbreviation of a full name.
const MAX_ABBREVIATION_LENGTH: usize = 3;
/// The maximum number of letters of a ticker symbol without a suffix such as `.B`.
const MAX_TICKER_LETTERS: usize = 5;

/// Returns a regular expression for the codes that `property` describes, if `text` is not such a
/// code: a small model writes `Tesla` for a ticker symbol. Returns `None` if the parameter may have
/// other texts.
pub(in crate::few_shot) fn missing_code(property: &Property<'_>, text: &str) -> Option<&'static str> {
    let shape = shape(property)?;
    let is_code = match shape.length {
        // The codes are compared without their case: `usd` is a code.
        Some(length) => text.len() == length && text.chars().all(|letter| letter.is_ascii_alphabetic()),
        // `Tesla` has as many letters as a ticker symbol, and `NVIDIA` has more.
        None => {
            let is_long = text.len() > MAX_TICKER_LETTERS && text.chars().all(char::is_alphabetic);
            !is_long && !text.chars().any(char::is_lowercase)
        }
    };
    (!is_code).then_some(shape.pattern)
}

/// Returns the designation in `question` with the number and the first letter of `text`: `ICE 578`
/// for `IC 578`. Returns `None` if `question` contains `text`, or the number several times.
pub(super) fn designation(text: &str, question: &str) -> Option<Value> {
    static DESIGNATION: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\p{Lu}{1,4})[ -]?(\d{1,5})\b"));
    let parts = |captures: &Captures<'_>| {
        Some((captures.get(1)?.as_str().to_owned(), captures.get(2)?.as_str().to_owned()))
    };
    let own = DESIGNATION.captures(text).filter(|own| own.get(0).is_some_and(|whole| whole.as_str() == text));
    let (letters, number) = parts(&own?)?;
    let mut same = DESIGNATION
        .captures_iter(question)
        .filter(|captures| parts(captures).is_some_and(|(_, other)| other == number));
    let (Some(only), None) = (same.next(), same.next()) else { return None };
    // The cell `B10` is not the cell `A10`.
    let is_other = parts(&only).is_some_and(|(other, _)| {
        other != letters && other.chars().next() == letters.chars().next() && number.len() > 1
    });
    is_other.then(|| only.get(0).map(|whole| json!(whole.as_str()))).flatten()
}

/// Returns the path `text` with a leading slash, if `question` contains it only with this slash:
/// `/home/ana/a.txt` for `home/ana/a.txt`.
pub(super) fn absolute_path(text: &str, question: &str) -> Option<Value> {
    let is_relative = text.contains('/') && !text.starts_with('/');
    let mut places = question.match_indices(text).filter(|_| is_relative).peekable();
    places.peek()?;
    let is_in_path = |(at, _): (usize, &str)| {
        let before = question.get(..at).unwrap_or_default();
        let before = before.strip_suffix('/');
        before.is_some_and(|before| before.is_empty() || before.ends_with([' ', '"', '\'', '`', '(']))
    };
    places.all(is_in_path).then(|| json!(format!("/{text}")))
}

/// Returns `items` with the [paths](absolute_path) in `question`. Returns `None` if nothing
/// changes.
pub(super) fn absolute_paths(items: &[Value], question: &str) -> Option<Value> {
    let path = |item: &Value| absolute_path(item.as_str()?, question);
    let paths: Vec<_> = items.iter().map(|item| path(item).unwrap_or_else(|| item.clone())).collect();
    (paths != items).then_some(Value::Array(paths))
}

/// Returns a regular expression for a full name, if `property` is a full name, and if `text` is an
/// abbreviation outside of `question`: `CA` for "Full name of the state" and California.
pub(super) fn missing_full_name(property: &Property<'_>, text: &str, question: &str) -> Option<&'static str> {
    let description = description(property).to_lowercase();
    let is_full_name = description.contains("full name") && !description.contains(" or ");
    let is_short =
        (1..=MAX_ABBREVIATION_LENGTH).contains(&text.len()) && text.chars().all(char::is_uppercase);
    (is_full_name && is_short && !question.contains(text)).then_some(r"^\p{Lu}\p{Ll}{2}.*$")
}

/// The form of a code.
struct CodeShape {
    pattern: &'static str,
    /// The number of letters. `None` if it varies.
    length: Option<usize>,
}

/// Returns the form of the codes that `property` describes.
fn shape(property: &Property<'_>) -> Option<CodeShape> {
    static OTHER_TEXTS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bnames?\b|\bor\b|\bcity\b"));
    static LOWER_CASE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"639|\blanguage|(?:e\.g\.|for example|such as|like) [^A-Za-z]?[a-z]{2,3}\b")
    });
    static TWO_LETTERS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)\b(?:alpha-2|(?:two|2)-letter|iso 639-1)\b"));
    static THREE_LETTERS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)\b(?:alpha-3|(?:three|3)-letter|iso 4217|iso 639-[23])\b|airport.*\biata\b|\biata\b.*airport",
        )
    });
    let text = format!("{} {}", spaced_words(property.name), description(property));
    if property.schema.get("pattern").is_some() || OTHER_TEXTS.is_match(&text) {
        return None;
    }
    let is_lower = LOWER_CASE.is_match(&text);
    let shape = |pattern, length| Some(CodeShape { pattern, length });
    if TWO_LETTERS.is_match(&text) {
        return shape(if is_lower { "^[a-z]{2}$" } else { "^[A-Z]{2}$" }, Some(2));
    }
    if THREE_LETTERS.is_match(&text) {
        return shape(if is_lower { "^[a-z]{3}$" } else { "^[A-Z]{3}$" }, Some(3));
    }
    let words = text.to_lowercase();
    let is_ticker = words.contains("ticker") || words.contains("stock symbol");
    if is_ticker && !is_lower { shape("^[A-Z]{1,5}$", None) } else { None }
}

#[cfg(test)]
mod tests;
