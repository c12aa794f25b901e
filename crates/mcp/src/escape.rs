use haft_core::text::is_hidden;

/// Returns `text` with hidden characters escaped: `\u{202e}`.
pub(crate) fn escape_hidden(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_hidden(letter) {
            true => visible.extend(letter.escape_unicode()),
            false => visible.push(letter),
        }
    }
    visible
}
