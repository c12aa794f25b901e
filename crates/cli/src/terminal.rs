//! Output to the standard streams. Colors are written to terminals only. Control characters in
//! text from models and servers are removed, or escaped in JSON.

use std::io::{self, Write as _};

use anstyle::Style;

/// Writes `text` to standard output and flushes it.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes the JSON text `json` to standard output as one line.
///
/// Control characters are escaped as `\u…`. A JSON parser reads the same value, but a terminal
/// receives no escape sequences.
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

/// Writes `text` to standard error.
pub(crate) fn write_error(text: &str) -> io::Result<()> {
    anstream::stderr().lock().write_all(text.as_bytes())
}

/// Writes `text` to standard error as a warning.
pub(crate) fn warn(text: &str) {
    const WARNING_STYLE: Style = anstyle::AnsiColor::Yellow.on_default().bold();
    // Ignore an error: a warning cannot be written if standard error is closed.
    let _ = write_error(&format!("{} {}\n", paint(WARNING_STYLE, "warning:"), remove_control_chars(text)));
}

/// Returns `text` between the ANSI codes that start and end `style`. `write` and `write_error`
/// remove these codes if the stream is not a terminal.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns `text` without control characters, except for newlines and tabs. Text from models, tools
/// and servers may contain escape sequences for the terminal.
pub(crate) fn remove_control_chars(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}
