//! Detectors of common sensitive values.

use std::ops::Range;

/// Returns the ranges of the e-mail addresses in `text`.
pub(super) fn emails(text: &str) -> Vec<Range<usize>> {
    let at_signs = text.match_indices('@').map(|(at, _)| at);
    at_signs.filter_map(|at| email_around(text, at)).collect()
}

/// Returns the range of the e-mail address whose `@` is at the index `at`.
fn email_around(text: &str, at: usize) -> Option<Range<usize>> {
    let is_local = |char: char| char.is_alphanumeric() || "._%+-'".contains(char);
    let is_domain = |char: char| char.is_alphanumeric() || ".-".contains(char);
    let (before, after) = (text.get(..at)?, text.get(at + 1..)?);
    let start = before.trim_end_matches(is_local).len();
    let local = before.get(start..)?;
    let start = at - local.trim_start_matches(['.', '\'', '-']).len();
    let domain = after.get(..after.find(|char| !is_domain(char)).unwrap_or(after.len()))?;
    let domain = domain.trim_end_matches(['.', '-']);
    let (name, top) = domain.rsplit_once('.')?;
    // The top-level domain can be encoded, as in `xn--p1ai`.
    let is_top = top.chars().count() >= 2 && !top.chars().all(char::is_numeric);
    let is_valid = start < at && !name.is_empty() && is_top;
    is_valid.then(|| start..at + 1 + domain.len())
}

/// The minimum number of digits in a group of a card number, except in its last group. No card
/// scheme prints shorter groups. Without this minimum, most lists of small numbers contain a valid
/// checksum.
const MIN_GROUP_DIGITS: usize = 3;

/// Returns the ranges of the payment card numbers in `text`. Overlapping numbers have one range,
/// because the checksum of an adjacent number can be valid by chance.
pub(super) fn card_numbers(text: &str) -> Vec<Range<usize>> {
    let groups = digit_groups(text);
    let mut found: Vec<Range<usize>> = Vec::new();
    for first in 0..groups.len() {
        let Some(number) = groups.get(first..).and_then(|groups| card_number_at(text, groups)) else {
            continue;
        };
        match found.last_mut().filter(|last| number.start < last.end) {
            Some(last) => last.end = last.end.max(number.end),
            None => found.push(number),
        }
    }
    found
}

/// Returns the ranges of the sequences of digits in `text`.
fn digit_groups(text: &str) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (index, _) in text.match_indices(|char: char| char.is_ascii_digit()) {
        match groups.last_mut().filter(|last| last.end == index) {
            Some(last) => last.end = index + 1,
            None => groups.push(index..index + 1),
        }
    }
    groups
}

/// Returns the range of the longest card number that starts with the first of `groups`. A single
/// space or hyphen separates two groups of a number.
fn card_number_at(text: &str, groups: &[Range<usize>]) -> Option<Range<usize>> {
    let start = groups.first()?.start;
    let (mut digits, mut longest) = (Vec::new(), None);
    let mut previous: Option<&Range<usize>> = None;
    for group in groups {
        let is_continued = |previous: &Range<usize>| {
            previous.len() >= MIN_GROUP_DIGITS
                && matches!(text.get(previous.end..group.start), Some(" " | "-"))
        };
        if digits.len() > 19 || !previous.is_none_or(is_continued) {
            break;
        }
        digits.extend(text.get(group.clone())?.chars().filter_map(|digit| digit.to_digit(10)));
        if (13..=19).contains(&digits.len()) && is_luhn_valid(&digits) {
            longest = Some(start..group.end);
        }
        previous = Some(group);
    }
    longest
}

fn is_luhn_valid(digits: &[u32]) -> bool {
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let values = digits.iter().rev().enumerate();
    let sum: u32 = values.map(|(place, digit)| if place % 2 == 1 { doubled(*digit) } else { *digit }).sum();
    sum.is_multiple_of(10)
}
