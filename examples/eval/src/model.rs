//! Which model is measured.

use std::{error::Error, sync::Arc};

use clap::Args;
use haft_core::ChatModel;
use haft_local::LocalModel;
use haft_openai::ChatCompletions;

#[derive(Args)]
pub(crate) struct ModelOptions {
    /// The model behind an OpenAI-compatible API. Without it the one in this process is measured: the file that
    /// HAFT_MODEL names, or the default.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Where the API is, such as `http://127.0.0.1:8080/v1`. Default: OPENAI_BASE_URL, or OpenAI.
    #[arg(long, value_name = "URL", requires = "model")]
    base_url: Option<String>,
}

impl ModelOptions {
    /// Whether it is the one that is measured where nobody chooses.
    pub(crate) fn is_default(&self) -> bool {
        self.model.is_none() && haft_local::configured_file().is_none()
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
