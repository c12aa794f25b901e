//! Texts for regular expressions.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Numbers of extra repetitions for `*`, `+` and `{n,}`.
const EXTRA_REPEATS: [u32; 7] = [0, 1, 2, 5, 11, 31, 63];

/// Number of variants: each variant takes another branch of alternations and classes.
const VARIANTS: usize = 6;

/// Maximum length of a text, in bytes.
const MAX_LENGTH: usize = 10_000;

/// Preferred characters of a class.
const PREFERRED: [char; 10] = ['a', '0', 'A', '1', 'b', '_', '-', '.', '/', ' '];

/// Candidates for a text that matches, short ones first. The caller must validate them.
pub(super) fn texts(pattern: &str, least: usize) -> Vec<String> {
    let parse = |pattern: &str| ParserBuilder::new().build().parse(pattern).ok();
    // `regex-syntax` has no lookaround: drop these groups and let the validator check the texts.
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
    // An expression without anchors also matches inside a longer text.
    let padded = texts
        .iter()
        .map(|text| format!("{text}{}", "a".repeat(least.saturating_sub(text.len()).min(MAX_LENGTH))));
    let padded: Vec<_> = padded.collect();
    texts.extend(padded);
    texts
}

fn write(part: &Hir, way: usize, more: u32, text: &mut String) {
    if text.len() > MAX_LENGTH {
        return;
    }
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(character(class, way)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.saturating_add(more).min(most) {
                write(&repetition.sub, way, more, text);
                if text.len() > MAX_LENGTH {
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

/// Selects a character of a class.
fn character(class: &Class, way: usize) -> Option<char> {
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

/// The expression without its lookahead and lookbehind groups.
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

/// The rest of `text` after its first group.
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
