//! Writing for people: colours on a terminal only, and no control over it for what comes from outside.

use std::io::{self, Write as _};

use anstyle::Style;

/// Writes to standard output.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes JSON as a line to standard output. What would control a terminal is escaped, so that the value stays as it is.
pub(crate) fn write_json(json: &str) -> io::Result<()> {
    let mut line = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        match character.is_control() {
            true => line.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => line.push(character),
        }
    }
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

/// Writes to standard error.
pub(crate) fn write_error(text: &str) -> io::Result<()> {
    anstream::stderr().lock().write_all(text.as_bytes())
}

/// Warns on standard error.
pub(crate) fn warn(text: &str) {
    const WARNING: Style = anstyle::AnsiColor::Yellow.on_default().bold();
    // Whoever closed standard error wants no warnings.
    let _ = write_error(&format!("{} {}\n", paint(WARNING, "warning:"), plain(text)));
}

/// Text in a style. Where there is no terminal the style is left out in the writing.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Text of a model or a tool without what would control the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}
