//! The builder of a [`LocalModel`].

use std::fmt;
use std::path::Path;
#[cfg(feature = "download")]
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "progress")]
use crate::ModelProgressBar;
#[cfg(feature = "download")]
use crate::OpenError;
use crate::compute_device::ComputeDevice;
use crate::engine::{EngineOptions, Reading};
#[cfg(feature = "download")]
use crate::store::{
    Downloader, HubFile, KnownModel, ModelStore, PullEvent, hub_file_from_env, model_file_from_env,
};
use crate::{LoadError, LocalModel, PrefixCache, PromptProfile};

/// A builder that opens a [`LocalModel`] with options, such as a progress observer or a prompt
/// profile.
///
/// # Examples
///
/// ```no_run
/// use haft_local::{LocalModel, ModelEvent};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = LocalModel::builder()
///     .on_event(|event| match event {
///         ModelEvent::Loading { fraction, .. } => eprintln!("{:.0} %", fraction * 100.0),
///         _ => {}
///     })
///     .open("model.gguf")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct LocalModelBuilder {
    profile: Option<PromptProfile>,
    observer: Option<Observer>,
    prefix_cache: Option<Option<PrefixCache>>,
    conversation_memory: Option<usize>,
    thinking: bool,
    device: ComputeDevice,
    #[cfg(feature = "progress")]
    progress: Option<ModelProgressBar>,
    #[cfg(feature = "download")]
    store: Option<ModelStore>,
    #[cfg(feature = "download")]
    downloader: Option<Downloader>,
}

