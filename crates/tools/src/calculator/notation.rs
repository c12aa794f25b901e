//! Conversion of typographic symbols such as `×` in expressions, and detection of `%` as a percent
//! sign.

/// Replaces typographic symbols in `expression`, such as `×` and `π`, with ASCII operators and
/// names.
pub(super) fn to_ascii(expression: &str) -> String {
    let mut plain = String::with_capacity(expression.len());
    for sign in expression.chars() {
        match ascii_replacement(sign) {
            Some(replacement) => plain.push_str(replacement),
            None => plain.push(sign),
        }
    }
    plain
}

fn ascii_replacement(sign: char) -> Option<&'static str> {
    Some(match sign {
        '×' | '·' | '⋅' | '∗' => "*",
        '÷' | '∕' => "/",
        '−' | '–' => "-",
        '²' => "^2",
        '³' => "^3",
        '√' => "sqrt",
        'π' => "pi",
        _ => return None,
    })
}

/// Converts `offset`, a byte offset in the result of [`to_ascii`] for `expression`, to a position
/// in `expression` itself, counted in characters from 1.
pub(super) fn char_position(expression: &str, offset: usize) -> usize {
    let mut end = 0;
    let before = expression.chars().take_while(|sign| {
        end += ascii_replacement(*sign).map_or(sign.len_utf8(), str::len);
        end <= offset
    });
    before.count() + 1
}

/// Returns `true` if any `%` in `plain` is a percent sign and not the remainder operator.
///
/// A `%` is a percent sign if no divisor follows, as in `15%`. It is also a percent sign if `+`,
/// `-`, `(` or `!` follows and no space precedes the `%`, as in `50% + 10`.
pub(super) fn has_percentage(plain: &str) -> bool {
    plain.match_indices('%').any(|(index, sign)| {
        let (before, after) = plain.split_at(index);
        let divisor = after.trim_start_matches(sign).trim_start();
        match divisor.chars().next() {
            Some('+' | '-' | '(' | '!') => !before.ends_with(char::is_whitespace),
            Some(first) => ")*/^,<>=&|?:".contains(first) || divisor.starts_with("of "),
            None => true,
        }
    })
}
