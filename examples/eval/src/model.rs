//! The command line options that select the model to evaluate.

use std::{error::Error, sync::Arc};

use clap::Args;
use haft_core::ChatModel;
use haft_local::LocalModel;
use haft_openai::ChatCompletions;

#[derive(Args)]
pub(crate) struct ModelOptions {
    /// A model of an OpenAI-compatible API. Default: the local model in the file HAFT_MODEL, or both
    /// tuned models of the catalogue.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The base URL of the API, for example `http://127.0.0.1:8080/v1`. Default: OPENAI_BASE_URL,
    /// or OpenAI.
    #[arg(long, value_name = "URL", requires = "model")]
    base_url: Option<String>,
}

impl ModelOptions {
    /// Opens the selected model. Returns `None` if a model is specified neither on the command line
    /// nor in `HAFT_MODEL`.
    pub(crate) async fn open(&self) -> Result<Option<Arc<dyn ChatModel>>, Box<dyn Error>> {
        let Some(name) = &self.model else {
            if haft_local::model_file_from_env().is_none() {
                return Ok(None);
            }
            return Ok(Some(Arc::new(LocalModel::builder().progress_bar().open_default().await?)));
        };
        let mut builder = ChatCompletions::builder(name).read_env();
        if let Some(base_url) = &self.base_url {
            builder = builder.base_url(base_url);
        }
        Ok(Some(Arc::new(builder.build()?)))
    }
}
