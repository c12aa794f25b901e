//! The model as the rest of haft sees it.

use std::path::Path;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};

use crate::LoadError;
use crate::worker::{Worker, gone};

/// A chat model that runs in this process, from a GGUF file.
///
/// It runs on a thread of its own, one request after another; clones of an `Arc` of it share that thread. It needs no
/// tokio runtime. What two requests begin with in common is read once: a step of an agent costs what is new in it.
///
/// Tool calls and JSON replies are constrained to their schemas while they are written. What a grammar cannot express
/// is checked on the finished value; a call that does not fit its tool's schema is never returned.
///
/// # Settings
///
/// The default temperature is 0: always the likeliest token. A reply has at most 2,048 tokens where
/// [`max_tokens`](haft_core::model::ChatSettings::max_tokens) is not set, and a piece of JSON in it that is longer than
/// 1,024 is then brought to its end as shortly as its schema allows, and no text or number in it is cut for that. Where
/// a limit is reached, the reply ends with [`FinishReason::Length`](haft_core::model::FinishReason::Length), and has no call.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_local::LocalModel;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = LocalModel::load("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf").await?;
/// let request = ChatRequest::new([Message::user("What is the capital of France?")]);
/// println!("{}", model.chat(&request).await?.message.text());
/// # Ok(())
/// # }
/// ```
pub struct LocalModel {
    worker: Worker,
    profile: ModelProfile,
}

impl LocalModel {
    /// Loads a model.
    ///
    /// # Errors
    ///
    /// Fails with a [`LoadError`] when the file is not there, or not a model that this engine runs.
    pub async fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::load_watched(path, |_| {}).await
    }

    /// Loads a model and tells the share that is done, from 0 to 1, on the thread that loads it.
    ///
    /// # Errors
    ///
    /// The same as [`load`](Self::load).
    pub async fn load_watched(
        path: impl AsRef<Path>,
        progress: impl FnMut(f32) + Send + 'static,
    ) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let worker = Worker::start(path.to_owned(), progress).await?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let profile =
            ModelProfile { context_window: Some(worker.context() as u64), ..ModelProfile::new(name) };
        Ok(Self { worker, profile })
    }
}

#[async_trait]
impl ChatModel for LocalModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let mut events = self.worker.ask(request.clone()).await?;
        while let Some(event) = events.recv().await {
            if let ChatEvent::Finished(response) = event? {
                let mut response = *response;
                self.sign(&mut response);
                return Ok(response);
            }
        }
        Err(gone())
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = async move {
            match self.worker.ask(request.clone()).await {
                Ok(events) => {
                    stream::unfold(events, async |mut events| Some((events.recv().await?, events))).boxed()
                }
                Err(error) => stream::iter([Err(error)]).boxed(),
            }
        };
        let named = |mut event| {
            if let Ok(ChatEvent::Finished(response)) = &mut event {
                self.sign(response);
            }
            event
        };
        stream::once(events).flatten().map(named).boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl LocalModel {
    /// Says who replied.
    fn sign(&self, response: &mut ChatResponse) {
        response.model = Some(self.profile.name.clone());
    }
}

impl std::fmt::Debug for LocalModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalModel").field("profile", &self.profile).finish_non_exhaustive()
    }
}
