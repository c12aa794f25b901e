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
        let skipped = text.chars().count().saturating_sub(TAIL);
        let tail: String =
            text.chars().skip(skipped).map(|it| if it.is_control() { ' ' } else { it }).collect();
        self.say(if skipped > 0 { format!("…{tail}") } else { tail });
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
