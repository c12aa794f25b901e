//! A progress bar for downloading and loading a model.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::{ModelEvent, PullEvent};

const FETCHING_TEMPLATE: &str = "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta}";
const CHECKING: &str = "{spinner} {msg}";
const LOADING: &str = "{msg} {wide_bar} {percent} %";
const READING: &str = "{msg} {wide_bar} {pos} of {len} tokens";

/// A progress bar on standard error. If standard error is not a terminal, lines are printed
/// instead: one line at the start of each phase, one line per 10 % of the download, and one line
/// per 20 % of a long prompt.
///
/// [`LocalModelBuilder::progress_bar`](crate::LocalModelBuilder::progress_bar) shows
/// this bar while a model is opened, and while it reads a prompt with at least 256 new tokens.
///
/// # Examples
///
/// ```no_run
/// use haft_local::{Downloader, KnownModel, ModelStore, ModelProgressBar};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let progress = ModelProgressBar::new();
/// let model = KnownModel::default_model();
/// let file = Downloader::new().pull(&ModelStore::new()?, model, &|event| progress.on_pull_event(&event)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ModelProgressBar(ProgressBar);

impl Default for ModelProgressBar {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelProgressBar {
    /// Creates a hidden progress bar. It appears with the first event.
    pub fn new() -> Self {
        Self(ProgressBar::no_length())
    }

    /// Updates the bar after `event`, an event of the download or the loading of a model.
    pub fn on_event(&self, event: &ModelEvent<'_>) {
        match event {
            ModelEvent::Pull(event) => self.on_pull_event(event),
            ModelEvent::Loading { fraction, .. } => self.on_load_progress(*fraction),
            ModelEvent::Reading { done, total } => self.on_read_progress(*done, *total),
        }
    }

    /// Updates the bar after the download event `event`. The failure of a source is printed on a
    /// line of its own.
    pub fn on_pull_event(&self, event: &PullEvent<'_>) {
        match event {
            PullEvent::Fetching { source } => {
                self.begin(FETCHING_TEMPLATE, format!("fetching the model from {source}"));
            }
            PullEvent::Received { bytes, total } => self.show_received(*bytes, *total),
            PullEvent::Verifying => self.begin(CHECKING, "checking the model file".to_owned()),
            PullEvent::Failed { .. } => self.print_line(&event.to_string()),
        }
    }

    /// Sets the bar to `fraction`, the fraction of the weights loaded so far, from 0 to 1.
    pub fn on_load_progress(&self, fraction: f32) {
        if self.0.length() != Some(100) {
            self.begin(LOADING, "loading the model".to_owned());
            self.0.set_length(100);
        }
        self.0.set_position((fraction * 100.0) as u64);
    }

    /// Sets the bar to `done` of `total` new tokens of a prompt. Removes the bar if all tokens were
    /// evaluated.
    pub fn on_read_progress(&self, done: usize, total: usize) {
        let (done, total) = (done as u64, total as u64);
        if done == 0 {
            self.begin(READING, "reading the prompt".to_owned());
        }
        let before = tenths(self.0.position(), total);
        self.0.set_length(total);
        self.0.set_position(done);
        if self.0.is_hidden() && tenths(done, total) / 2 > before / 2 {
            self.print_line(&format!("  {done} of {total} tokens"));
        }
        if done >= total {
            self.finish();
        }
    }

    /// Removes the bar from the terminal.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }

    fn begin(&self, template: &str, message: String) {
        // All templates of this module are valid, so the default style is never used.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0.set_style(style);
        self.0.set_position(0);
        self.0.enable_steady_tick(Duration::from_millis(200));
        if self.0.is_hidden() {
            self.print_line(&message);
        }
        self.0.set_message(message);
    }

    fn show_received(&self, bytes: u64, total: u64) {
        let (before, now) = (tenths(self.0.position(), total), tenths(bytes, total));
        self.0.set_length(total);
        self.0.set_position(bytes);
        if self.0.is_hidden() && now > before {
            self.print_line(&format!("  {now}0 % of {} MB", total / 1_000_000));
        }
    }

    /// Prints `line` to standard error. A visible bar is redrawn below the line.
    fn print_line(&self, line: &str) {
        self.0.suspend(|| {
            // An error means that standard error is closed. In this case, the line is lost.
            let _ = writeln!(std::io::stderr(), "{line}");
        });
    }
}

/// Returns how many tenths of `total` are in `part`, rounded down.
fn tenths(part: u64, total: u64) -> u64 {
    part.saturating_mul(10).checked_div(total).unwrap_or_default()
}
