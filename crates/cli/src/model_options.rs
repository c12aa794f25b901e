//! Which model is asked.

use std::{str::FromStr, sync::Arc};

use clap::Args;
use haft_core::ChatModel;
use haft_openai::ChatCompletions;

use crate::failure::Failure;

/// Which model is asked, and where it is.
#[derive(Args)]
pub(crate) struct ModelOptions {
    /// The model: `local` or `local:NAME`, in this process, or `openai:NAME`, behind an OpenAI-compatible API.
    ///
    /// `local` is the file that HAFT_MODEL names, or the default of those that `haft model list` names. They are fetched
    /// when they are not there. The key of an API is read from OPENAI_API_KEY.
    #[arg(long, value_name = "MODEL", default_value = "local")]
    model: ModelName,
    /// Where the API is, such as `http://127.0.0.1:8080/v1`. Default: OPENAI_BASE_URL, or OpenAI.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

#[derive(Clone, Debug)]
enum ModelName {
    /// The one that the user has chosen, or that of a name.
    Local(Option<local::Known>),
    OpenAi(String),
}

impl FromStr for ModelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local(None)),
            Some(("local", name)) => Ok(Self::Local(Some(local::find(name)?))),
            Some(("openai", name)) if !name.is_empty() => Ok(Self::OpenAi(name.to_owned())),
            _ => Err("write `local`, `local:NAME`, or `openai:NAME` such as `openai:gpt-5`".to_owned()),
        }
    }
}

impl ModelOptions {
    /// Loads the model, or finds out where it is.
    pub(crate) async fn open(&self) -> Result<Arc<dyn ChatModel>, Failure> {
        match (&self.model, &self.base_url) {
            (ModelName::Local(known), None) => local::open(*known).await,
            (ModelName::Local(_), Some(_)) => Err(Failure::usage(
                "--base-url is for a model behind an API: give its name by --model openai:NAME",
            )),
            (ModelName::OpenAi(name), base_url) => openai(name, base_url.as_deref()),
        }
    }
}

fn openai(name: &str, base_url: Option<&str>) -> Result<Arc<dyn ChatModel>, Failure> {
    let mut builder = ChatCompletions::builder(name).read_env();
    if let Some(base_url) = base_url {
        builder = builder.base_url(base_url);
    }
    let model = builder.build().map_err(|error| match error {
        haft_openai::BuildError::BaseUrl { .. } if base_url.is_some() => Failure::usage(error.to_string()),
        error => Failure::of(&error),
    })?;
    Ok(Arc::new(model))
}

#[cfg(feature = "local")]
mod local {
    use haft_local::{KnownModel, LocalModel};

    use super::{Arc, ChatModel, Failure};

    pub(super) type Known = &'static KnownModel;

    pub(super) fn find(name: &str) -> Result<Known, String> {
        KnownModel::find(name).ok_or_else(|| {
            let names: Vec<_> = KnownModel::all().iter().map(|model| model.name).collect();
            format!("there is no local model `{name}`: known are {}", names.join(", "))
        })
    }

    pub(super) async fn open(known: Option<Known>) -> Result<Arc<dyn ChatModel>, Failure> {
        let builder = LocalModel::builder().progress_bar();
        let opened = match known {
            Some(model) => builder.download(model.name).await,
            None => builder.open_default().await,
        };
        Ok(Arc::new(opened.map_err(|error| Failure::of(&error))?))
    }
}

#[cfg(not(feature = "local"))]
mod local {
    use std::convert::Infallible;

    use super::{Arc, ChatModel, Failure};

    const MISSING: &str =
        "this build of haft has no local model: use --model openai:NAME, or build with the feature `local`";

    pub(super) type Known = Infallible;

    pub(super) fn find(_name: &str) -> Result<Known, String> {
        Err(MISSING.to_owned())
    }

    pub(super) async fn open(_known: Option<Known>) -> Result<Arc<dyn ChatModel>, Failure> {
        Err(Failure::new(MISSING))
    }
}
