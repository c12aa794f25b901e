//! Detection of tool results that an answer does not mention.

use std::collections::HashSet;

use serde_json::Value;

/// The maximum number of words in an acknowledgement, such as `saved`. A result with a number is
/// never an acknowledgement.
const MAX_ACKNOWLEDGEMENT_WORDS: usize = 3;

/// The keys of acknowledgements in JSON.
const ACKNOWLEDGEMENT_KEYS: [&str; 3] = ["ok", "status", "success"];

/// Returns `true` if `answer`, the answer to `question`, contains at least one word of each result.
/// Words that another result or the question has, too, do not count if a result has others.
/// Acknowledgements such as `saved` need not be mentioned. The keys of a result in JSON do not
/// count.
///
/// This check detects incomplete answers: a small model may stop after it has answered the first of
/// two questions.
pub(super) fn mentions_all(answer: &str, results: &[String], question: &str) -> bool {
    let answer_words: HashSet<_> = words(answer).collect();
    let asked: HashSet<_> = words(question).collect();
    let contents: Vec<HashSet<_>> = results.iter().map(|result| content_words(result)).collect();
    contents.iter().enumerate().all(|(index, content)| {
        let others = || contents.iter().enumerate().filter(|(other, _)| *other != index);
        let is_new = |word: &&String| !asked.contains(*word);
        let is_own = |word: &&String| others().all(|(_, other)| !other.contains(*word));
        let own: Vec<_> = content.iter().filter(is_new).filter(is_own).collect();
        let new: Vec<_> = content.iter().filter(is_new).collect();
        let all: Vec<_> = content.iter().collect();
        let expected = [own, new, all].into_iter().find(|words| !words.is_empty()).unwrap_or_default();
        expected.is_empty()
            || expected
                .iter()
                .any(|word| answer_words.iter().any(|answer_word| is_same_or_prefix(answer_word, word)))
    })
}

/// Returns the words of `result` that an answer may mention. Returns no words for an
/// acknowledgement.
fn content_words(result: &str) -> HashSet<String> {
    match json_content(result) {
        Some(content) => words(&content).collect(),
        None => {
            let is_long = words(result).count() > MAX_ACKNOWLEDGEMENT_WORDS;
            let has_number = words(result).any(|word| word.contains(char::is_numeric));
            if is_long || has_number { words(result).collect() } else { HashSet::new() }
        }
    }
}

/// Returns the values of `result`, an object or an array in JSON, except acknowledgements such as
/// `{"status": "saved"}`. Returns `None` if `result` is another text.
fn json_content(result: &str) -> Option<String> {
    let value =
        serde_json::from_str(result).ok().filter(|value: &Value| value.is_object() || value.is_array())?;
    let mut values = Vec::new();
    add_values(&value, &mut values);
    Some(values.join(" "))
}

fn add_values(value: &Value, values: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let content = members.iter().filter(|(key, _)| !ACKNOWLEDGEMENT_KEYS.contains(&key.as_str()));
            content.for_each(|(_, value)| add_values(value, values));
        }
        Value::Array(items) => items.iter().for_each(|value| add_values(value, values)),
        Value::String(text) => values.push(text.clone()),
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => values.push(number.to_string()),
    }
}

/// Returns the words and numbers of `text` in lower case. A time is a single word, so that its
/// seconds are no mention of another number.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|it: char| !it.is_alphanumeric() && it != ':');
    words.flat_map(|word| match clock_time(word) {
        Some(time) => vec![time],
        None => word.split(':').filter(|word| !word.is_empty()).map(str::to_lowercase).collect(),
    })
}

/// Returns the hours of a 12-hour clock and the minutes of `word`: `9:05` for `21:05:42` and for
/// `09:05`. Returns `None` if `word` is no time.
fn clock_time(word: &str) -> Option<String> {
    let mut parts = word.trim_matches(':').split(':');
    // A date in ISO 8601 is separated from the hours by `T`.
    let hours = parts.next()?.rsplit(['T', 't']).next()?.parse::<u8>().ok()?;
    let minutes: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    (hours < 24 && minutes.len() == 2).then(|| format!("{}:{minutes}", hours % 12))
}

/// Returns `true` if the words `one` and `other` are equal, or if one of them has at least two
/// characters and is a prefix of the other. For example, `123` (in "123 million") is a prefix
/// of `123000000`.
fn is_same_or_prefix(one: &str, other: &str) -> bool {
    let shorter = one.chars().count().min(other.chars().count());
    one == other || (shorter > 1 && (one.starts_with(other) || other.starts_with(one)))
}

#[cfg(test)]
mod tests;
