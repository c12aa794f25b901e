//! What happens right now, on the last line of a terminal.

use std::{io, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal;

/// How much of a text in the making is shown, in characters.
const TAIL: usize = 60;

/// One line that changes. Where standard error is no terminal it is not there.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner().with_style(ProgressStyle::default_spinner());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Says what happens.
    pub(crate) fn say(&self, message: impl Into<String>) {
        self.0.set_message(message.into());
    }

    /// Shows the end of a text that grows.
    pub(crate) fn follow(&self, text: &str) {
        self.say(tail(text));
    }

    /// Writes to standard output, above the line.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        self.0.suspend(|| terminal::write(text))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The end of a text on one line. It costs no more when the text is long: it is asked for at each word of an answer.
fn tail(text: &str) -> String {
    let start = text.char_indices().rev().nth(TAIL - 1).map_or(0, |(start, _)| start);
    let tail = text.get(start..).unwrap_or(text).replace(char::is_control, " ");
    if start > 0 { format!("…{tail}") } else { tail }
}

#[cfg(test)]
mod tests;
