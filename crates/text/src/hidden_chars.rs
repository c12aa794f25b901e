use std::borrow::Cow;

/// Returns `text` without characters that a reader does not see: control characters except for line
/// breaks (`\n` and `\r\n`) and tabs, and default-ignorable code points (Unicode 17, section 5.21),
/// such as bidirectional controls, zero-width spaces, fillers and tags.
///
/// Text from outside can hide instructions to a model in such characters, or change how a terminal
/// shows the text around them. Joiners and variation selectors are kept where scripts and emoji
/// need them: at most a selector and a joiner between two visible characters, and no selector after
/// a Latin letter or a space.
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
    if !text.contains(|character| is_hidden(character) || is_joiner(character) || is_selector(character)) {
        return Cow::Borrowed(text);
    }
    let is_line_break = |index| text.get(index..).is_some_and(|rest| rest.starts_with("\r\n"));
    let mut visible = String::with_capacity(text.len());
    let mut before = None;
    for (index, character) in text.char_indices() {
        let is_kept = match character {
            joiner if is_joiner(joiner) => !before.is_some_and(is_joiner),
            selector if is_selector(selector) => before.is_some_and(can_have_selector),
            other => !is_hidden(other) || is_line_break(index),
        };
        if is_kept {
            visible.push(character);
            before = Some(character);
        }
    }
    if visible.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(visible) }
}

/// Returns the JSON text `json` with [hidden characters](is_hidden) and line separators escaped as
/// `\u…`. A parser reads the same value, but a terminal or an editor shows all of it in one line.
///
/// # Examples
///
/// ```
/// use haft_text::escape_hidden_in_json;
///
/// assert_eq!(escape_hidden_in_json("{\"a\":\"\u{202e}b\"}"), r#"{"a":"\u202eb"}"#);
/// ```
pub fn escape_hidden_in_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |character| is_hidden(character) || matches!(character, '\u{2028}' | '\u{2029}');
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match is_escaped(character) {
            true => character
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}"))),
            false => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// Returns `true` if a reader never sees `character`: a control character except for `\n` and `\t`,
/// or a default-ignorable code point other than a joiner or a variation selector; see
/// [`without_hidden_chars`].
pub fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        other if is_joiner(other) || is_selector(other) => false,
        // A soft hyphen, a combining grapheme joiner, an Arabic letter mark, Hangul fillers, and
        // Khmer and Mongolian vowels without a form.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' => {
            true
        }
        // A zero-width space, the marks and controls of the direction, and invisible operators.
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // More Hangul fillers, a byte order mark, annotations, and reserved code points.
        '\u{3164}' | '\u{ffa0}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' => true,
        // Controls of shorthand and of musical notation, tags, and further variation selectors.
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

/// Returns `true` for the zero-width joiner and non-joiner.
fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

/// Returns `true` for a variation selector of emoji and symbols, or of Mongolian.
fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180d}' | '\u{180f}')
}

/// Returns `true` if a variation selector may follow `character`. A digit is part of a keycap
/// emoji.
fn can_have_selector(character: char) -> bool {
    !is_joiner(character)
        && !is_selector(character)
        && !character.is_ascii_alphabetic()
        && !character.is_whitespace()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{escape_hidden_in_json, is_hidden, without_hidden_chars};

    #[test]
    fn visible_text_is_unchanged() {
        for text in [
            "naïve café\r\n\r\n",
            "שלום",
            "می\u{200c}خواهم",
            "👩\u{200d}🚀 ❤\u{fe0f}",
            "❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} 👁\u{fe0f}\u{200d}🗨\u{fe0f}",
            "葛\u{fe00}",
            "ᠠ\u{180b}",
            "한국어",
            "a\tb\nc",
        ] {
            assert!(matches!(without_hidden_chars(text), Cow::Borrowed(it) if it == text), "{text}");
            assert!(!text.replace('\r', "").contains(is_hidden), "{text}");
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
    /// The default-ignorable code points of Unicode 17 (`DerivedCoreProperties.txt`), except for
    /// joiners and variation selectors.
    #[test]
    fn default_ignorable_code_points_are_hidden() {
        let ranges = [
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x17b4, 0x17b5),
            (0x180e, 0x180e),
            (0x200b, 0x200b),
            (0x200e, 0x200f),
            (0x202a, 0x202e),
            (0x2060, 0x206f),
            (0x3164, 0x3164),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff0, 0xfff8),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe0fff),
        ];
        for code in ranges.into_iter().flat_map(|(first, last)| first..=last) {
            let character = char::from_u32(code).unwrap();
            assert!(is_hidden(character), "{code:x}");
            assert_eq!(without_hidden_chars(&format!("a{character}b")), "ab", "{code:x}");
        }
    }

    /// Runs of joiners and selectors can encode a text.
    #[test]
    fn encoded_text_is_removed() {
        for (text, expected) in [
            ("ok\u{fe01}\u{fe02}\u{fe0f}.", "ok."),
            ("👍\u{fe0f}\u{fe01}\u{fe02}.", "👍\u{fe0f}."),
            ("👍\u{fe0f}\u{200d}\u{fe0f}\u{200d}\u{fe01}.", "👍\u{fe0f}\u{200d}."),
            ("ok \u{fe0f}\u{200c}\u{200d}\u{200c}\u{200d}.", "ok \u{200c}."),
            ("👍\u{200b}\u{fe0f}\u{200b}\u{fe01}", "👍\u{fe0f}"),
            ("\u{fe0f}a", "a"),
        ] {
            assert_eq!(without_hidden_chars(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_has_the_same_value() {
        let json = "[\"a\u{202e}\u{e0041}\u{85}\u{2028}b\",\t1]";
        assert_eq!(escape_hidden_in_json(json), "[\"a\\u202e\\udb40\\udc41\\u0085\\u2028b\",\t1]");
        assert!(matches!(escape_hidden_in_json("[\"é\"]"), Cow::Borrowed(_)));
    }
}
