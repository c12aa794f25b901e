//! Which model is asked.

use std::{str::FromStr, sync::Arc};

use clap::Args;
use haft_core::ChatModel;
use haft_openai::ChatCompletions;

use crate::failure::Failure;

/// Which model is asked, and where it is.
#[derive(Args)]
pub(crate) struct ModelOptions {
    /// The model: `local`, in this process, or `openai:NAME`, behind an OpenAI-compatible API.
    ///
    /// `local` is fetched when it is not there; HAFT_MODEL names a GGUF file to use in its place. The key of an API is
    /// read from OPENAI_API_KEY.
    #[arg(long, value_name = "MODEL", default_value = "local")]
    model: ModelName,
    /// Where the API is, such as `http://127.0.0.1:8080/v1`. Default: OPENAI_BASE_URL, or OpenAI.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

#[derive(Clone, Debug)]
enum ModelName {
    Local,
    OpenAi(String),
}

impl FromStr for ModelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local),
            Some(("openai", name)) if !name.is_empty() => Ok(Self::OpenAi(name.to_owned())),
            _ => Err("write `local`, or `openai:NAME` such as `openai:gpt-5`".to_owned()),
        }
    }
}

impl ModelOptions {
    /// Loads the model, or finds out where it is.
    pub(crate) async fn open(&self) -> Result<Arc<dyn ChatModel>, Failure> {
        match (&self.model, &self.base_url) {
            (ModelName::Local, None) => local().await,
            (ModelName::Local, Some(_)) => Err(Failure::usage(
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
async fn local() -> Result<Arc<dyn ChatModel>, Failure> {
    let advice =
        haft_local::chosen_file().map(|_| "HAFT_MODEL names the file; unset it to use the default model");
    let opened = haft_local::LocalModel::open_chosen().await;
    Ok(Arc::new(opened.map_err(|error| Failure::of(&error).with_advice(advice))?))
}

#[cfg(not(feature = "local"))]
async fn local() -> Result<Arc<dyn ChatModel>, Failure> {
    Err(Failure::new(
        "this build of haft has no local model: use --model openai:NAME, or build with the feature `local`",
    ))
}
