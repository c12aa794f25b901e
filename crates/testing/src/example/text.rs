use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::merged::MergedSchema;
use super::{Generator, NoExample, no_example, pattern};
use haft_core::Schema;

/// Valid texts by their rules, as JSON.
pub(super) type Texts = HashMap<String, Vec<String>>;

/// Number of texts or numbers to select from if values must be distinct.
pub(super) const DISTINCT: usize = 5_000;

/// Number of plain texts to select from otherwise.
const PLAIN_TEXTS: usize = 3;

/// Maximum length of a text, in characters.
const MAX_LENGTH: usize = 100_000;

/// Characters per unit of the budget.
const CHARS_PER_UNIT: usize = 64;

const RULES: [&str; 4] = ["pattern", "format", "minLength", "maxLength"];

/// A valid text for each enforced format, and texts that common patterns accept.
const SAMPLES: [&str; 27] = [
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
    pub(super) fn text(&mut self, merged: &MergedSchema<'s>, pointer: &str) -> Result<Value, NoExample> {
        let least = merged.lower_bound("minLength");
        if least > MAX_LENGTH {
            return Err(no_example(
                pointer,
                format!("the schema requires {least} characters, above the limit of {MAX_LENGTH}"),
            ));
        }
        self.spend(least / CHARS_PER_UNIT, pointer)?;
        if merged.rules("pattern").chain(merged.rules("format")).next().is_none() {
            let ways = if self.needs_distinct { DISTINCT } else { PLAIN_TEXTS };
            let chosen = self.choices.choose(pointer, "text", 0, ways);
            let text =
                if merged.upper_bound("maxLength") == Some(0) { String::new() } else { plain(chosen, least) };
            return Ok(Value::String(text));
        }
        let rules: Vec<_> =
            merged.parts.iter().map(|part| text_rules(part)).filter(|it| *it != json!({})).collect();
        let given =
            merged.rules("examples").filter_map(Value::as_array).flatten().chain(merged.rules("default"));
        let given: Vec<_> = given.filter_map(Value::as_str).collect();
        let key = json!([rules, given]).to_string();
        let fitting = self.texts.entry(key).or_insert_with(|| fitting(merged, &rules, &given, least));
        if fitting.is_empty() {
            let rules: Vec<_> = rules.iter().map(Value::to_string).collect();
            return Err(no_example(pointer, format!("no text was found for {}", rules.join(" and "))));
        }
        let chosen = self.choices.choose(pointer, "text", 0, fitting.len());
        Ok(fitting.get(chosen).map_or(Value::Null, |text| Value::from(text.as_str())))
    }
}

fn text_rules(part: &Map<String, Value>) -> Value {
    RULES.iter().filter_map(|rule| Some(((*rule).to_owned(), part.get(*rule)?.clone()))).collect()
}

/// Valid texts: samples, texts for the patterns, the schema's own examples, and longer samples.
fn fitting(merged: &MergedSchema<'_>, rules: &[Value], given: &[&str], least: usize) -> Vec<String> {
    let Ok(schema) = Schema::new(json!({"type": "string", "allOf": rules})) else { return Vec::new() };
    let patterns = merged.rules("pattern").filter_map(Value::as_str);
    let made = patterns.flat_map(|pattern| pattern::texts(pattern, least));
    let forms = SAMPLES.iter().map(|form| (*form).to_owned());
    // Some formats allow a longer text, for example URIs.
    let long = SAMPLES.iter().map(|form| format!("{form}{}", "a".repeat(least.saturating_sub(form.len()))));
    let given = given.iter().map(|text| (*text).to_owned());
    let mut fitting: Vec<String> = Vec::new();
    for text in forms.chain(made).chain(given).chain(long) {
        if !fitting.contains(&text) && schema.is_valid(&Value::from(text.as_str())) {
            fitting.push(text);
        }
    }
    fitting
}

/// Letters in the order `a`, `b`, …, `z`, `ba`, padded with `a` to the minimum length.
fn plain(mut number: usize, least: usize) -> String {
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
