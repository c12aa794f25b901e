//! Generates strings that match a regular expression.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The numbers of repetitions to add to the minimum of a quantifier such as `*`, `+` or `{2,}`. For
/// each number, [`VARIANTS_PER_REPEAT`] strings are generated.
const EXTRA_REPEATS: [u32; 7] = [0, 1, 2, 5, 11, 31, 63];

/// The number of strings to generate for each number of repetitions. Each string uses different
/// branches of alternations such as `a|b`, and different characters of classes such as `[a-z]`.
const VARIANTS_PER_REPEAT: usize = 6;

/// The length, in bytes, above which a generated string is not extended. The padding of a string is
/// limited to the same length.
const MAX_TEXT_BYTES: usize = 10_000;

/// The characters to prefer in a class such as `[a-z]`, in this order.
const PREFERRED_CHARS: [char; 10] = ['a', '0', 'A', '1', 'b', '_', '-', '.', '/', ' '];

/// Generates candidate strings for the regular expression `pattern`. Some of them are padded to a
/// length of at least `least` characters. Not all candidates match the pattern, so the caller must
/// validate them.
pub(super) fn generate_texts(pattern: &str, least: usize) -> Vec<String> {
    let parse = |pattern: &str| ParserBuilder::new().build().parse(pattern).ok();
    // `regex-syntax` does not support lookaround groups. Remove the groups, because the caller
    // discards strings that violate them.
    let Some(parsed) = parse(pattern).or_else(|| parse(&without_lookaround(pattern))) else {
        return Vec::new();
    };
    let length = u32::try_from(least).unwrap_or(u32::MAX);
    let mut texts = Vec::new();
    for extra_repeats in EXTRA_REPEATS.into_iter().chain([length]) {
        for variant in 0..VARIANTS_PER_REPEAT {
            let mut text = String::new();
            append_text(&parsed, variant, extra_repeats, &mut text);
            texts.push(text);
        }
    }
    // A pattern without anchors also matches a longer string that contains a match, so add padded
    // strings.
    let pad = |text: &String| {
        let missing = least.saturating_sub(text.chars().count()).min(MAX_TEXT_BYTES);
        format!("{text}{}", "a".repeat(missing))
    };
    let padded: Vec<_> = texts.iter().map(pad).collect();
    texts.extend(padded);
    texts
}

/// Generates a string that matches `part`, a part of the pattern, and appends it to `text`. Anchors
/// are ignored, and a text longer than [`MAX_TEXT_BYTES`] is not extended. `variant` selects the
/// branches of alternations and the characters of classes. `extra_repeats` is added to the minimum
/// of each quantifier, up to its maximum.
fn append_text(part: &Hir, variant: usize, extra_repeats: u32, text: &mut String) {
    if text.len() > MAX_TEXT_BYTES {
        return;
    }
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(select_character(class, variant)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.saturating_add(extra_repeats).min(most) {
                append_text(&repetition.sub, variant, extra_repeats, text);
                if text.len() > MAX_TEXT_BYTES {
                    return;
                }
            }
        }
        HirKind::Capture(capture) => append_text(&capture.sub, variant, extra_repeats, text),
        HirKind::Concat(parts) => {
            parts.iter().for_each(|part| append_text(part, variant, extra_repeats, text));
        }
        HirKind::Alternation(ways) => {
            if let Some(chosen) = ways.get(variant % ways.len().max(1)) {
                append_text(chosen, variant, extra_repeats, text);
            }
        }
    }
}

/// Returns the character of `class` that `variant` selects. `None` if the class is empty.
fn select_character(class: &Class, variant: usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            class.iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let has = |it: char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&it));
    let preferred: Vec<_> = PREFERRED_CHARS.into_iter().filter(|it| has(*it)).collect();
    let first =
        ranges.iter().map(|(start, end)| if *start < ' ' && *end > ' ' { '!' } else { *start }).next();
    preferred.get(variant % preferred.len().max(1)).copied().or(first)
}

/// Returns `pattern` without its lookahead and lookbehind groups.
fn without_lookaround(pattern: &str) -> String {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|open| rest.starts_with(open)) {
            rest = skip_group(rest);
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

/// Skips the parenthesized group at the start of `text` and returns the rest. Returns an empty
/// string if the group is not closed.
fn skip_group(text: &str) -> &str {
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
