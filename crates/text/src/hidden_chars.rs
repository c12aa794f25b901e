use std::borrow::Cow;

/// Returns `text` without characters that a reader does not see: control characters except for line
/// breaks (`\n` and `\r\n`) and tabs, bidirectional controls, zero-width spaces and invisible
/// operators, and tags (Unicode 17, sections 23.1 to 23.9).
///
/// Text from outside can hide instructions to a model in such characters, or change how a terminal
/// shows the text around them. The zero-width joiner and non-joiner are kept, because some scripts
/// and emoji need them.
///
/// # Examples
///
/// ```
/// use haft_text::without_hidden_chars;
///
/// assert_eq!(without_hidden_chars("read\u{200b} a\u{202e} file\u{1b}[31m"), "read a file[31m");
/// assert_eq!(without_hidden_chars("two\n\tlines"), "two\n\tlines");
/// ```
pub fn without_hidden_chars(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let is_line_break = |index| text.get(index..).is_some_and(|rest| rest.starts_with("\r\n"));
    let visible =
        text.char_indices().filter(|(index, character)| !is_hidden(*character) || is_line_break(*index));
    Cow::Owned(visible.map(|(_, character)| character).collect())
}

/// Returns `true` if a reader does not see `character`; see [`without_hidden_chars`].
pub fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // A soft hyphen, an Arabic letter mark, and a Mongolian vowel separator.
        '\u{ad}' | '\u{61c}' | '\u{180e}' => true,
        // A zero-width space, and the marks and controls of the direction.
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Invisible operators, deprecated format characters, a byte order mark, and annotations.
        '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Tags, and the variation selectors that can encode bytes.
        '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_hidden, without_hidden_chars};

    #[test]
    fn visible_text_is_unchanged() {
        for text in ["naïve café\r\n\r\n", "שלום", "می\u{200c}خواهم", "👩\u{200d}🚀 ❤\u{fe0f}", "a\tb\nc"]
        {
            assert_eq!(without_hidden_chars(text), text);
        }
    }

    #[test]
    fn hidden_text_is_removed() {
        let tags: String =
            "ignore".chars().map(|letter| char::from_u32(0xe0000 + letter as u32).unwrap()).collect();
        assert_eq!(without_hidden_chars(&format!("Adds.{tags}")), "Adds.");
        assert_eq!(without_hidden_chars("\u{202e}abc\u{202c}\u{feff}\u{0}\u{9b}31m"), "abc31m");
        assert_eq!(without_hidden_chars("100 %\r\r\nover\rwritten"), "100 %\r\noverwritten");
        assert!(is_hidden('\r') && is_hidden('\u{7f}') && !is_hidden(' '));
    }
}
