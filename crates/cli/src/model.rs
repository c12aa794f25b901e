//! The command `haft model`: downloads and lists local models.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand, builder::PossibleValuesParser};
use haft_local::{Downloader, KnownModel, ModelProgressBar, ModelStore, model_file_from_env};
use serde_json::json;

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
    Pull(ModelName),
    /// List the available models, with the paths of downloaded files.
    List {
        /// Write one line of JSON per model.
        #[arg(long)]
        json: bool,
    },
    /// Write the path of a model file. Default: the model of `haft run`.
    Path(ModelName),
}

#[derive(Args)]
struct ModelName {
    /// A name from `haft model list`.
    #[arg(value_parser = PossibleValuesParser::new(KnownModel::all().iter().map(|model| model.name)))]
    name: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    match arguments.action {
        Action::Pull(name) => pull(name.model()).await?,
        Action::List { json } => list(json)?,
        Action::Path(name) => write_path(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ModelName {
    fn model(&self) -> &'static KnownModel {
        self.name.as_deref().and_then(KnownModel::find).unwrap_or_else(KnownModel::default_model)
    }
}

async fn pull(model: &KnownModel) -> Result<(), CliError> {
    let progress = ModelProgressBar::new();
    let pulled = Downloader::new().pull(&open_store()?, model, &|event| progress.on_pull_event(&event)).await;
    progress.finish();
    let file = pulled.map_err(|error| CliError::from_error(&error))?;
    Ok(terminal::write(&format!("{}\n", file.display()))?)
}

fn list(json: bool) -> Result<(), CliError> {
    let store = open_store()?;
    for model in KnownModel::all() {
        let file = store.verified_path(model);
        let is_default = model == KnownModel::default_model();
        if json {
            let line =
                json!({ "name": model.name, "bytes": model.size, "default": is_default, "path": file });
            terminal::write_json(&line.to_string())?;
            continue;
        }
        let path = file.map_or_else(|| "not downloaded".to_owned(), |file| file.display().to_string());
        let note = if is_default { " (default)" } else { "" };
        let size = model.size / 1_000_000;
        terminal::write(&format!("{:20} {size:>5} MB  {path}{note}\n", model.name))?;
    }
    Ok(())
}

fn write_path(name: &ModelName) -> Result<(), CliError> {
    let file = match (model_file_from_env(), &name.name) {
        (Some(chosen), None) if chosen.is_file() => chosen,
        (Some(chosen), None) => {
            let path = chosen.display();
            let remedy = "correct it, or unset it to use the default model";
            return Err(CliError::new(format!("HAFT_MODEL is {path}, which is not a file: {remedy}")));
        }
        _ => verified_path(name.model())?,
    };
    Ok(terminal::write(&format!("{}\n", file.display()))?)
}

/// Returns the path of the file of `model` if the file was downloaded and verified. Otherwise
/// returns an error that suggests `haft model pull`.
fn verified_path(model: &KnownModel) -> Result<PathBuf, CliError> {
    let store = open_store()?;
    store.verified_path(model).ok_or_else(|| {
        let path = store.path(model);
        let (state, action) =
            if path.exists() { ("not verified", "verify") } else { ("not downloaded", "download") };
        let (path, name) = (path.display(), model.name);
        CliError::new(format!("{path} is {state}: {action} it with `haft model pull {name}`"))
    })
}

fn open_store() -> Result<ModelStore, CliError> {
    ModelStore::new().map_err(|error| CliError::from_error(&error))
}