type Observer = Arc<dyn Fn(&ModelEvent<'_>) + Send + Sync>;

/// The default of [`LocalModelBuilder::conversation_memory`], in bytes.
const DEFAULT_CONVERSATION_MEMORY: usize = 256 << 20;

/// An event during the download, the loading or the use of a model.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModelEvent<'a> {
    /// An event from the download of the model file.
    #[cfg(feature = "download")]
    Pull(PullEvent<'a>),
    /// The weights are being loaded.
    Loading {
        /// The path of the model file.
        file: &'a Path,
        /// The fraction of the weights loaded so far, from 0 to 1.
        fraction: f32,
    },
    /// A long prompt is being evaluated.
    ///
    /// This event is emitted only if at least 256 tokens of the prompt are new, before the first
    /// and after each forward pass. If the request is cancelled, no event with `done == total`
    /// follows.
    Reading {
        /// The number of new tokens evaluated so far.
        done: usize,
        /// The number of new tokens of the prompt. Tokens from a cache are not counted.
        total: usize,
    },
}

impl LocalModelBuilder {
    /// Creates a builder with the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the prompt profile, which determines how tools are presented to the model.
    ///
    /// By default, the profile is selected by the SHA-256 of the file. The two
    /// Qwen2.5-Coder models of the catalogue have a tuned profile, and any other file gets
    /// [`PromptProfile::template`].
    pub fn prompt_profile(mut self, profile: PromptProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets a callback for the events during downloading and loading, and while a long prompt is
    /// read.
    ///
    /// The callback must not block: it is called on the async runtime during the download, and
    /// otherwise on the thread of the model.
    pub fn on_event(mut self, observer: impl Fn(&ModelEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Sets the folder for the evaluated instructions and tool lists. `None` disables the prefix
    /// cache on disk.
    ///
    /// By default, [`download`](Self::download) and [`open_default`](Self::open_default) use
    /// [`PrefixCache::new`], and [`open`](Self::open) writes nothing to disk.
    pub fn prefix_cache(mut self, cache: impl Into<Option<PrefixCache>>) -> Self {
        self.prefix_cache = Some(cache.into());
        self
    }

    /// Sets the maximum memory for conversations other than the current one, in bytes. Their keys
    /// and values are kept, so that conversations can take turns without evaluating their prompts
    /// again. The memory is allocated when a request begins with other tokens than the previous
    /// request. With 0, only the current conversation is kept.
    ///
    /// The default is 256 MiB: about 10,000 tokens of a model with half a billion parameters, and
    /// 4,600 of one with 1.5 billion.
    pub fn conversation_memory(mut self, bytes: usize) -> Self {
        self.conversation_memory = Some(bytes);
        self
    }

    /// Enables or disables the reasoning of hybrid models, such as Qwen3 and SmolLM3. The default
    /// is `false`, because reasoning takes minutes on a CPU.
    ///
    /// With `true`, replies of a model whose chat template has a reasoning block begin with
    /// reasoning, also before tool calls and JSON. With `false`, the variable `enable_thinking` of
    /// the template is `false`. Models without this variable that always reason still do. SmolLM3
    /// also obeys `/think` and `/no_think` in a system message, which take precedence.
    ///
    /// The reasoning is in [`AssistantMessage::reasoning`] and is streamed as
    /// [`ChatEvent::ReasoningDelta`]. It counts toward [`max_tokens`]. Without `max_tokens`, it is
    /// ended after 2,048 tokens, and the reply after it has a limit of its own.
    ///
    /// [`AssistantMessage::reasoning`]: haft_core::message::AssistantMessage::reasoning
    /// [`ChatEvent::ReasoningDelta`]: haft_core::model::ChatEvent::ReasoningDelta
    /// [`max_tokens`]: haft_core::model::ChatSettings::max_tokens
    pub fn thinking(mut self, enabled: bool) -> Self {
        self.thinking = enabled;
        self
    }

    /// Evaluates the model on the GPU `index`, from 0 in the order of the driver. By default, the
    /// model is evaluated on the processor.
    ///
    /// With the feature `cuda`, this is a GPU of NVIDIA, and otherwise a GPU of Apple. The weights
    /// and the key-value cache must fit into its memory. Opening a model fails with
    /// [`LoadError::GpuUnavailable`] if the GPU or its driver is missing.
    ///
    /// The tests do not run on a GPU. They compare the operations for GPUs with those for
    /// processors, on a processor.
    #[cfg(any(feature = "cuda", feature = "metal"))]
    pub fn gpu(mut self, index: usize) -> Self {
        self.device = ComputeDevice::Gpu(index);
        self
    }

    /// Shows a [progress bar](ModelProgressBar) on standard error.
    #[cfg(feature = "progress")]
    pub fn progress_bar(mut self) -> Self {
        self.progress = Some(ModelProgressBar::new());
        self
    }

    /// Sets the folder for downloaded models. The default is [`ModelStore::new`].
    #[cfg(feature = "download")]
    pub fn store(mut self, store: ModelStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the downloader for models in the catalogue. The default is [`Downloader::new`].
    #[cfg(feature = "download")]
    pub fn downloader(mut self, downloader: Downloader) -> Self {
        self.downloader = Some(downloader);
        self
    }

    /// Opens the GGUF file at `path`.
    ///
    /// # Errors
    ///
    /// Fails with a [`LoadError`], for example if the file does not exist or does not contain a
    /// supported model.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<LocalModel, LoadError> {
        let (observer, file) = (self.clone(), path.as_ref().to_owned());
        let progress = move |fraction| observer.emit(&ModelEvent::Loading { file: &file, fraction });
        let observer = self.clone();
        let options = EngineOptions {
            prefix_cache: self.prefix_cache.clone().flatten(),
            memory_bytes: self.conversation_memory.unwrap_or(DEFAULT_CONVERSATION_MEMORY),
            thinks: self.thinking,
            device: self.device,
            report_reading: Box::new(move |reading| observer.report_reading(reading)),
        };
        let model = LocalModel::start(path.as_ref(), self.profile.clone(), options, progress).await;
        #[cfg(feature = "progress")]
        if let Some(bar) = &self.progress {
            bar.finish();
        }
        model
    }

    /// Opens the model `name` of the [catalogue](KnownModel::all). If its file is not in the store,
    /// the file is downloaded first.
    ///
    /// # Errors
    ///
    /// Fails if `name` is not in the catalogue, or if the file cannot be downloaded or loaded. Also
    /// fails if no store is set, and neither `HAFT_CACHE` nor a home folder is set.
    #[cfg(feature = "download")]
    pub async fn download(self, name: &str) -> Result<LocalModel, OpenError> {
        let model =
            KnownModel::find(name).ok_or_else(|| OpenError::UnknownModel { name: name.to_owned() })?;
        let store = self.store.clone().map_or_else(ModelStore::new, Ok)?;
        let downloader = self.downloader.clone().unwrap_or_default();
        let pulled = downloader.pull(&store, model, &|event| self.emit(&ModelEvent::Pull(event))).await;
        #[cfg(feature = "progress")]
        if let (Err(_), Some(bar)) = (&pulled, &self.progress) {
            bar.finish();
        }
        let profile = self.profile.clone().unwrap_or_else(|| PromptProfile::for_model(model));
        self.prompt_profile(profile).open_downloaded(pulled?).await
    }

    /// Opens `file` of the Hugging Face hub. If it is not in the store, it is downloaded first.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be downloaded or loaded. Also fails if no store is set, and neither
    /// `HAFT_CACHE` nor a home folder is set.
    #[cfg(feature = "download")]
    pub async fn download_hub_file(self, file: &HubFile) -> Result<LocalModel, OpenError> {
        let store = self.store.clone().map_or_else(ModelStore::new, Ok)?;
        let downloader = self.downloader.clone().unwrap_or_default();
        let pulled =
            downloader.pull_hub_file(&store, file, &|event| self.emit(&ModelEvent::Pull(event))).await;
        #[cfg(feature = "progress")]
        if let (Err(_), Some(bar)) = (&pulled, &self.progress) {
            bar.finish();
        }
        self.open_downloaded(pulled?).await
    }

    #[cfg(feature = "download")]
    async fn open_downloaded(self, file: PathBuf) -> Result<LocalModel, OpenError> {
        self.with_default_prefix_cache().open(&file).await.map_err(|error| {
            // The file was verified after its download. A disk error may have damaged it since then
            // without changing its modification time, so the next pull must verify it again.
            ModelStore::invalidate(&file);
            OpenError::DownloadedFile(error)
        })
    }

    /// Opens the model file at the path in the environment variable `HAFT_MODEL`, or downloads the
    /// file at a location such as `hub:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf` in it. If the
    /// variable is unset or empty, opens the [default model](KnownModel::default_model). Downloads
    /// are skipped if the file is in the store.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be downloaded or loaded. Also fails if the default model is needed,
    /// no store is set, and neither `HAFT_CACHE` nor a home folder is set.
    #[cfg(feature = "download")]
    pub async fn open_default(self) -> Result<LocalModel, OpenError> {
        if let Some(file) = hub_file_from_env() {
            return self.download_hub_file(&file).await;
        }
        match model_file_from_env() {
            Some(file) => {
                self.with_default_prefix_cache().open(file).await.map_err(OpenError::ConfiguredFile)
            }
            None => self.download(KnownModel::default_model().name).await,
        }
    }

    /// Sets the prefix cache of the user, unless the option is set.
    #[cfg(feature = "download")]
    fn with_default_prefix_cache(mut self) -> Self {
        // A user without a home folder has no prefix cache.
        self.prefix_cache.get_or_insert_with(|| PrefixCache::new().ok());
        self
    }

    fn report_reading(&self, reading: Reading) {
        #[cfg(feature = "progress")]
        if let (Reading::Aborted, Some(bar)) = (reading, &self.progress) {
            bar.finish();
        }
        if let Reading::Progress { done, total } = reading {
            self.emit(&ModelEvent::Reading { done, total });
        }
    }

    fn emit(&self, event: &ModelEvent<'_>) {
        #[cfg(feature = "progress")]
        if let Some(bar) = &self.progress {
            bar.on_event(event);
        }
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}

impl fmt::Debug for LocalModelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("LocalModelBuilder");
        builder.field("prompt_profile", &self.profile);
        builder.field("prefix_cache", &self.prefix_cache);
        builder.field("conversation_memory", &self.conversation_memory);
        builder.field("thinking", &self.thinking);
        builder.field("device", &self.device);
        #[cfg(feature = "download")]
        builder.field("store", &self.store).field("downloader", &self.downloader);
        builder.finish_non_exhaustive()
    }
}
