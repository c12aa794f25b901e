//! Sentences and clauses of a question.

use super::PUNCTUATION;
use super::lists::SEPARATORS;

/// The ends of a sentence before another sentence.
pub(super) const SENTENCE_ENDS: [&str; 3] = [". ", "! ", "? "];
/// The texts between the parts of a question.
pub(super) const PART_SEPARATORS: [&str; 9] =
    [". ", "? ", "! ", "; ", ", and ", " and ", ", then ", ", but ", ", "];
/// The first words of a phrase that is no clause.
pub(super) const PHRASE_WORDS: [&str; 30] = [
    "a", "an", "all", "at", "between", "both", "by", "each", "for", "from", "her", "his", "in", "into",
    "its", "me", "my", "of", "on", "one", "our", "per", "the", "their", "them", "to", "until", "with",
    "without", "your",
];

/// Titles, in lower case. Their full stop ends no sentence.
const TITLES: [&str; 7] = ["dr", "mr", "mrs", "ms", "prof", "st", "vs"];

/// Returns the offset of the first of `separators` in `text`. The full stop of an abbreviation is
/// no separator.
pub(super) fn first_of<'a>(text: &str, separators: impl IntoIterator<Item = &'a &'a str>) -> Option<usize> {
    let first = |separator: &&str| {
        let mut offsets = text.match_indices(*separator).map(|(at, _)| at);
        offsets.find(|at| !is_abbreviation(text, *at))
    };
    separators.into_iter().filter_map(first).min()
}

/// Returns the offset of the last sentence in `text`.
pub(super) fn start_of_last_sentence(text: &str) -> usize {
    let start = |end: &&str| {
        let mut offsets = text.rmatch_indices(*end).map(|(at, _)| at);
        offsets.find(|at| !is_abbreviation(text, *at)).map(|at| at + end.len())
    };
    SENTENCE_ENDS.iter().filter_map(start).max().unwrap_or(0)
}

/// Returns `sentence` without the punctuation at its end. The full stop of an abbreviation such as
/// `p.m.` is kept.
pub(super) fn without_sentence_end(sentence: &str) -> &str {
    let end = sentence.trim_end_matches(['.', '?', '!']);
    let is_abbreviated = end.rsplit(' ').next().is_some_and(|word| word.contains('.'));
    if is_abbreviated { sentence } else { end }
}

/// Returns `true` if `text` ends with a separator between the parts of a question.
pub(super) fn ends_with_separator(text: &str) -> bool {
    let before = PART_SEPARATORS.iter().filter_map(|separator| text.strip_suffix(separator));
    before.into_iter().any(|before| !is_abbreviation(text, before.len()))
}

/// Returns `true` if the character of `text` at the offset `at` is the full stop of an
/// abbreviation: a title such as `Dr.`, or a word with another full stop before a lower-case word
/// or a number, such as `p.m.` in `at 3 p.m. with Ben`.
fn is_abbreviation(text: &str, at: usize) -> bool {
    let Some((before, Some(after))) =
        text.split_at_checked(at).map(|(before, rest)| (before, rest.strip_prefix('.')))
    else {
        return false;
    };
    let word =
        before.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '.').next().unwrap_or_default();
    let continues =
        after.trim_start().starts_with(|letter: char| letter.is_lowercase() || letter.is_ascii_digit());
    let has_letters =
        word.contains('.') && word.chars().all(|letter| letter.is_alphabetic() || letter == '.');
    TITLES.contains(&word.to_lowercase().as_str()) || has_letters && continues
}

/// Splits `text` into sentences and clauses, without the punctuation around them.
pub(super) fn split_into_parts(text: &str) -> Vec<&str> {
    let mut parts = vec![text];
    for separator in PART_SEPARATORS {
        parts = parts.into_iter().flat_map(|part| split_at_clauses(part, separator)).collect();
    }
    let trimmed = parts.into_iter().map(|part| part.trim_matches(PUNCTUATION).trim());
    trimmed.filter(|part| !part.is_empty()).collect()
}

/// Splits `text` at each `separator` before a sentence or a clause. A clause begins with a
/// lower-case word that is no article, preposition or pronoun: the separators in `May 22, 2026`,
/// `Boston, MA` and `the kitchen and the hall` do not begin a clause. The full stop of an
/// abbreviation does not end a sentence.
fn split_at_clauses<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let is_clause = |rest: &str| {
        let word = rest.split(' ').next().unwrap_or_default().trim_end_matches(PUNCTUATION);
        word.chars().all(|letter| letter.is_lowercase() || letter == '\'') && !PHRASE_WORDS.contains(&word)
    };
    let ends_sentence = separator.starts_with(['.', '?', '!', ';']);
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, found) in text.match_indices(separator) {
        let next = at + found.len();
        let begins_part = ends_sentence || text.get(next..).is_some_and(is_clause);
        if begins_part && !is_abbreviation(text, at) {
            parts.extend(text.get(start..at));
            start = next;
        }
    }
    parts.extend(text.get(start..));
    parts
}

/// Returns `text` with a full stop at the end of each line that has no punctuation. The lines are
/// often the items of a list of requests.
pub(super) fn with_sentence_ends(text: &str) -> String {
    let lines = text.trim().lines().map(|line| line.trim().trim_start_matches(['-', '*', '\u{2022}']).trim());
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let last = lines.len().saturating_sub(1);
    let end = |index: usize, line: &&str| match index < last && !line.ends_with(PUNCTUATION) {
        true => format!("{line}."),
        false => (*line).to_owned(),
    };
    lines.iter().enumerate().map(|(index, line)| end(index, line)).collect::<Vec<_>>().join(" ")
}

/// Removes the end of a clause at the beginning of `rest`: a small model quotes "Add a kettle" of
/// "Add a kettle to my cart and pay".
pub(super) fn without_clause_end(rest: &str) -> &str {
    if !rest.starts_with(' ') {
        return rest;
    }
    let ends = SEPARATORS.iter().chain(&PART_SEPARATORS).chain(&[" then "]);
    first_of(rest, ends).and_then(|end| rest.get(end..)).unwrap_or_default()
}

/// Removes the clauses at the beginning of `rest` that one of `values` contains: the text of a
/// message or of a reminder, such as "buy milk and call Kim".
pub(super) fn without_planned_clauses<'a>(rest: &'a str, values: &[String]) -> &'a str {
    let mut rest = rest;
    while let Some(clause) = split_into_parts(rest).first() {
        let words = clause.to_lowercase();
        let words = words.trim_start_matches("to ").trim_start_matches("that ");
        let words = words.trim_matches(|letter: char| !letter.is_alphanumeric());
        let is_planned = words.contains(' ') && values.iter().any(|value| value.contains(words));
        let after = rest.split_once(clause).map(|(_, after)| after).filter(|_| is_planned);
        let Some(after) = after else { break };
        rest = after;
    }
    rest
}
