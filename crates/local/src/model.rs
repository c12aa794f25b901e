//! The public model type, [`LocalModel`].

use std::path::Path;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};

#[cfg(feature = "download")]
use crate::OpenError;
#[cfg(doc)]
use crate::PrefixCache;
use crate::engine::EngineOptions;
use crate::worker::{Worker, worker_stopped};
use crate::{LoadError, LocalModelBuilder, PromptProfile};

/// A chat model that runs in this process, loaded from a GGUF file.
///
/// The model runs on its own thread and processes one request at a time. Clones of an
/// `Arc<LocalModel>` share the thread. A tokio runtime is needed only for downloads.
///
/// # Queue
///
/// Requests are processed in the order of arrival. A request does not name its caller, so this is
/// the fair order: each step of an agent is a request of its own, and agents that share a model
/// take turns after every step. At most 16 requests are queued. Further callers wait, in the order
/// of arrival. Dropping a queued request removes it from the queue, and dropping the request in
/// progress cancels it before its next token.
///
/// # Cached prefixes
///
/// The keys and values of evaluated tokens are cached. Tokens at the beginning of a request are not
/// evaluated again if an earlier request began with the same tokens. Each step of an agent
/// therefore costs only its new tokens, also if several conversations take turns
/// ([`conversation_memory`](LocalModelBuilder::conversation_memory)). A [`PrefixCache`] keeps the
/// instructions and the tool list on disk for the next start of the program.
/// [`Usage::cached_input_tokens`](haft_core::usage::Usage::cached_input_tokens) counts the tokens
/// that were not evaluated.
///
/// Tool calls and JSON replies are decoded under a grammar that is derived from their schema. The
/// result is validated against the schema, so an invalid call is never returned. The
/// [`PromptProfile`] determines how tools are presented to the model.
///
/// # Constructors
///
/// | constructor | file | feature |
/// |---|---|---|
/// | [`open`](Self::open) | a path | |
/// | [`download`](Self::download) | a model of the catalogue | `download` |
/// | [`open_default`](Self::open_default) | `$HAFT_MODEL`, or the default model | `download` |
/// | [`builder`](Self::builder) | any of these, with options | |
///
/// # Settings
///
/// The default temperature is 0 (greedy). A reply that reaches its token limit has the finish
/// reason [`Length`] and contains no call.
///
/// Without [`max_tokens`], the limit is 2,048 tokens, and a JSON value is closed early: after 1,024
/// tokens, the engine prefers tokens that end the value. It does not truncate strings or numbers.
///
/// A model that repeats the same text at least four times in succession, with 160 tokens or more,
/// would continue until the limit. Such a reply ends with [`Length`] at once, a JSON value is
/// closed, and reasoning ends before the reply.
///
/// [`Length`]: haft_core::model::FinishReason::Length
/// [`max_tokens`]: haft_core::model::ChatSettings::max_tokens
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_local::LocalModel;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = LocalModel::open("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf").await?;
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
    /// Opens the GGUF file at `path`.
    ///
    /// # Errors
    ///
    /// Fails with a [`LoadError`], for example if the file does not exist or does not contain a
    /// supported model.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::builder().open(path).await
    }

    /// Opens the model `name` of the [catalogue](crate::KnownModel::all), such as
    /// `qwen2.5-coder-0.5b`. If its file is not in the [default store](crate::ModelStore::new), the
    /// file is downloaded first.
    ///
    /// # Errors
    ///
    /// Fails if `name` is not in the catalogue, if neither `HAFT_CACHE` nor a home folder is set,
    /// or if the file cannot be downloaded or loaded.
    #[cfg(feature = "download")]
    pub async fn download(name: &str) -> Result<Self, OpenError> {
        Self::builder().download(name).await
    }

    /// Opens the model file at the path in the environment variable `HAFT_MODEL`. If the variable
    /// is unset or empty, opens the [default model](crate::KnownModel::default_model). The file of
    /// the default model is downloaded at its first use.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be downloaded or loaded. Also fails if the default model is needed
    /// and neither `HAFT_CACHE` nor a home folder is set.
    #[cfg(feature = "download")]
    pub async fn open_default() -> Result<Self, OpenError> {
        Self::builder().open_default().await
    }

    /// Creates a builder, which offers further options such as a progress observer.
    pub fn builder() -> LocalModelBuilder {
        LocalModelBuilder::new()
    }

    pub(crate) async fn start(
        path: &Path,
        profile: Option<PromptProfile>,
        options: EngineOptions,
        progress: impl FnMut(f32) + Send + 'static,
    ) -> Result<Self, LoadError> {
        let worker = Worker::start(path.to_owned(), profile, options, progress).await?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let profile =
            ModelProfile { context_window: Some(worker.context() as u64), ..ModelProfile::new(name) };
        Ok(Self { worker, profile })
    }
}

#[async_trait]
impl ChatModel for LocalModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        request.check_hosted_tools(&self.profile)?;
        let mut events = self.worker.submit(request.clone()).await?;
        while let Some(event) = events.recv().await {
            if let ChatEvent::Finished(response) = event? {
                let mut response = *response;
                self.add_name(&mut response);
                return Ok(response);
            }
        }
        Err(worker_stopped())
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        if let Err(error) = request.check_hosted_tools(&self.profile) {
            return stream::iter([Err(error)]).boxed();
        }
        let events = async move {
            match self.worker.submit(request.clone()).await {
                Ok(events) => {
                    stream::unfold(events, async |mut events| Some((events.recv().await?, events))).boxed()
                }
                Err(error) => stream::iter([Err(error)]).boxed(),
            }
        };
        let named = |mut event| {
            if let Ok(ChatEvent::Finished(response)) = &mut event {
                self.add_name(response);
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
    /// Sets the model name in `response` to the name of this model.
    fn add_name(&self, response: &mut ChatResponse) {
        response.model = Some(self.profile.name.clone());
    }
}

impl std::fmt::Debug for LocalModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalModel").field("profile", &self.profile).finish_non_exhaustive()
    }
}
