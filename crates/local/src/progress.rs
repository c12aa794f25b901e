//! What happens while a model is fetched and loaded, shown on standard error.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    Downloader, KnownModel, LoadError, LocalModel, ModelStore, NoHome, PullError, PullEvent, chosen_file,
};

const FETCHING: &str = "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta}";
const LOADING: &str = "{msg} {wide_bar} {percent} %";

/// A bar on standard error. Where that is no terminal, a line for each thing that begins.
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
            PullEvent::Received { bytes, total } => {
                self.0.set_length(*total);
                self.0.set_position(*bytes);
            }
            PullEvent::Verifying => self.0.set_message("checking the model file"),
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
        self.0.enable_steady_tick(Duration::from_millis(200));
        if self.0.is_hidden() {
            self.say(&message);
        }
        self.0.set_message(message);
    }

    /// Writes a line that stays.
    fn say(&self, line: &str) {
        self.0.suspend(|| {
            // Nobody can be told that nobody can be told.
            let _ = writeln!(std::io::stderr(), "{line}");
        });
    }
}

/// Why the model that the user has chosen cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no place for its file.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// Its file cannot be had.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// Its file cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl LocalModel {
    /// Opens the model that the user has chosen, with a bar on standard error: the file that `HAFT_MODEL` names, or
    /// the [default model](KnownModel::default_model), which is fetched if it is not there.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be had, or not be loaded.
    pub async fn open_chosen() -> Result<Self, OpenError> {
        let progress = ModelProgress::new();
        let file = chosen_or_default(&progress).await?;
        let shown = progress.clone();
        let model = Self::load_watched(file, move |share| shown.load(share)).await;
        progress.finish();
        Ok(model?)
    }
}

async fn chosen_or_default(progress: &ModelProgress) -> Result<PathBuf, OpenError> {
    match chosen_file() {
        Some(file) => Ok(file),
        None => {
            let (store, model) = (ModelStore::new()?, KnownModel::default_model());
            Ok(Downloader::new().pull(&store, model, &|event| progress.pull(&event)).await?)
        }
    }
}
