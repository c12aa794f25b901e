use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::merged_schema::MergedSchema;
use super::{ExampleError, Generator, example_error, pattern};
use haft_core::Schema;

/// A cache of valid strings. The key is the JSON of the string keywords (`pattern`, `format` and
/// lengths) and of the schema's `examples` and `default`. The value lists the strings that satisfy
/// these keywords.
pub(super) type Texts = HashMap<String, Vec<String>>;

/// The number of candidates for a string or a number that must differ from others, for example from
/// the other items of an array.
pub(super) const DISTINCT_CANDIDATES: usize = 5_000;

/// The number of candidates for a string that need not differ from others, if its schema has
/// neither `pattern` nor `format`.
const PLAIN_CANDIDATES: usize = 3;

/// The maximum `minLength` of a generated string, in characters. A larger `minLength` is an error.
const MAX_TEXT_CHARS: usize = 100_000;

/// The number of characters of a `minLength` that cost one unit of the
/// [budget](super::VALUE_BUDGET).
const CHARS_PER_UNIT: usize = 64;

const TEXT_KEYWORDS: [&str; 4] = ["pattern", "format", "minLength", "maxLength"];

/// The strings to try for a `pattern` or a `format`. They include a valid string for each `format`
/// that the validator enforces.
const SAMPLE_TEXTS: [&str; 27] = [
    "2026-11-22T05:30:00Z",
    "2026-11-22",
    "05:30:00Z",
    "05:30:00",
    "05:30",
    "P1D",
    "a@example.org",
    "example.org",
    "127.0.0.1",
    "::1",
    "https://example.org/a",
    "01234567-89ab-4cde-8f01-23456789abcd",
    "/a",
    "0/a",
    "a",
    "",
    "1",
    "A",
    "A1",
    "a1",
    "1.0",
    "1.0.0",
    "a/b",
    "#a0b1c2",
    "0123456789abcdef0123456789abcdef",
    "en-US",
    "EUR",
];

impl<'s> Generator<'s> {
    pub(super) fn text(&mut self, merged: &MergedSchema<'s>, pointer: &str) -> Result<Value, ExampleError> {
        let least = merged.lower_bound("minLength");
        if least > MAX_TEXT_CHARS {
            return Err(example_error(
                pointer,
                format!("the schema requires {least} characters, above the limit of {MAX_TEXT_CHARS}"),
            ));
        }
        self.spend_budget(least / CHARS_PER_UNIT, pointer)?;
        if merged.keyword_values("pattern").chain(merged.keyword_values("format")).next().is_none() {
            let ways = if self.needs_distinct { DISTINCT_CANDIDATES } else { PLAIN_CANDIDATES };
            let chosen = self.choices.choose(pointer, "text", 0, ways);
            let text = if merged.upper_bound("maxLength") == Some(0) {
                String::new()
            } else {
                numbered_text(chosen, least)
            };
            return Ok(Value::String(text));
        }
        let rules: Vec<_> =
            merged.parts.iter().map(|part| text_keywords(part)).filter(|it| *it != json!({})).collect();
        let given = merged
            .keyword_values("examples")
            .filter_map(Value::as_array)
            .flatten()
            .chain(merged.keyword_values("default"));
        let given: Vec<_> = given.filter_map(Value::as_str).collect();
        let key = json!([rules, given]).to_string();
        let fitting = self.texts.entry(key).or_insert_with(|| valid_texts(merged, &rules, &given, least));
        if fitting.is_empty() {
            let rules: Vec<_> = rules.iter().map(Value::to_string).collect();
            return Err(example_error(pointer, format!("no text was found for {}", rules.join(" and "))));
        }
        let chosen = self.choices.choose(pointer, "text", 0, fitting.len());
        Ok(fitting.get(chosen).map_or(Value::Null, |text| Value::from(text.as_str())))
    }
}

fn text_keywords(part: &Map<String, Value>) -> Value {
    TEXT_KEYWORDS.iter().filter_map(|rule| Some(((*rule).to_owned(), part.get(*rule)?.clone()))).collect()
}

/// Returns strings that satisfy all `rules`. The candidates are [`SAMPLE_TEXTS`], strings generated
/// from the patterns in `merged`, the strings in `given` (from `examples` and `default`), and
/// samples padded to `least` characters, in this order.
fn valid_texts(merged: &MergedSchema<'_>, rules: &[Value], given: &[&str], least: usize) -> Vec<String> {
    let Ok(schema) = Schema::new(json!({"type": "string", "allOf": rules})) else { return Vec::new() };
    let patterns = merged.keyword_values("pattern").filter_map(Value::as_str);
    let made = patterns.flat_map(|pattern| pattern::generate_texts(pattern, least));
    let forms = SAMPLE_TEXTS.iter().map(|form| (*form).to_owned());
    // Padded samples are valid for some formats, such as URIs.
    let long =
        SAMPLE_TEXTS.iter().map(|form| format!("{form}{}", "a".repeat(least.saturating_sub(form.len()))));
    let given = given.iter().map(|text| (*text).to_owned());
    let mut fitting: Vec<String> = Vec::new();
    for text in forms.chain(made).chain(given).chain(long) {
        if !fitting.contains(&text) && schema.is_valid(&Value::from(text.as_str())) {
            fitting.push(text);
        }
    }
    fitting
}

/// Converts `number` to a string of lower-case letters: 0 to `a`, 25 to `z`, 26 to `ba`, and so on.
/// The string is padded with `a` on the left to `least` characters.
fn numbered_text(mut number: usize, least: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b"abcdefghijklmnopqrstuvwxyz"[number % 26]));
        number /= 26;
        if number == 0 {
            break;
        }
    }
    letters.resize(letters.len().max(least), 'a');
    letters.into_iter().rev().collect()
}
