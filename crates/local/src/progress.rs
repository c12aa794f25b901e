//! What happens while a model is fetched and loaded, shown on standard error.

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use haft_core::text::WithCauses;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    Downloader, KnownModel, LoadError, LocalModel, ModelStore, NoHome, PullError, PullEvent, chosen_file,
};

const FETCHING: &str = "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta}";
const CHECKING: &str = "{spinner} {msg}";
const LOADING: &str = "{msg} {wide_bar} {percent} %";

/// A bar on standard error. Where that is no terminal, a line for each thing that begins and for each tenth that came.
///
/// # Examples
///
/// ```no_run
/// use haft_local::{Downloader, KnownModel, ModelStore, ModelProgress};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let progress = ModelProgress::new();
/// let model = KnownModel::default_model();
/// let file = Downloader::new().pull(&ModelStore::new()?, model, &|event| progress.pull(&event)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ModelProgress(ProgressBar);

impl Default for ModelProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelProgress {
    /// Makes a bar that shows nothing yet.
    pub fn new() -> Self {
        Self(ProgressBar::no_length())
    }

    /// Shows what happens during a pull.
    pub fn pull(&self, event: &PullEvent<'_>) {
        match event {
            PullEvent::Asking { source } => self.begin(FETCHING, format!("fetching the model from {source}")),
            PullEvent::Received { bytes, total } => self.received(*bytes, *total),
            PullEvent::Verifying => self.begin(CHECKING, "checking the model file".to_owned()),
            PullEvent::Failed { .. } => self.say(&event.to_string()),
        }
    }

    /// Shows how much of a model is loaded, from 0 to 1.
    pub fn load(&self, share: f32) {
        if self.0.length() != Some(100) {
            self.begin(LOADING, "loading the model".to_owned());
            self.0.set_length(100);
        }
        self.0.set_position((share * 100.0) as u64);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }

    fn begin(&self, template: &str, message: String) {
        // The templates are valid; a plain bar would do as well.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0.set_style(style);
        self.0.set_position(0);
        self.0.enable_steady_tick(Duration::from_millis(200));
        if self.0.is_hidden() {
            self.say(&message);
        }
        self.0.set_message(message);
    }

    fn received(&self, bytes: u64, total: u64) {
        let tenths = |bytes: u64| bytes.saturating_mul(10).checked_div(total).unwrap_or_default();
        let (before, now) = (tenths(self.0.position()), tenths(bytes));
        self.0.set_length(total);
        self.0.set_position(bytes);
        if self.0.is_hidden() && now > before {
            self.say(&format!("  {now}0 % of {} MB", total / 1_000_000));
        }
    }

    /// Writes a line that stays.
    fn say(&self, line: &str) {
        self.0.suspend(|| {
            // Nobody can be told that nobody can be told.
            let _ = writeln!(std::io::stderr(), "{line}");
        });
    }
}

/// Why a model cannot be asked, and what to do about it.
///
/// It is written for people also where a program returns it from `main`: the text, and what caused it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no place for its file.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// Its file cannot be had.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The file that `HAFT_MODEL` names cannot be used.
    #[error("HAFT_MODEL names a file that cannot be used; unset it to use the default model")]
    Chosen(#[source] LoadError),
    /// The file that was fetched cannot be used.
    #[error(
        "the model cannot be used; try again: its file is then checked, and fetched anew if it is damaged"
    )]
    Fetched(#[source] LoadError),
}

impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

impl LocalModel {
    /// Opens the model that the user has chosen, with a bar on standard error: the file that `HAFT_MODEL` names, or
    /// the [default model](KnownModel::default_model), which is fetched if it is not there.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be had, or not be loaded.
    pub async fn open_chosen() -> Result<Self, OpenError> {
        match chosen_file() {
            Some(file) => Self::load_shown(file, &ModelProgress::new()).await.map_err(OpenError::Chosen),
            None => Self::open_known(KnownModel::default_model()).await,
        }
    }

    /// Opens a known model of the user's [store](ModelStore::new), with a bar on standard error. It is fetched if it is
    /// not there.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be had, or not be loaded.
    pub async fn open_known(model: &KnownModel) -> Result<Self, OpenError> {
        let (store, progress) = (ModelStore::new()?, ModelProgress::new());
        let pulled = Downloader::new().pull(&store, model, &|event| progress.pull(&event)).await;
        let file = pulled.inspect_err(|_| progress.finish())?;
        Self::load_shown(file, &progress).await.map_err(|error| {
            // It was right when it was fetched. The disk may have changed it without a trace.
            store.doubt(model);
            OpenError::Fetched(error)
        })
    }

    async fn load_shown(file: PathBuf, progress: &ModelProgress) -> Result<Self, LoadError> {
        let shown = progress.clone();
        let model = Self::load_watched(file, move |share| shown.load(share)).await;
        progress.finish();
        model
    }
}
