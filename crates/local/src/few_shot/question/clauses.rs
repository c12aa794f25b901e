//! Sentences and clauses of a question.

use super::PUNCTUATION;
use super::lists::{SEPARATORS, is_digits};

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

/// Titles before a name. Their full stop ends no sentence.
const TITLES: [&str; 5] = ["Dr", "Mr", "Mrs", "Ms", "Prof"];
/// The first words of a sentence that is not capitalized.
const SENTENCE_STARTS: [&str; 4] = ["also", "and", "please", "then"];

/// Returns the offset of the first of `separators` in `text`. The full stop of an abbreviation and
/// the commas in `May 22, 2026` and `(2, -3)` are not separators.
pub(super) fn first_of<'a>(text: &str, separators: impl IntoIterator<Item = &'a &'a str>) -> Option<usize> {
    let first = |separator: &&str| {
        let mut offsets = text.match_indices(*separator).map(|(at, _)| at);
        offsets
            .find(|at| !is_abbreviation(text, *at) && !is_before_year(text, *at) && !is_in_tuple(text, *at))
    };
    separators.into_iter().filter_map(first).min()
}

/// Returns `true` if the offset `at` of `text` is within numbers in parentheses.
fn is_in_tuple(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let inner = before.rsplit_once('(').map(|(_, inner)| inner);
    inner.is_some_and(|inner| {
        inner.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-')
            && inner.chars().all(|letter| letter.is_ascii_digit() || " ,.-".contains(letter))
    })
}

/// Returns `true` if the comma at the offset `at` of `text` is between the day of a month and a
/// year.
fn is_before_year(text: &str, at: usize) -> bool {
    let (before, rest) = text.split_at_checked(at).unwrap_or_default();
    let mut words = before.rsplit(' ');
    let is_day = words.next().is_some_and(|day| (1..=2).contains(&day.len()) && is_digits(day));
    let is_month = words.next().is_some_and(|month| month.starts_with(char::is_uppercase));
    let word = rest.strip_prefix(", ").and_then(|rest| rest.split(|end: char| !end.is_alphanumeric()).next());
    is_day && is_month && word.is_some_and(|word| word.len() == 4 && is_digits(word))
}

/// Returns the offset of the last sentence that begins before the offset `end` of `text`.
pub(super) fn start_of_last_sentence(text: &str, end: usize) -> usize {
    let before = text.get(..end).unwrap_or_default();
    let start = |separator: &&str| {
        let mut offsets = before.rmatch_indices(*separator).map(|(at, _)| at);
        offsets.find(|at| !is_abbreviation(text, *at)).map(|at| at + separator.len())
    };
    SENTENCE_ENDS.iter().filter_map(start).max().unwrap_or(0)
}

/// Returns `true` if a separator between parts is before the offset `end` of `text`.
pub(super) fn has_separator_before(text: &str, end: usize) -> bool {
    let before = text.get(..end).unwrap_or_default();
    let mut parts = PART_SEPARATORS.iter().filter_map(|separator| before.strip_suffix(separator));
    parts.any(|part| !is_abbreviation(text, part.len()))
}

/// Returns `sentence` without the punctuation at its end. The full stop of an abbreviation such as
/// `p.m.` is kept.
pub(super) fn without_sentence_end(sentence: &str) -> &str {
    let end = sentence.trim_end_matches(['.', '?', '!']);
    if end.rsplit(' ').next().is_some_and(has_full_stops) { sentence } else { end }
}

/// Returns `true` if the full stop at the offset `at` of `text` belongs to an abbreviation: to a
/// title, such as `Dr.`, to capitals with full stops, such as `U.S.`, or to letters with full
/// stops, such as `p.m.`, if the sentence continues with a number or a lower-case word.
fn is_abbreviation(text: &str, at: usize) -> bool {
    let (before, rest) = text.split_at_checked(at).unwrap_or_default();
    let Some(after) = rest.strip_prefix('.') else { return false };
    let mut words = before.rsplit([' ', '(', '"']);
    let word = words.next().unwrap_or_default();
    // `12 Oak Dr.` is an address.
    let is_address = words.take(2).any(|word| word.starts_with(|digit: char| digit.is_ascii_digit()));
    let next = after.split_whitespace().next().unwrap_or_default();
    let is_capital = |part: &str| part.len() == 1 && part.starts_with(char::is_uppercase);
    let may_continue = |letter: char| letter.is_lowercase() || letter.is_ascii_digit();
    let begins_sentence = SENTENCE_STARTS.contains(&next.trim_matches(PUNCTUATION).to_lowercase().as_str());
    // "the U.K. Turn off the lights": a sentence begins with a single capitalized word.
    let second = after.split_whitespace().nth(1).unwrap_or_default();
    let is_title = word.split('.').all(is_capital) && !second.starts_with(char::is_lowercase);
    let continues = !begins_sentence && (next.starts_with(may_continue) || is_title);
    TITLES.contains(&word) && !is_address || has_full_stops(word) && continues
}

/// Returns `true` if `word` consists of letters between full stops: `p.m`.
fn has_full_stops(word: &str) -> bool {
    let is_letter = |part: &str| part.len() <= 2 && part.chars().all(char::is_alphabetic);
    word.contains('.') && word.split('.').all(is_letter)
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
