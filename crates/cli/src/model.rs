//! `haft model`: the models that run in this process.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand, builder::PossibleValuesParser};
use haft_local::{Downloader, KnownModel, ModelProgress, ModelStore, configured_file};
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
    /// Fetch a model, unless it is there. One that is damaged is fetched again.
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
        if json {
            let line =
                json!({ "name": model.name, "bytes": model.size, "default": is_default, "path": file });
            terminal::write_json(&line.to_string())?;
            continue;
        }
        let place = file.map_or_else(|| "not fetched".to_owned(), |file| file.display().to_string());
        let note = if is_default { " (default)" } else { "" };
        let size = model.size / 1_000_000;
        terminal::write(&format!("{:20} {size:>5} MB  {place}{note}\n", model.name))?;
    }
    Ok(())
}

fn path(name: &Name) -> Result<(), Failure> {
    let file = match (configured_file(), &name.name) {
        (Some(chosen), None) if chosen.is_file() => chosen,
        (Some(chosen), None) => {
            let path = chosen.display();
            let advice = "correct it, or unset it to use the default model";
            return Err(Failure::new(format!("HAFT_MODEL names {path}, which is not a file: {advice}")));
        }
        _ => of_known(name.model())?,
    };
    Ok(terminal::write(&format!("{}\n", file.display()))?)
}

fn of_known(model: &KnownModel) -> Result<PathBuf, Failure> {
    let store = store()?;
    store.get(model).ok_or_else(|| {
        let path = store.path(model);
        let (state, help) =
            if path.exists() { ("not checked yet", "check") } else { ("not there yet", "fetch") };
        let (path, name) = (path.display(), model.name);
        Failure::new(format!("{path} is {state}: {help} it by `haft model pull {name}`"))
    })
}

fn store() -> Result<ModelStore, Failure> {
    ModelStore::new().map_err(|error| Failure::of(&error))
}
