//! A progress line with a spinner, at the bottom of the terminal.

use std::{io, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal;

/// The maximum number of characters of a streamed text in the progress line. Only the end of a
/// longer text is shown.
const TAIL_CHARS: usize = 60;

/// A progress line on standard error. It is hidden if standard error is not a terminal.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner().with_style(ProgressStyle::default_spinner());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Sets the message in the progress line.
    pub(crate) fn set_message(&self, message: impl Into<String>) {
        self.0.set_message(message.into());
    }

    /// Shows the end of `text` in the progress line, for example the end of an answer that is being
    /// streamed.
    pub(crate) fn show_tail(&self, text: &str) {
        self.set_message(tail(text));
    }

    /// Writes `text` to standard output, above the progress line.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        self.0.suspend(|| terminal::write(text))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Returns the last [`TAIL_CHARS`] characters of `text` on one line. If `text` is longer, the
/// returned line starts with an ellipsis.
///
/// The run time does not depend on the length of `text`. This function is called with the whole
/// text so far for each delta of an answer, so a linear run time per call would be quadratic in
/// total.
fn tail(text: &str) -> String {
    let start = text.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(start, _)| start);
    let tail = text.get(start..).unwrap_or(text).replace(char::is_control, " ");
    if start > 0 { format!("…{tail}") } else { tail }
}

#[cfg(test)]
mod tests;
