//! Output to the standard streams. Colors are written to terminals only. Control characters in
//! text from models and servers are removed, or escaped in JSON.

use std::io::{self, Write as _};

use anstyle::Style;
use haft_core::text::{escape_hidden_in_json, without_hidden_chars};

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
    let mut line = escape_hidden_in_json(json).into_owned();
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

/// Writes `text` to standard error.
pub(crate) fn write_error(text: &str) -> io::Result<()> {
    anstream::stderr().lock().write_all(text.as_bytes())
}

/// Returns `true` if `line`, the reply to a prompt, is a confirmation.
pub(crate) fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
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

/// Returns `text` without [hidden characters](without_hidden_chars). Text from models, tools and
/// servers may contain escape sequences for the terminal, or change the order in which it shows the
/// text.
pub(crate) fn remove_control_chars(text: &str) -> String {
    without_hidden_chars(text).into_owned()
}
