//! Output on the standard streams. Colours are written to terminals only. Control characters from
//! models and servers are removed.

use std::io::{self, Write as _};

use anstyle::Style;

/// Writes a text to standard output and flushes it.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a JSON text as one line to standard output.
///
/// Control characters are escaped as `\u…`, so the parsed value is unchanged.
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

/// Writes a text to standard error.
pub(crate) fn write_error(text: &str) -> io::Result<()> {
    anstream::stderr().lock().write_all(text.as_bytes())
}

/// Writes a warning to standard error.
pub(crate) fn warn(text: &str) {
    const WARNING_STYLE: Style = anstyle::AnsiColor::Yellow.on_default().bold();
    // Writing fails only if standard error is closed, and then no warning is possible.
    let _ = write_error(&format!("{} {}\n", paint(WARNING_STYLE, "warning:"), plain(text)));
}

/// Adds the ANSI codes of a style to a text. The functions of this module remove them if the stream
/// is not a terminal.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Removes control characters except newlines and tabs from a text of a model, tool or server.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}
