//! How models write: the signs of print, and a `%` that they mean in another way than it is read.

/// Writes what the evaluator reads in place of the signs of print.
pub(super) fn plain(expression: &str) -> String {
    let mut plain = String::with_capacity(expression.len());
    for sign in expression.chars() {
        match in_letters(sign) {
            Some(letters) => plain.push_str(letters),
            None => plain.push(sign),
        }
    }
    plain
}

fn in_letters(sign: char) -> Option<&'static str> {
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

/// Which character of an expression, counted from 1, became byte `offset` of its plain form.
pub(super) fn position(expression: &str, offset: usize) -> usize {
    let mut end = 0;
    let before = expression.chars().take_while(|sign| {
        end += in_letters(*sign).map_or(sign.len_utf8(), str::len);
        end <= offset
    });
    before.count() + 1
}

/// Whether a `%` stands for a hundredth: nothing follows that could be divided by, or what follows is an operator and
/// the sign is close to its number, as in `50% + 10`.
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
