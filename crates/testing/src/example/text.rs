use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::flat::Flat;
use super::{Maker, NoExample, misfit_at, pattern};
use haft_core::Schema;

/// The texts that fit some rules, by these rules.
pub(super) type Texts = HashMap<String, Vec<String>>;

/// How many texts and numbers there are where items must differ.
pub(super) const UNLIMITED: usize = 5_000;

/// How many plain texts are told apart elsewhere.
const PLAIN: usize = 3;

/// The longest text that is made.
const LONGEST: usize = 100_000;

/// How many characters cost as much as a value.
const SHORT: usize = 64;

const RULES: [&str; 4] = ["pattern", "format", "minLength", "maxLength"];

/// A text of each format that is enforced, and some of forms that patterns often ask for.
const FORMS: [&str; 27] = [
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

impl<'s> Maker<'s> {
    pub(super) fn text(&mut self, flat: &Flat<'s>, place: &str) -> Result<Value, NoExample> {
        let least = flat.least("minLength");
        if least > LONGEST {
            return Err(misfit_at(place, format!("a text of {least} characters is too long to be made")));
        }
        self.spend(least / SHORT, place)?;
        if flat.rules("pattern").chain(flat.rules("format")).next().is_none() {
            let ways = if self.unlimited { UNLIMITED } else { PLAIN };
            let chosen = self.choices.choose(place, "text", 0, ways);
            let text = if flat.most("maxLength") == Some(0) { String::new() } else { plain(chosen, least) };
            return Ok(Value::String(text));
        }
        let rules: Vec<_> =
            flat.parts.iter().map(|part| of_text(part)).filter(|it| *it != json!({})).collect();
        let given = flat.rules("examples").filter_map(Value::as_array).flatten().chain(flat.rules("default"));
        let given: Vec<_> = given.filter_map(Value::as_str).collect();
        let key = json!([rules, given]).to_string();
        let fitting = self.texts.entry(key).or_insert_with(|| fitting(flat, &rules, &given, least));
        if fitting.is_empty() {
            let rules: Vec<_> = rules.iter().map(Value::to_string).collect();
            return Err(misfit_at(place, format!("no text was found for {}", rules.join(" and "))));
        }
        let chosen = self.choices.choose(place, "text", 0, fitting.len());
        Ok(fitting.get(chosen).map_or(Value::Null, |text| Value::from(text.as_str())))
    }
}

fn of_text(part: &Map<String, Value>) -> Value {
    RULES.iter().filter_map(|rule| Some(((*rule).to_owned(), part.get(*rule)?.clone()))).collect()
}

/// Texts that fit all rules, those of the rules' own making first.
fn fitting(flat: &Flat<'_>, rules: &[Value], given: &[&str], least: usize) -> Vec<String> {
    let Ok(schema) = Schema::new(json!({"type": "string", "allOf": rules})) else { return Vec::new() };
    let patterns = flat.rules("pattern").filter_map(Value::as_str);
    let made = patterns.flat_map(|pattern| pattern::texts(pattern, least));
    let forms = FORMS.iter().map(|form| (*form).to_owned());
    // Format by format it is known what may follow without an end.
    let long = FORMS.iter().map(|form| format!("{form}{}", "a".repeat(least.saturating_sub(form.len()))));
    let given = given.iter().map(|text| (*text).to_owned());
    let mut fitting: Vec<String> = Vec::new();
    for text in forms.chain(made).chain(given).chain(long) {
        if !fitting.contains(&text) && schema.is_valid(&Value::from(text.as_str())) {
            fitting.push(text);
        }
    }
    fitting
}

/// A text of letters: `a`, `b` and so on, as long as it must be.
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
