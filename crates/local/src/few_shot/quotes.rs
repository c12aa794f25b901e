//! Quotations in a text.

/// Quotation marks, as pairs.
pub(super) const QUOTES: [(char, char); 3] = [('"', '"'), ('\'', '\''), ('\u{201c}', '\u{201d}')];
/// All quotation marks.
pub(super) const MARKS: [char; 4] = ['"', '\'', '\u{201c}', '\u{201d}'];

/// Returns the texts between quotation marks in `text`. An apostrophe within or after a word is no
/// quotation mark. One before a word (`'80s`) is, if another one follows the end of a word.
pub(super) fn quotations(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(mark) = rest.chars().next() {
        let close = QUOTES.iter().find(|(open, _)| *open == mark && !before.is_alphanumeric());
        let quoted = close.and_then(|(_, close)| quotation(rest.get(mark.len_utf8()..)?, *close));
        let end = mark.len_utf8() + quoted.map_or(0, str::len);
        found.extend(quoted.filter(|quoted| !quoted.trim().is_empty()));
        before = rest.get(..end).and_then(|read| read.chars().last()).unwrap_or(mark);
        rest = rest.get(end..).unwrap_or_default();
        if quoted.is_some() {
            // The closing mark opens no quotation.
            before = rest.chars().next().unwrap_or(before);
            rest = rest.get(before.len_utf8()..).unwrap_or_default();
        }
    }
    found
}

/// Returns the text before the quotation mark `close`, which no letter or digit follows.
fn quotation(text: &str, close: char) -> Option<&str> {
    let mut ends = text.match_indices(close).map(|(at, _)| at);
    let end = ends.find(|at| {
        let after = text.get(at + close.len_utf8()..);
        after.is_some_and(|after| !after.starts_with(char::is_alphanumeric))
    })?;
    text.get(..end)
}

#[cfg(test)]
mod tests {
    use super::quotations;

    #[test]
    fn apostrophes_are_no_quotation_marks() {
        let text =
            "Tell Ann's friends 'I'm late' and \"good night\", \u{201c}it's ok\u{201d}. The boys' room";
        assert_eq!(quotations(text), ["I'm late", "good night", "it's ok"]);
        assert_eq!(quotations("don't and won't"), Vec::<&str>::new());
        assert_eq!(quotations("an open \"quotation"), Vec::<&str>::new());
        assert_eq!(quotations("''"), Vec::<&str>::new());
    }
}
