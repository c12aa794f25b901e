//! Generates texts that match a regular expression.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The numbers of additional repetitions for `*`, `+` and `{n,}`, each for another text.
const EXTRA_REPEATS: [u32; 7] = [0, 1, 2, 5, 11, 31, 63];

/// The number of variants of a text. Each variant takes other branches of alternations and other
/// characters of classes.
const VARIANTS: usize = 6;

/// Maximum length of a generated text, in bytes.
const MAX_TEXT_BYTES: usize = 10_000;

/// The preferred characters of a class such as `[a-z]`, in this order.
const PREFERRED: [char; 10] = ['a', '0', 'A', '1', 'b', '_', '-', '.', '/', ' '];

/// Generates candidates for a text that matches `pattern`, some of them with at least `least`
/// characters. Short candidates are first. The caller must validate them.
pub(super) fn texts(pattern: &str, least: usize) -> Vec<String> {
    let parse = |pattern: &str| ParserBuilder::new().build().parse(pattern).ok();
    // `regex-syntax` does not support lookaround groups. Remove them and let the validator check
    // the texts.
    let Some(parsed) = parse(pattern).or_else(|| parse(&without_lookaround(pattern))) else {
        return Vec::new();
    };
    let length = u32::try_from(least).unwrap_or(u32::MAX);
    let mut texts = Vec::new();
    for more in EXTRA_REPEATS.into_iter().chain([length]) {
        for way in 0..VARIANTS {
            let mut text = String::new();
            write(&parsed, way, more, &mut text);
            texts.push(text);
        }
    }
    // A pattern without anchors also matches a part of a longer text, so padded texts are
    // candidates too.
    let padded = texts
        .iter()
        .map(|text| format!("{text}{}", "a".repeat(least.saturating_sub(text.len()).min(MAX_TEXT_BYTES))));
    let padded: Vec<_> = padded.collect();
    texts.extend(padded);
    texts
}

/// Appends the text of variant `way` for a part of the pattern, with `more` additional repetitions.
fn write(part: &Hir, way: usize, more: u32, text: &mut String) {
    if text.len() > MAX_TEXT_BYTES {
        return;
    }
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(select_character(class, way)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.saturating_add(more).min(most) {
                write(&repetition.sub, way, more, text);
                if text.len() > MAX_TEXT_BYTES {
                    return;
                }
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, way, more, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, way, more, text)),
        HirKind::Alternation(ways) => {
            if let Some(chosen) = ways.get(way % ways.len().max(1)) {
                write(chosen, way, more, text);
            }
        }
    }
}

/// Selects a character of a class for variant `way`.
fn select_character(class: &Class, way: usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            class.iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let has = |it: char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&it));
    let preferred: Vec<_> = PREFERRED.into_iter().filter(|it| has(*it)).collect();
    let first =
        ranges.iter().map(|(start, end)| if *start < ' ' && *end > ' ' { '!' } else { *start }).next();
    preferred.get(way % preferred.len().max(1)).copied().or(first)
}

/// Returns the pattern without its lookahead and lookbehind groups.
fn without_lookaround(pattern: &str) -> String {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|open| rest.starts_with(open)) {
            rest = after_group(rest);
            continue;
        }
        let length =
            next.len_utf8() + if next == '\\' { rest.chars().nth(1).map_or(0, char::len_utf8) } else { 0 };
        let (piece, after) = rest.split_at(length);
        text.push_str(piece);
        rest = after;
    }
    text
}

/// Returns the text after the group in parentheses at the start of `text`.
fn after_group(text: &str) -> &str {
    let mut depth = 0;
    let mut is_escaped = false;
    for (at, it) in text.char_indices() {
        match it {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' if depth == 1 => return text.get(at + 1..).unwrap_or_default(),
            ')' => depth -= 1,
            _ => {}
        }
    }
    ""
}
