//! Texts that match a regular expression.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// How often more than it must what may be repeated is written.
const MORE: [u32; 7] = [0, 1, 2, 5, 11, 31, 63];

/// How many of the ways of alternatives and classes are taken.
const WAYS: usize = 6;

/// The longest text that is made.
const LONGEST: usize = 10_000;

/// Characters that are taken first of those that a class has.
const LIKED: [char; 10] = ['a', '0', 'A', '1', 'b', '_', '-', '.', '/', ' '];

/// Texts that may match, the shortest first: whether they do is for the validator to say.
pub(super) fn texts(pattern: &str, least: usize) -> Vec<String> {
    let parse = |pattern: &str| ParserBuilder::new().build().parse(pattern).ok();
    // What looks around matches nothing by itself; a text is held against the whole expression afterwards.
    let Some(parsed) = parse(pattern).or_else(|| parse(&without_lookaround(pattern))) else {
        return Vec::new();
    };
    let length = u32::try_from(least).unwrap_or(u32::MAX);
    let mut texts = Vec::new();
    for more in MORE.into_iter().chain([length]) {
        for way in 0..WAYS {
            let mut text = String::new();
            write(&parsed, way, more, &mut text);
            texts.push(text);
        }
    }
    // An expression without anchors may stand in a longer text.
    let padded = texts
        .iter()
        .map(|text| format!("{text}{}", "a".repeat(least.saturating_sub(text.len()).min(LONGEST))));
    let padded: Vec<_> = padded.collect();
    texts.extend(padded);
    texts
}

fn write(part: &Hir, way: usize, more: u32, text: &mut String) {
    if text.len() > LONGEST {
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
                if text.len() > LONGEST {
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

/// One of the characters of a class.
fn character(class: &Class, way: usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            class.iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let has = |it: char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&it));
    let liked: Vec<_> = LIKED.into_iter().filter(|it| has(*it)).collect();
    let first =
        ranges.iter().map(|(start, end)| if *start < ' ' && *end > ' ' { '!' } else { *start }).next();
    liked.get(way % liked.len().max(1)).copied().or(first)
}

/// The expression without its groups that look ahead or behind.
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

/// What follows the group that a text begins with.
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
