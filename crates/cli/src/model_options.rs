//! The command line options that select the language model.

use std::{str::FromStr, sync::Arc};

use clap::Args;
use haft_anthropic::{Messages, MessagesBuilder};
use haft_core::ChatModel;
use haft_gemini::{Gemini, GeminiBuilder};
use haft_openai::{BuildError, ChatCompletions, HttpBuildError, ModelBuilder};

use crate::{error::CliError, spinner::Spinner};

/// Options that select the language model.
#[derive(Args)]
pub(crate) struct ModelOptions {
    /// The model: `local`, `local:NAME` or `hub:OWNER/REPOSITORY/FILE.gguf` for a model in this
    /// process, `openai:NAME` for a model of an OpenAI-compatible API, `anthropic:NAME` or
    /// `gemini:NAME`.
    ///
    /// `local` is the file in HAFT_MODEL, or the default model. `local:NAME` is a model of
    /// `haft model list --known`. Missing models are downloaded. The API key is read from
    /// OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY.
    #[arg(long, value_name = "MODEL", default_value = "local")]
    model: ModelSpec,
    /// The base URL of the API, such as `http://127.0.0.1:8080/v1`.
    ///
    /// Default: OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL, or the API of the
    /// provider.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

#[derive(Clone, Debug)]
enum ModelSpec {
    /// A local model. `None` selects the model file in `HAFT_MODEL`, or the default model if the
    /// variable is unset or empty.
    Local(Option<local::Known>),
    /// A model of an API, selected by its name.
    Api(Api, String),
}

/// An API of models.
#[derive(Clone, Copy, Debug)]
enum Api {
    /// The Chat Completions API of OpenAI or of a compatible server.
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// Gemini's API.
    Gemini,
}

impl Api {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "openai" => Self::OpenAi,
            "anthropic" => Self::Anthropic,
            "gemini" => Self::Gemini,
            _ => return None,
        })
    }
}

impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local(None)),
            Some(("local", name)) => Ok(Self::Local(Some(local::find(name)?))),
            Some(("hub", _)) => Ok(Self::Local(Some(local::find(text)?))),
            Some((api, name)) if !name.is_empty() && Api::of(api).is_some() => {
                Api::of(api).map(|api| Self::Api(api, name.to_owned())).ok_or_else(Self::usage)
            }
            _ => Err(Self::usage()),
        }
    }
}

impl ModelSpec {
    fn usage() -> String {
        "use `local`, `local:NAME`, `hub:OWNER/REPOSITORY/FILE.gguf`, `openai:NAME`, `anthropic:NAME` or \
         `gemini:NAME`, such as `openai:gpt-5`"
            .to_owned()
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
            (ModelSpec::Api(api, name), base_url) => api.open(name, base_url.as_deref()),
        }
    }
}

impl ModelOptions {
    /// Returns the name of the selected model, or `None` for a local model.
    pub(crate) fn api_model(&self) -> Option<&str> {
        match &self.model {
            ModelSpec::Local(_) => None,
            ModelSpec::Api(_, name) => Some(name),
        }
    }

    /// Returns `true` if the selected model is a local model whose file is missing or not verified.
    pub(crate) fn needs_download(&self) -> bool {
        match &self.model {
            ModelSpec::Local(known) => local::needs_download(known.as_ref()),
            ModelSpec::Api(..) => false,
        }
    }
}

impl Api {
    fn open(self, name: &str, base_url: Option<&str>) -> Result<Arc<dyn ChatModel>, CliError> {
        // An invalid URL on the command line is a usage error, and one in the environment is not.
        let http_error = |error: HttpBuildError| match error {
            HttpBuildError::InvalidBaseUrl { .. } if base_url.is_some() => CliError::usage(error.to_string()),
            error => CliError::from_error(&error),
        };
        Ok(match self {
            Self::OpenAi => {
                let builder = ChatCompletions::builder(name).read_env();
                let builder = base_url.into_iter().fold(builder, ModelBuilder::base_url);
                Arc::new(builder.build().map_err(|error| match error {
                    BuildError::Http(error) => http_error(error),
                    error => CliError::from_error(&error),
                })?)
            }
            Self::Anthropic => {
                let builder = Messages::builder(name).read_env();
                let builder = base_url.into_iter().fold(builder, MessagesBuilder::base_url);
                Arc::new(builder.build().map_err(http_error)?)
            }
            Self::Gemini => {
                let builder = Gemini::builder(name).read_env();
                let builder = base_url.into_iter().fold(builder, GeminiBuilder::base_url);
                Arc::new(builder.build().map_err(http_error)?)
            }
        })
    }
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
