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
    let is_valid =
        start < at && !name.is_empty() && top.chars().count() >= 2 && !top.contains(char::is_numeric);
    is_valid.then(|| start..at + 1 + domain.len())
}

/// Returns the ranges of the payment card numbers in `text`.
pub(super) fn card_numbers(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(start) = text.get(rest..).and_then(|text| text.find(|char: char| char.is_ascii_digit())) {
        let start = rest + start;
        let bytes = text.as_bytes().iter().enumerate().skip(start);
        let (mut digits, mut end, mut was_separator) = (Vec::new(), start, false);
        for (index, byte) in bytes {
            match byte {
                b'0'..=b'9' => {
                    digits.push(u32::from(byte - b'0'));
                    (end, was_separator) = (index + 1, false);
                }
                b' ' | b'-' if !was_separator => was_separator = true,
                _ => break,
            }
        }
        if (13..=19).contains(&digits.len()) && is_luhn_valid(&digits) {
            found.push(start..end);
        }
        rest = end;
    }
    found
}

fn is_luhn_valid(digits: &[u32]) -> bool {
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let values = digits.iter().rev().enumerate();
    let sum: u32 = values.map(|(place, digit)| if place % 2 == 1 { doubled(*digit) } else { *digit }).sum();
    sum.is_multiple_of(10)
}
