//! `haft model`: the models that run in this process.

use std::process::ExitCode;

use clap::{Args, Subcommand, builder::PossibleValuesParser};
use haft_local::{Downloader, KnownModel, ModelProgress, ModelStore, chosen_file};
use serde_json::json;

use crate::{failure::Failure, terminal};

/// Fetch the models that run in this process, and say where they are.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Fetch a model, unless it is there.
    Pull(Name),
    /// List the models that can be fetched, and say which are there.
    List {
        /// Write one JSON object a model and line.
        #[arg(long)]
        json: bool,
    },
    /// Write where the file of a model is. Without a name it is the one that `haft run` uses.
    Path(Name),
}

#[derive(Args)]
struct Name {
    /// The model, as `haft model list` names it.
    #[arg(value_parser = PossibleValuesParser::new(KnownModel::all().iter().map(|model| model.name)))]
    name: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    match arguments.action {
        Action::Pull(name) => pull(name.model()).await?,
        Action::List { json } => list(json)?,
        Action::Path(name) => path(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Name {
    fn model(&self) -> &'static KnownModel {
        self.name.as_deref().and_then(KnownModel::find).unwrap_or_else(KnownModel::default_model)
    }
}

async fn pull(model: &KnownModel) -> Result<(), Failure> {
    let progress = ModelProgress::new();
    let pulled = Downloader::new().pull(&store()?, model, &|event| progress.pull(&event)).await;
    progress.finish();
    let file = pulled.map_err(|error| Failure::of(&error))?;
    Ok(terminal::write(&format!("{}\n", file.display()))?)
}

fn list(json: bool) -> Result<(), Failure> {
    let store = store()?;
    for model in KnownModel::all() {
        let file = store.get(model);
        let is_default = model == KnownModel::default_model();
        let line = if json {
            json!({ "name": model.name, "bytes": model.size, "default": is_default, "path": file })
                .to_string()
        } else {
            let place = file.map_or_else(|| "not fetched".to_owned(), |file| file.display().to_string());
            let note = if is_default { " (default)" } else { "" };
            format!("{:20} {:>5} MB  {place}{note}", model.name, model.size / 1_000_000)
        };
        terminal::write(&(line + "\n"))?;
    }
    Ok(())
}

fn path(name: &Name) -> Result<(), Failure> {
    let file = match (chosen_file(), &name.name) {
        (Some(chosen), None) => chosen.is_file().then_some(chosen).ok_or_else(|| {
            Failure::new(
                "HAFT_MODEL names a file that is not there: correct it, or unset it to use the default model",
            )
        })?,
        _ => store()?.get(name.model()).ok_or_else(|| {
            let name = name.model().name;
            Failure::new(format!("{name} is not there yet: fetch it by `haft model pull {name}`"))
        })?,
    };
    Ok(terminal::write(&format!("{}\n", file.display()))?)
}

fn store() -> Result<ModelStore, Failure> {
    ModelStore::new().map_err(|error| Failure::of(&error))
}
