//! A progress line with a spinner, at the bottom of the terminal.

use std::{io, time::Duration};

#[cfg(feature = "local")]
use indicatif::HumanCount;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// The maximum number of characters of a streamed text in the progress line. Only the end of a
/// longer text is shown.
const TAIL_CHARS: usize = 60;

/// The control sequence that clears the current line.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// The time between two frames of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// A progress line on standard error. It appears with the first message. It is hidden if standard
/// error is not a terminal.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new() -> Self {
        Self(ProgressBar::new_spinner().with_style(ProgressStyle::default_spinner()))
    }

    /// Sets the message in the progress line.
    pub(crate) fn set_message(&self, message: impl Into<String>) {
        self.0.set_message(message.into());
        self.0.enable_steady_tick(TICK);
    }

    /// Returns a handle that shows the progress of a local model in this line.
    #[cfg(feature = "local")]
    pub(crate) fn model_progress(&self) -> ModelProgress {
        ModelProgress(self.0.clone())
    }

    /// Returns a handle that hides this line for a while.
    pub(crate) fn pause(&self) -> Pause {
        Pause(self.0.clone())
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

/// A handle that hides the line of a [`Spinner`].
#[derive(Clone)]
pub(crate) struct Pause(ProgressBar);

impl Pause {
    /// Calls `work` while the line is hidden. Other threads may update the line meanwhile.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.set_draw_target(ProgressDrawTarget::hidden());
        // An error means that standard error is closed.
        let _ = terminal::write_error(CLEAR_LINE);
        let result = work();
        self.0.set_draw_target(ProgressDrawTarget::stderr());
        result
    }
}

/// The progress of a local model in the line of a [`Spinner`]. If standard error is not a terminal,
/// a few lines are printed instead.
#[cfg(feature = "local")]
#[derive(Clone)]
pub(crate) struct ModelProgress(ProgressBar);

#[cfg(feature = "local")]
impl ModelProgress {
    /// Shows that `fraction` of the weights are loaded, from 0 to 1.
    pub(crate) fn show_loading(&self, fraction: f32) {
        if self.0.is_hidden() && fraction == 0.0 {
            print_line("loading the model");
        }
        self.0.set_message(format!("loading the model, {:.0} %", fraction * 100.0));
        self.0.enable_steady_tick(TICK);
    }

    /// Shows that the model has evaluated `done` of `total` new tokens of a prompt.
    pub(crate) fn show_reading(&self, done: usize, total: usize) {
        let line =
            format!("reading the prompt: {} of {} tokens", HumanCount(done as u64), HumanCount(total as u64));
        if self.0.is_hidden() {
            if is_milestone(self.0.position(), done as u64, total as u64) {
                print_line(&line);
            }
            self.0.set_position(done as u64);
            return;
        }
        let template = if done < total { "{spinner} {msg} {wide_bar}" } else { "{spinner} {msg}" };
        let message = if done < total { line } else { "waiting for the model".to_owned() };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
        self.0.set_length(total as u64);
        self.0.set_position(done as u64);
        self.0.set_message(message);
        self.0.enable_steady_tick(TICK);
    }
}

/// Returns `true` at the start and at the first position after each fifth of `total`.
#[cfg(feature = "local")]
fn is_milestone(before: u64, done: u64, total: u64) -> bool {
    let fifths = |position: u64| position.saturating_mul(5).checked_div(total).unwrap_or_default();
    done == 0 || fifths(done) > fifths(before)
}

#[cfg(feature = "local")]
fn print_line(line: &str) {
    // An error means that standard error is closed. In this case, the line is lost.
    let _ = terminal::write_error(&format!("{line}\n"));
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
