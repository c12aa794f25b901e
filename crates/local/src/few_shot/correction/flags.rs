//! Flags whose description names a case for each of their values.

use std::sync::LazyLock;

use haft_core::{Schema, schema::Property};
use regex::Regex;
use serde_json::{Map, Value};

use super::{KnownWords, description, is_valid, pattern, spaced_words};

/// The maximum number of words of a case that its alternative lacks. A longer case is a sentence,
/// whose words may have another meaning in the need.
const MAX_CASE_WORDS: usize = 2;
/// The minimum number of letters of a word that distinguishes the two cases.
const MIN_CASE_LETTERS: usize = 5;

/// Sets the optional flags whose description has a case of the need: `sample` with the description
/// "true: sample deviation; false: population deviation" is `false` for "the population deviation".
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
mod tests {
    use serde_json::json;

    use super::*;

    fn flagged(description: &str, need: &str, arguments: &Value) -> Value {
        let flag = json!({"type": "boolean", "description": description, "default": true});
        let schema = Schema::new(json!({"type": "object", "properties": {"sample": flag}})).unwrap();
        let mut arguments = arguments.as_object().unwrap().clone();
        set_described_flags(&schema, &mut arguments, "deviation", need);
        Value::Object(arguments)
    }

    #[test]
    fn a_case_in_the_need_sets_the_flag() {
        let off = json!({"sample": false});
        for description in [
            "true: sample deviation (n-1); false: population deviation (n). Default: true",
            "True for a sample, false for a population.",
            "false = population; true = sample",
        ] {
            assert_eq!(flagged(description, "The population deviation of 1, 2", &json!({})), off);
            assert_eq!(flagged(description, "The sample deviation", &off), json!({"sample": true}));
            for need in [
                "The deviation of 1, 2",
                "The deviation of a sample of the population",
                "The deviation, but not of the population",
            ] {
                assert_eq!(flagged(description, need, &json!({})), json!({}), "{description}, {need}");
            }
        }
    }

    #[test]
    fn a_description_without_cases_changes_nothing() {
        for description in [
            "Whether it is a population.",
            "true: the population",
            "True or false for people",
            "true: numbers from everywhere; false: only the people directly in the given population",
        ] {
            assert_eq!(flagged(description, "The population", &json!({})), json!({}), "{description}");
        }
    }
}
