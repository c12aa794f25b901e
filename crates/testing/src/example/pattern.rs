//! Generates strings that match a regular expression.

use regex_syntax::Parser;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The length, in bytes, above which a generated string is not extended.
const MAX_TEXT_BYTES: usize = 10_000;

/// The characters to prefer in a class such as `[a-z]`, in this order.
const PREFERRED_CHARS: [char; 5] = ['a', '0', 'A', '1', '/'];

/// Generates candidate strings for the regular expression `pattern`. Some of them have at least
/// `least` characters. Not all candidates match the pattern, so the caller must validate them.
pub(super) fn generate_texts(pattern: &str, least: usize) -> Vec<String> {
    let Ok(parsed) = Parser::new().parse(pattern) else { return Vec::new() };
    let with_extra_repeats = |extra_repeats| {
        let mut text = String::new();
        append_text(&parsed, extra_repeats, &mut text);
        text
    };
    let extra_repeats = [0, 1, u32::try_from(least).unwrap_or(u32::MAX)];
    extra_repeats.into_iter().map(with_extra_repeats).collect()
}

/// Generates a string that matches `part`, a part of the pattern, and appends it to `text`. Anchors
/// are ignored. `extra_repeats` is added to the minimum of each quantifier such as `*`, up to its
/// maximum.
fn append_text(part: &Hir, extra_repeats: u32, text: &mut String) {
    if text.len() > MAX_TEXT_BYTES {
        return;
    }
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(select_character(class)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.saturating_add(extra_repeats).min(most) {
                append_text(&repetition.sub, extra_repeats, text);
                if text.len() > MAX_TEXT_BYTES {
                    return;
                }
            }
        }
        HirKind::Capture(capture) => append_text(&capture.sub, extra_repeats, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| append_text(part, extra_repeats, text)),
        HirKind::Alternation(ways) => {
            ways.iter().take(1).for_each(|way| append_text(way, extra_repeats, text));
        }
    }
}

/// Returns a [preferred](PREFERRED_CHARS) character of `class`, or else its first. `None` if the
/// class is empty.
fn select_character(class: &Class) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            class.iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let is_in_class = |it: &char| ranges.iter().any(|(start, end)| (*start..=*end).contains(it));
    PREFERRED_CHARS.into_iter().find(is_in_class).or_else(|| ranges.first().map(|(start, _)| *start))
}
