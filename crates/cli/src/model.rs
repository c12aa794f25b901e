//! The command `haft model`: downloads and lists local models, and lists the models of APIs.

mod catalogue;

use std::{path::PathBuf, process::ExitCode, str::FromStr};

use clap::{Args, Subcommand};
use haft_local::{
    Downloader, HubFile, InvalidHubFile, KnownModel, ModelProgressBar, ModelStore, PullEvent,
    model_file_from_env,
};
use serde_json::{Value, json};

use crate::{error::CliError, terminal};

/// Download local models, and list them with their paths.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Download a model, unless it is in the cache. A damaged file is downloaded again.
    Pull(ModelArgument),
    /// List the downloaded models and the default model, or known models.
    List {
        /// List all local models that can be downloaded by name, with sizes and licences.
        #[arg(long)]
        known: bool,
        /// List models of APIs, with limits, prices and abilities, from the data in this program.
        /// The data has a date and can be old.
        #[arg(long, conflicts_with = "known")]
        catalogue: bool,
        /// Write one line of JSON per model.
        #[arg(long)]
        json: bool,
    },
    /// Write the path of a model file. Default: the model of `haft run`.
    Path(ModelArgument),
}

#[derive(Args)]
struct ModelArgument {
    /// A name from `haft model list --known`, or a file of the Hugging Face hub:
    /// `hub:OWNER/REPOSITORY/FILE.gguf`, with `@REVISION` if needed.
    #[arg(value_name = "MODEL")]
    model: Option<ModelRef>,
}

/// A model of the catalogue, or a file of the Hugging Face hub.
#[derive(Clone, Debug)]
pub(crate) enum ModelRef {
    Known(&'static KnownModel),
    Hub(HubFile),
}

impl FromStr for ModelRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("hub:") {
            return text.parse().map(Self::Hub).map_err(|error: InvalidHubFile| error.to_string());
        }
        KnownModel::find(text).map(Self::Known).ok_or_else(|| {
            let names: Vec<_> = KnownModel::all().iter().map(|model| model.name).collect();
            format!("unknown local model `{text}`: available are {}", names.join(", "))
        })
    }
}

impl ModelRef {
    /// Returns the path of the file in `store`, if it was downloaded. A model of the catalogue is
    /// verified, and a file of the hub if the hub sent its SHA-256.
    pub(crate) fn downloaded_path(&self, store: &ModelStore) -> Option<PathBuf> {
        match self {
            Self::Known(model) => store.verified_path(model),
            Self::Hub(file) => store.downloaded_hub_path(file),
        }
    }

    fn path(&self, store: &ModelStore) -> PathBuf {
        match self {
            Self::Known(model) => store.path(model),
            Self::Hub(file) => store.hub_path(file),
        }
    }

