//! Flags with an antonym in the need, or with a description of both values.

use std::sync::LazyLock;

use haft_core::{Schema, schema::Property};
use regex::Regex;
use serde_json::{Map, Value};

use super::{KnownWords, description, has_word_of, is_valid, pattern, spaced_words};

/// The minimum number of letters of a verb in the name of a flag.
const MIN_VERB_LETTERS: usize = 4;
/// The maximum number of distinctive words of a case. The words of a longer case may have another
/// meaning in the need.
const MAX_CASE_WORDS: usize = 2;
/// The minimum number of letters of a distinctive word.
const MIN_CASE_LETTERS: usize = 5;

/// Returns `false` if `need` has the opposite of the name of `property`: `unlock` for `locked`,
/// `disable` for `enabled`, `private` for `public`. Returns `true` if it has the verb itself.
pub(super) fn stated_flag(property: &Property<'_>, need: &str) -> Option<bool> {
    let name = spaced_words(property.name);
    let name = name.trim_start_matches("is ");
    let words = KnownWords::new(need);
    if words.has_negation() {
        return None;
    }
    if let Some(antonym) = antonym(name) {
        return (words.has_words(antonym) && !words.has_words(name)).then_some(false);
    }
    let stem = name.strip_suffix("ed").filter(|stem| !stem.contains(' '))?;
    if stem.chars().count() < MIN_VERB_LETTERS {
        return None;
    }
    let need = need.to_lowercase();
    let has = |verb: &str| {
        let forms = ["", "e", "ed", "ing"].map(|ending| format!("{verb}{ending}"));
        need.split(|letter: char| !letter.is_alphabetic()).any(|word| forms.iter().any(|form| form == word))
    };
    let disables = stem.strip_prefix("en").is_some_and(|verb| has(&format!("dis{verb}")));
    match (has(stem), has(&format!("un{stem}")) || disables) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        // "Lock the front door and unlock the garage"
        (true, true) | (false, false) => None,
    }
}

/// Returns the opposite of the adjective `name`: `private` for `public`.
fn antonym(name: &str) -> Option<&'static str> {
    const ANTONYMS: [(&str, &str); 5] = [
        ("active", "inactive"),
        ("available", "unavailable"),
        ("online", "offline"),
        ("public", "private"),
        ("visible", "hidden"),
    ];
    ANTONYMS.iter().find_map(|(one, other)| match name {
        _ if name == *one => Some(*other),
        _ if name == *other => Some(*one),
        _ => None,
    })
}

/// Sets the optional flags with a description of both values, if the need has a distinctive word of
/// one of them. For example, `sample` with the description "true: sample deviation; false:
/// population deviation" is `false` for "the population deviation".
pub(super) fn set_described_flags(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    tool: &str,
    need: &str,
) {
    if KnownWords::new(need).has_negation() {
        return;
    }
    let need = need.to_lowercase();
    let stated = long_words(&need);
    for property in schema.properties().filter(|property| !property.is_required) {
        let Some((true_case, false_case)) = cases(&property) else { continue };
        // The words of the tool and of other parameters belong to every request.
        let others = schema.properties().map(|other| other.name).filter(|name| *name != property.name);
        let names = spaced_words(&others.chain([tool]).collect::<Vec<_>>().join(" "));
        let is_case = |case: &str, other: &str| {
            let is_own = |word: &&str| !other.contains(*word) && !names.contains(*word);
            let own: Vec<_> = long_words(case).into_iter().filter(is_own).collect();
            own.len() <= MAX_CASE_WORDS && own.iter().any(|word| stated.contains(word))
        };
        let value = match (is_case(&true_case, &false_case), is_case(&false_case, &true_case)) {
            (true, false) => true,
            (false, true) => false,
            _ => continue,
        };
        let default = property.schema.get("default").and_then(Value::as_bool).unwrap_or(false);
        let given = arguments.get(property.name).and_then(Value::as_bool);
        let flag = Value::Bool(value);
        if given.unwrap_or(default) != value && is_valid(schema, arguments, property.name, &flag) {
            arguments.insert(property.name.to_owned(), flag);
        }
    }
}

/// Words in the names of flags for a time of arrival.
const ARRIVAL_WORDS: [&str; 2] = ["arrival", "arrive"];

/// Sets the optional flags for a time of arrival, if `need` states when the user must be at a
/// place: "I have to be in Bern by 11:00".
pub(super) fn set_arrival_flags(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    static ARRIVAL: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"\b(?:arriv(?:e|es|ing)\b[^.?!]*\b(?:at|before|by)|(?:be|get|reach)\b[^.?!]*\b(?:before|by)) (?:\d|noon|midnight|half|quarter)",
        )
    });
    static DEPARTURE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:after|depart|leav)"));
    let need = need.to_lowercase();
    if !ARRIVAL.is_match(&need) || DEPARTURE.is_match(&need) || KnownWords::new(&need).has_negation() {
        return;
    }
    for property in schema.properties().filter(|property| !property.is_required) {
        let is_boolean = property.schema.get("type").and_then(Value::as_str) == Some("boolean");
        let name = spaced_words(property.name);
        let is_of_time =
            |word: &str| ARRIVAL_WORDS.contains(&word) || matches!(word, "at" | "by" | "is" | "time");
        let is_arrival = has_word_of(property.name, &ARRIVAL_WORDS) && name.split(' ').all(is_of_time);
        let flag = Value::Bool(true);
        if is_boolean && is_arrival && is_valid(schema, arguments, property.name, &flag) {
            arguments.insert(property.name.to_owned(), flag);
        }
    }
}

/// Returns the cases for `true` and for `false` in the description of `property`, in lower case.
/// Returns `None` if it has none.
fn cases(property: &Property<'_>) -> Option<(String, String)> {
    static MARK: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\b(true|false)(?: ?[:=]| for| means| if| when| uses) "));
    if property.schema.get("type").and_then(Value::as_str) != Some("boolean") {
        return None;
    }
    let text = description(property).to_lowercase();
    let marks: Vec<_> = MARK.find_iter(&text).collect();
    let mut found = marks.iter().enumerate().filter_map(|(index, mark)| {
        let end = marks.get(index + 1).map_or(text.len(), regex::Match::start);
        let case = text.get(mark.end()..end)?.split([';', '.', '(']).next()?;
        Some((mark.as_str().starts_with("true"), case.to_owned()))
    });
    match (found.next()?, found.next()?, found.next()) {
        ((true, true_case), (false, false_case), None) | ((false, false_case), (true, true_case), None) => {
            Some((true_case, false_case))
        }
        _ => None,
    }
}

/// Returns the long words of the lower-case `text`.
fn long_words(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !letter.is_alphabetic());
    words.filter(|word| word.chars().count() >= MIN_CASE_LETTERS).collect()
}

#[cfg(test)]
mod tests;
