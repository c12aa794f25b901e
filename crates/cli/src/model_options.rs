//! The command line options that select the language model.

use std::{str::FromStr, sync::Arc};

use clap::Args;
use haft_core::ChatModel;
use haft_openai::{BuildError, ChatCompletions, HttpBuildError};

use crate::{error::CliError, spinner::Spinner};

/// Options that select the language model.
#[derive(Args)]
pub(crate) struct ModelOptions {
    /// The model: `local`, `local:NAME` or `hub:OWNER/REPOSITORY/FILE.gguf` for a model in this
    /// process, `openai:NAME` for a model of an OpenAI-compatible API.
    ///
    /// `local` is the file in HAFT_MODEL, or the default model. `local:NAME` is a model of
    /// `haft model list --known`. Missing models are downloaded. The API key is read from
    /// OPENAI_API_KEY.
    #[arg(long, value_name = "MODEL", default_value = "local")]
    model: ModelSpec,
    /// The base URL of the API, such as `http://127.0.0.1:8080/v1`.
    ///
    /// Default: OPENAI_BASE_URL, or the API of OpenAI.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

#[derive(Clone, Debug)]
enum ModelSpec {
    /// A local model. `None` selects the model file in `HAFT_MODEL`, or the default model if the
    /// variable is unset or empty.
    Local(Option<local::Known>),
    /// A model of an OpenAI-compatible API, selected by its name.
    OpenAi(String),
}

impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local(None)),
            Some(("local", name)) => Ok(Self::Local(Some(local::find(name)?))),
            Some(("hub", _)) => Ok(Self::Local(Some(local::find(text)?))),
            Some(("openai", name)) if !name.is_empty() => Ok(Self::OpenAi(name.to_owned())),
            _ => Err("use `local`, `local:NAME`, `hub:OWNER/REPOSITORY/FILE.gguf` or `openai:NAME`, such as `openai:gpt-5`".to_owned()),
        }
    }
}

impl ModelOptions {
    /// Loads the selected local model, or creates a client for the selected API model.
    /// Shows the progress in `spinner`.
    pub(crate) async fn open(&self, spinner: &Spinner) -> Result<Arc<dyn ChatModel>, CliError> {
        match (&self.model, &self.base_url) {
            (ModelSpec::Local(known), None) => local::open(known.as_ref(), spinner).await,
            (ModelSpec::Local(_), Some(_)) => {
                Err(CliError::usage("--base-url requires a model of an API: use --model openai:NAME"))
            }
            (ModelSpec::OpenAi(name), base_url) => open_openai(name, base_url.as_deref()),
        }
    }
}

impl ModelOptions {
    /// Returns the name of the selected model, or `None` for a local model.
    pub(crate) fn api_model(&self) -> Option<&str> {
        match &self.model {
            ModelSpec::Local(_) => None,
            ModelSpec::OpenAi(name) => Some(name),
        }
    }

    /// Returns `true` if the selected model is a local model whose file is missing or not verified.
    pub(crate) fn needs_download(&self) -> bool {
        match &self.model {
            ModelSpec::Local(known) => local::needs_download(known.as_ref()),
            ModelSpec::OpenAi(_) => false,
        }
    }
}

fn open_openai(name: &str, base_url: Option<&str>) -> Result<Arc<dyn ChatModel>, CliError> {
    let mut builder = ChatCompletions::builder(name).read_env();
    if let Some(base_url) = base_url {
        builder = builder.base_url(base_url);
    }
    let model = builder.build().map_err(|error| match error {
        BuildError::Http(HttpBuildError::InvalidBaseUrl { .. }) if base_url.is_some() => {
            CliError::usage(error.to_string())
        }
        error => CliError::from_error(&error),
    })?;
    Ok(Arc::new(model))
}

#[cfg(feature = "local")]
mod local {
    use haft_local::{KnownModel, LocalModel, ModelEvent, ModelProgressBar, ModelStore, model_file_from_env};

    use super::{Arc, ChatModel, CliError, Spinner};
    use crate::model::ModelRef;

    pub(super) type Known = ModelRef;

    pub(super) fn find(name: &str) -> Result<Known, String> {
        name.parse()
    }

    pub(super) fn needs_download(known: Option<&Known>) -> bool {
        let Ok(store) = ModelStore::new() else { return false };
        match (known, model_file_from_env()) {
            (Some(model), _) => model.downloaded_path(&store).is_none(),
            (None, Some(file)) => file.starts_with(store.folder()) && !file.exists(),
            (None, None) => store.verified_path(KnownModel::default_model()).is_none(),
        }
    }

    pub(super) async fn open(
        known: Option<&Known>,
        spinner: &Spinner,
    ) -> Result<Arc<dyn ChatModel>, CliError> {
        let (bar, progress) = (ModelProgressBar::new(), spinner.model_progress());
        let download = bar.clone();
        let builder = LocalModel::builder().on_event(move |event| match event {
            ModelEvent::Pull(event) => download.on_pull_event(event),
            ModelEvent::Loading { fraction, .. } => {
                download.finish();
                progress.show_loading(*fraction);
            }
            ModelEvent::Reading { done, total } => progress.show_reading(*done, *total),
            _ => {}
        });
        #[cfg(any(feature = "cuda", feature = "metal"))]
        let builder = builder.gpu(0);
        let model = match known {
            Some(ModelRef::Known(model)) => builder.download(model.name).await,
            Some(ModelRef::Hub(file)) => builder.download_hub_file(file).await,
            None => builder.open_default().await,
        };
        bar.finish();
        Ok(Arc::new(model.map_err(|error| CliError::from_error(&error))?))
    }
}

#[cfg(not(feature = "local"))]
mod local {
    use std::convert::Infallible;

    use super::{Arc, ChatModel, CliError, Spinner};

    const MISSING: &str =
        "this build of haft has no local model: use --model openai:NAME, or build with the feature `local`";

    pub(super) type Known = Infallible;

    pub(super) fn find(_name: &str) -> Result<Known, String> {
        Err(MISSING.to_owned())
    }

    pub(super) fn needs_download(_known: Option<&Known>) -> bool {
        false
    }

    pub(super) async fn open(
        _known: Option<&Known>,
        _spinner: &Spinner,
    ) -> Result<Arc<dyn ChatModel>, CliError> {
        Err(CliError::new(MISSING))
    }
}