    /// Returns the text that [`from_str`](FromStr::from_str) parses.
    fn name(&self) -> String {
        match self {
            Self::Known(model) => model.name.to_owned(),
            Self::Hub(file) => file.to_string(),
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    match arguments.action {
        Action::Pull(argument) => pull(&argument.model_or_default()).await?,
        Action::List { catalogue: true, json, .. } => catalogue::list(json)?,
        Action::List { known: true, json, .. } => list_known(json)?,
        Action::List { json, .. } => list_downloaded(json)?,
        Action::Path(argument) => write_path(&argument)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ModelArgument {
    fn model_or_default(&self) -> ModelRef {
        self.model.clone().unwrap_or_else(|| ModelRef::Known(KnownModel::default_model()))
    }
}

async fn pull(model: &ModelRef) -> Result<(), CliError> {
    let progress = ModelProgressBar::new();
    let (downloader, store) = (Downloader::new(), open_store()?);
    let observer = |event: PullEvent<'_>| progress.on_pull_event(&event);
    let pulled = match model {
        ModelRef::Known(model) => downloader.pull(&store, model, &observer).await,
        ModelRef::Hub(file) => downloader.pull_hub_file(&store, file, &observer).await,
    };
    progress.finish();
    let file = pulled.map_err(|error| CliError::from_error(&error))?;
    Ok(terminal::write(&format!("{}\n", file.display()))?)
}

/// Writes the models of the catalogue.
fn list_known(json: bool) -> Result<(), CliError> {
    let store = open_store()?;
    for model in KnownModel::all() {
        if json {
            terminal::write_json(&known_json(model, &store).to_string())?;
            continue;
        }
        let state = if store.verified_path(model).is_some() { "  downloaded" } else { "" };
        let row = format!(
            "{:20} {:>6}  {:27}  {}{state}",
            model.name,
            megabytes(model.size),
            model.license,
            model.hub
        );
        terminal::write(&format!("{row}\n"))?;
    }
    Ok(())
}

/// Writes the models of the catalogue that were downloaded, the default model, and the downloaded
/// files of the hub.
fn list_downloaded(json: bool) -> Result<(), CliError> {
    let store = open_store()?;
    let is_default = |model: &KnownModel| model == KnownModel::default_model();
    for model in KnownModel::all() {
        let file = store.verified_path(model);
        if file.is_none() && !is_default(model) {
            continue;
        }
        if json {
            terminal::write_json(&known_json(model, &store).to_string())?;
            continue;
        }
        let path = file.map_or_else(|| "not downloaded".to_owned(), |file| file.display().to_string());
        let note = if is_default(model) { " (default)" } else { "" };
        terminal::write(&format!("{:20} {:>6}  {path}{note}\n", model.name, megabytes(model.size)))?;
    }
    for file in store.hub_files() {
        let path = store.hub_path(&file);
        let bytes = path.metadata().map_or(0, |file| file.len());
        let is_verified = store.verified_hub_path(&file).is_some();
        if json {
            let line = json!({
                "name": file.to_string(), "bytes": bytes, "default": false, "path": path, "license": null,
                "hub": file.to_string(), "sha256": null, "verified": is_verified,
            });
            terminal::write_json(&line.to_string())?;
            continue;
        }
        let note = if is_verified { "" } else { " (not verified: the hub sent no SHA-256)" };
        let name = file.to_string();
        terminal::write(&format!("{name:20} {:>6}  {}{note}\n", megabytes(bytes), path.display()))?;
    }
    Ok(())
}

fn known_json(model: &KnownModel, store: &ModelStore) -> Value {
    json!({
        "name": model.name,
        "bytes": model.size,
        "default": model == KnownModel::default_model(),
        "path": store.verified_path(model),
        "license": model.license,
        "hub": model.hub.to_string(),
        "sha256": model.sha256,
    })
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

fn write_path(argument: &ModelArgument) -> Result<(), CliError> {
    let file = match (model_file_from_env(), &argument.model) {
        (Some(chosen), None) if chosen.is_file() => chosen,
        (Some(chosen), None) => {
            let path = chosen.display();
            let remedy = "correct it, or unset it to use the default model";
            return Err(CliError::new(format!("HAFT_MODEL is {path}, which is not a file: {remedy}")));
        }
        _ => verified_path(&argument.model_or_default())?,
    };
    Ok(terminal::write(&format!("{}\n", file.display()))?)
}

/// Returns the path of the file of `model` if the file was downloaded and verified. Otherwise
/// returns an error that suggests `haft model pull`.
fn verified_path(model: &ModelRef) -> Result<PathBuf, CliError> {
    let store = open_store()?;
    model.downloaded_path(&store).ok_or_else(|| {
        let path = model.path(&store);
        let (state, action) =
            if path.exists() { ("not verified", "verify") } else { ("not downloaded", "download") };
        let (path, name) = (path.display(), model.name());
        CliError::new(format!("{path} is {state}: {action} it with `haft model pull {name}`"))
    })
}

fn open_store() -> Result<ModelStore, CliError> {
    ModelStore::new().map_err(|error| CliError::from_error(&error))
}
