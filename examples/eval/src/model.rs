//! The command line options that select the model to evaluate.

use std::{error::Error, sync::Arc};

use clap::Args;
use haft_core::ChatModel;
use haft_local::LocalModel;
use haft_openai::ChatCompletions;

#[derive(Args)]
pub(crate) struct ModelOptions {
    /// A model of an OpenAI-compatible API. Default: the local model, from the file in HAFT_MODEL
    /// or the catalogue.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The base URL of the API, for example `http://127.0.0.1:8080/v1`. Default: OPENAI_BASE_URL,
    /// or OpenAI.
    #[arg(long, value_name = "URL", requires = "model")]
    base_url: Option<String>,
}

impl ModelOptions {
    /// Returns `true` if a model is specified neither on the command line nor in `HAFT_MODEL`.
    pub(crate) fn is_default(&self) -> bool {
        self.model.is_none() && haft_local::model_file_from_env().is_none()
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn ChatModel>, Box<dyn Error>> {
        let Some(name) = &self.model else {
            return Ok(Arc::new(LocalModel::builder().progress_bar().open_default().await?));
        };
        let mut builder = ChatCompletions::builder(name).read_env();
        if let Some(base_url) = &self.base_url {
            builder = builder.base_url(base_url);
        }
        Ok(Arc::new(builder.build()?))
    }
}
