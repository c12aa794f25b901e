//! Toolsets, tool sources, and adaptors.

mod adaptor;
mod background_source;
mod combinators;
mod mapped;
mod merge;
mod part;
mod renamed;
mod selection;
mod source;

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use serde::Serialize;

pub use crate::pipeline::{Diagnostic, ToolList};
pub use adaptor::Adaptor;
pub use source::{ListContext, SourceError, ToolSource};

use crate::{
    call::{ToolCall, ToolError, ToolResult},
    panic_log::log_panic_text,
    pipeline::{CallOutcome, DEFAULT_LABEL, Pipeline, block_on},
    small_lru::SmallLru,
    tool::{IntoTools, Tool, ToolContext, ToolDefinition, ToolName},
};
use merge::{Defaults, MergeKey, MergedTools, merge_key};
use part::Part;

/// A collection of tools, tool sources and other toolsets. It is cheap to clone.
///
/// Add a fixed tool with [`with_tool`](Self::with_tool), and tools that change over time through a
/// [source](Self::with_source). Adaptors such as [`prefixed`](Self::prefixed) and
/// [`filtered`](Self::filtered) return a new toolset with changed tools.
///
/// # Nesting and adaptors
///
/// A toolset keeps its settings when it is added to an outer toolset or adapted:
///
/// - Its tools run in its own [pipeline](Self::with_pipeline), if set. The recorder of the outer
///   pipeline also receives the calls. Arguments are repaired only if both pipelines repair
///   arguments. Long results are saved in the result store of the inner pipeline if that store was
///   set explicitly, and in the store of the outer pipeline if it was not.
/// - [`check`](Self::check) of the outer toolset also checks the tools of the inner toolset.
/// - Diagnostics about its tools contain its [label](Self::with_label).
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, export::schemars::{self, JsonSchema}, tool_fn};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Add {
///     x: i64,
///     y: i64,
/// }
///
/// let add = tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y });
/// let tools = Toolset::new().with_tool(add);
/// let sum = tools.call_blocking("add", json!({"x": 17, "y": 25}));
/// assert_eq!(sum.into_output()?.text(), "42");
/// # Ok::<(), haft_core::call::Failure>(())
/// ```
#[derive(Clone, Default)]
pub struct Toolset {
    parts: Arc<Vec<Part>>,
    label: Option<Arc<str>>,
    pipeline: Pipeline,
    /// `true` if `pipeline` was set with [`with_pipeline`](Self::with_pipeline). If `false`, the
    /// pipeline of an outer toolset is used instead.
    has_own_pipeline: bool,
    /// The cached snapshot of the [direct tools](Self::direct_tools).
    direct_list: Arc<OnceLock<ToolList>>,
    merged_cache: Arc<Mutex<SmallLru<MergeKey, MergedTools>>>,
}

/// An error of a [`Toolset`] or a tool registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsetError {
    /// Two tools have the same name.
    #[error(
        "two tools are named \"{name}\", number {first} and number {second} of the toolset: give one another name, or leave it out"
    )]
    DuplicateName {
        /// The name that both tools share.
        name: ToolName,
        /// The position of the first tool with this name among the [static
        /// tools](Toolset::static_tools), counted from 1.
        first: usize,
        /// The position of the second tool with this name among the [static
        /// tools](Toolset::static_tools), counted from 1.
        second: usize,
    },
    /// A tool registry already has a tool with this name.
    #[error("a tool named \"{name}\" is registered already: replace it, or give one of the two another name")]
    AlreadyRegistered {
        /// The name of the tool.
        name: ToolName,
    },
    /// A tool has a [defect](ToolDefinition::defect).
    #[error("tool \"{name}\" cannot be used: {reason}")]
    Defect {
        /// The name of the tool.
        name: ToolName,
        /// The description of the defect.
        reason: String,
    },
    /// A closure or an [`Adaptor`] that adapts the static tools panicked. Its message is logged at
    /// the level `debug`.
    #[error("an adaptor of {label} panicked")]
    AdaptorPanicked {
        /// The label of the toolset.
        label: String,
    },
    /// A name passed to [`Toolset::subset`], [`Toolset::without_tools`] or a tool registry is not
    /// the name of a tool. Contains the error text, which lists up to 30 existing names.
    #[error("{0}")]
    UnknownTool(String),
    /// The default [timeout](Pipeline::with_timeout) of a toolset is zero.
    #[error(
        "the default timeout of {label} is zero, so each call would time out: set a positive timeout, or leave it out"
    )]
    ZeroTimeout {
        /// The label of the toolset.
        label: String,
    },
}

impl Toolset {
    /// Creates an empty toolset.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wraps `source` in a toolset with the label of the source, so that the adaptors of toolsets
    /// apply to it. A toolset is returned unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Toolset, tool};
    /// use haft_middleware::ToolRegistry;
    ///
    /// /// Returns its input.
    /// #[tool]
    /// fn echo(text: String) -> String {
    ///     text
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let plugins = ToolRegistry::new("plugins");
    /// plugins.register(Echo)?;
    /// let tools = Toolset::from_source(plugins).prefixed("plugin_");
    /// assert_eq!(tools.names().await, ["plugin_echo"]);
    /// # Ok::<(), haft_core::toolset::ToolsetError>(()) })?;
    /// # Ok::<(), haft_core::toolset::ToolsetError>(())
    /// ```
    pub fn from_source(source: impl ToolSource + 'static) -> Self {
        match (&source as &dyn Any).downcast_ref::<Self>() {
            Some(toolset) => toolset.clone(),
            None => Self::new().with_label(source.label()).with_source(source),
        }
    }

    /// Sets the label that identifies the toolset in diagnostics and logs.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Toolset;
    ///
    /// assert_eq!(Toolset::new().with_label("billing").label(), "billing");
    /// ```
    #[must_use]
    pub fn with_label(mut self, label: impl Into<Arc<str>>) -> Self {
        let label = label.into();
        for part in Arc::make_mut(&mut self.parts) {
            // The inner toolset is this toolset before the adaptor, so both have the same label.
            if let Part::Adapted(inner, _) = part {
                *inner = inner.clone().with_label(Arc::clone(&label));
            }
        }
        self.label = Some(label);
        self.without_caches()
    }

    /// Returns the label of the toolset. `"the toolset"` by default.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(DEFAULT_LABEL)
    }

    /// Adds `tool` to the toolset.
    #[must_use]
    pub fn with_tool(self, tool: impl Tool + 'static) -> Self {
        self.with_part(Part::Tool(Arc::new(tool)))
    }

    /// Adds a source of tools or another toolset. An added toolset keeps its pipeline and its
    /// label.
    #[must_use]
    pub fn with_source(self, source: impl ToolSource + 'static) -> Self {
        self.with_part(Part::from_source(source))
    }

    /// Adds a source with a name. If a tool of the source has the name of an earlier tool, `name`
    /// and an underscore are put in front of its name. [`with_source`](Self::with_source) withholds
    /// such a tool.
    ///
    /// The earlier tools are the direct tools of the toolset, and the tools of the sources that
    /// were added before.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Toolset, tool};
    ///
    /// #[tool]
    /// fn search(words: String) -> String {
    ///     words
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let (wiki, mail) = (Toolset::new().with_tool(Search), Toolset::new().with_tool(Search));
    /// let tools = Toolset::new().with_named_source("wiki", wiki).with_named_source("mail", mail);
    /// assert_eq!(tools.names().await, ["search", "mail_search"]);
    /// # });
    /// ```
    #[must_use]
    pub fn with_named_source(self, name: &str, source: impl ToolSource + 'static) -> Self {
        self.with_part(Part::Named(format!("{name}_"), Box::new(Part::from_source(source))))
    }

    /// Adds several tools. `tools` is an array, a vector or a tuple of tools, or a value with
    /// [`#[tools]`](macro@crate::tools) on its `impl` block.
    #[must_use]
    pub fn with_tools(self, tools: impl IntoTools) -> Self {
        tools.into_tools().into_iter().fold(self, Self::with_tool)
    }

    /// Sets the pipeline that runs all calls to the tools. Default: [`Pipeline::default`].
    #[must_use]
    pub fn with_pipeline(mut self, pipeline: Pipeline) -> Self {
        (self.pipeline, self.has_own_pipeline) = (pipeline, true);
        self.without_caches()
    }

    /// Sets the default [timeout](Pipeline::with_timeout) of calls to the tools of this toolset.
    /// The timeout of a tool takes precedence.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        let pipeline = self.pipeline.clone().with_timeout(timeout);
        self.with_pipeline(pipeline)
    }

    fn with_part(mut self, part: Part) -> Self {
        Arc::make_mut(&mut self.parts).push(part);
        self.without_caches()
    }

    /// Replaces the caches with empty caches after a change of the toolset. The old caches are not
    /// cleared, because clones made before the change share them.
    fn without_caches(mut self) -> Self {
        (self.direct_list, self.merged_cache) = Default::default();
        self
    }

    /// Returns the pipeline that runs all calls to the tools.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Returns the static tools: the tools added with [`with_tool`](Self::with_tool) or
    /// [`with_tools`](Self::with_tools) to this toolset or to inner toolsets. The tools of sources
    /// are not included.
    ///
    /// All adaptors are applied except [`prepared`](Self::prepared), which needs the context of a
    /// listing.
    pub fn static_tools(&self) -> impl Iterator<Item = Arc<dyn Tool>> {
        let mut tools = Vec::new();
        for part in self.parts.iter() {
            part.collect_static_tools(&mut tools);
        }
        tools.into_iter()
    }

    /// Returns the direct tools: the tools added with [`with_tool`](Self::with_tool) or
    /// [`with_tools`](Self::with_tools), without the tools of sources and inner toolsets.
    fn direct_tools(&self) -> impl Iterator<Item = Arc<dyn Tool>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Tool(tool) => Some(Arc::clone(tool)),
            _ => None,
        })
    }

    /// Checks the [static tools](Self::static_tools) for duplicate names and defects. The builder
    /// of an agent calls this method, so an explicit call is rarely needed.
    ///
    /// # Errors
    ///
    /// Fails if two tools have the same name, if a tool has a
    /// [defect](crate::tool::ToolDefinition::defect), if an adaptor panics, or if the default timeout
    /// of this toolset or of an inner toolset is zero.
    pub fn check(&self) -> Result<(), ToolsetError> {
        if let Some(label) = self.find_zero_timeout() {
            return Err(ToolsetError::ZeroTimeout { label: label.to_owned() });
        }
        let tools = catch_unwind(AssertUnwindSafe(|| self.static_tools())).map_err(|panic| {
            log_panic_text(&*panic);
            ToolsetError::AdaptorPanicked { label: self.label().to_owned() }
        })?;
        let mut seen = HashMap::new();
        for (number, tool) in (1..).zip(tools) {
            let definition = tool.definition();
            let name = definition.name().clone();
            if let Some(reason) = definition.defect() {
                return Err(ToolsetError::Defect { name, reason: reason.to_owned() });
            }
            if let Some(first) = seen.insert(name.clone(), number) {
                return Err(ToolsetError::DuplicateName { name, first, second: number });
            }
        }
        Ok(())
    }

    /// Returns the label of this toolset or of the first inner toolset with a default timeout of
    /// zero.
    fn find_zero_timeout(&self) -> Option<&str> {
        if self.pipeline.timeout() == Some(Duration::ZERO) {
            return Some(self.label());
        }
        self.parts.iter().find_map(Part::find_zero_timeout)
    }

    /// Returns a snapshot of the available tools. If nothing has changed since the previous
    /// listing, the snapshot is the same, with the same [id](ToolList::snapshot_id).
    ///
    /// If a source fails, the snapshot has a diagnostic instead of the tools of this source. If a
    /// source takes longer than one second, its previous listing for the same run and host state is
    /// used until the source responds. If the source has no previous listing, the snapshot has a
    /// diagnostic. A tool is withheld if it has a [defect](ToolDefinition::defect), if an earlier
    /// tool has the same name, or if `cx` does not provide its declared host state.
    pub async fn list(&self, cx: &ListContext) -> ToolList {
        self.list_with(cx, |merged| merged.list_available(&cx.state)).await
    }

    /// Returns a snapshot of all tools, including tools whose host state is missing from `cx`.
    pub(super) async fn list_all(&self, cx: &ListContext) -> ToolList {
        self.list_with(cx, |merged| merged.all()).await
    }

    /// Returns a snapshot that contains the tool named `name`, if it exists. To save work, the
    /// sources are listed only if the tool is not a [direct tool](Self::direct_tools).
    async fn snapshot_for(&self, name: &str, cx: &ListContext) -> ToolList {
        let own = self.direct_list.get_or_init(|| self.defaults().build_list(self.direct_tools()));
        if own.get(name).is_some() { own.clone() } else { self.list_all(cx).await }
    }

    async fn list_with(
        &self,
        cx: &ListContext,
        select: impl FnOnce(&mut MergedTools) -> ToolList,
    ) -> ToolList {
        let listings = self.parts.iter().filter_map(|part| part.list(cx));
        let listings = join_all(listings).await;
        let mut merged = self.merged_cache.lock().unwrap_or_else(PoisonError::into_inner);
        let merge = |_: &MergeKey| MergedTools::new(self.direct_tools(), &listings, &self.defaults());
        select(merged.get_or_insert_with(merge_key(&listings), merge))
    }

    fn defaults(&self) -> Defaults {
        Defaults { label: self.label.clone(), pipeline: self.has_own_pipeline.then(|| self.pipeline.clone()) }
    }

    /// Lists all tools and returns their names, in the order of the listing.
    pub async fn names(&self) -> Vec<ToolName> {
        self.list_all(&ListContext::default()).await.names().cloned().collect()
    }

    /// Returns the tool named `name`. `None` if there is no such tool.
    pub async fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.snapshot_for(name, &ListContext::default()).await.get(name).cloned()
    }

    /// Returns `true` if there is a tool named `name`.
    pub async fn contains(&self, name: &str) -> bool {
        self.get(name).await.is_some()
    }

    /// Returns the definition of the tool named `name`. `None` if there is no such tool.
    pub async fn definition(&self, name: &str) -> Option<ToolDefinition> {
        self.get(name).await.map(|tool| tool.definition().clone())
    }

    /// Calls the tool named `name` through the [pipeline](Self::pipeline), as an agent does.
    ///
    /// `arguments` is any serializable value. If the call is suspended, for example until it is
    /// approved, the result is a failure. To get the pending state, use [`Pipeline::call`].
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call. Side effects may already have happened.
    ///
    /// # Examples
    ///
    /// See [`Toolset`].
    pub async fn call(&self, name: &str, arguments: impl Serialize) -> ToolResult {
        self.call_with(name, arguments, &ToolContext::default()).await
    }

    /// Calls a tool like [`call`](Self::call), but in the context `cx`.
    pub async fn call_with(&self, name: &str, arguments: impl Serialize, cx: &ToolContext) -> ToolResult {
        let arguments = match serde_json::to_string(&arguments) {
            Ok(arguments) => arguments,
            Err(error) => return ToolResult::failed(cx.call_id(), name, &ToolError::failed(error)),
        };
        self.run_in(&ToolCall::new(cx.call_id(), name, arguments), cx).await.into_result()
    }

    /// Runs `call` as a model wrote it, through the [pipeline](Self::pipeline).
    ///
    /// A malformed call is data: if the tool is unknown or the arguments are not valid JSON, the
    /// result is a failure with a text for the model. If the call is suspended, for example until
    /// it is approved, the result is also a failure; use [`run_with`](Self::run_with) to get the
    /// pending state.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call. Side effects may already have happened.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ToolCall, Toolset, tool};
    ///
    /// #[tool]
    /// fn double(n: i64) -> i64 {
    ///     2 * n
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let tools = Toolset::new().with_tool(Double);
    /// let result = tools.run(&ToolCall::new("call_1", "double", r#"{"n": 21}"#)).await;
    /// assert_eq!((result.call_id.as_str(), &*result.model_text()), ("call_1", "42"));
    ///
    /// let malformed = tools.run(&ToolCall::new("call_2", "double", r#"{"n": 21"#)).await;
    /// assert!(malformed.model_text().starts_with("invalid arguments: not JSON"));
    /// # });
    /// ```
    pub async fn run(&self, call: &ToolCall) -> ToolResult {
        self.run_with(call, &ToolContext::default()).await.into_result()
    }

    /// Runs `call` like [`run`](Self::run), but in the context `cx`. The id of `call` replaces the
    /// call id of `cx`. The outcome is pending if the call is suspended. To resume the call, run
    /// it again in a context with the [decision](ToolContext::with_resumed).
    pub async fn run_with(&self, call: &ToolCall, cx: &ToolContext) -> CallOutcome {
        self.run_in(call, &cx.clone().with_call_id(call.id.as_str())).await
    }

    async fn run_in(&self, call: &ToolCall, cx: &ToolContext) -> CallOutcome {
        let listing = ListContext { state: cx.host_state().clone(), ..ListContext::default() };
        let tools = self.snapshot_for(&call.name, &listing).await;
        self.pipeline.call(&tools, call, cx).await
    }

    /// Calls a tool from synchronous code and blocks the thread until the call ends.
    ///
    /// Inside a task of a tokio runtime, blocking could deadlock, so the call fails. Use
    /// [`call`](Self::call) there. Inside `spawn_blocking`, this method works.
    pub fn call_blocking(&self, name: &str, arguments: impl Serialize) -> ToolResult {
        block_on("call", self.call(name, arguments))
            .unwrap_or_else(|error| ToolResult::failed("", name, &error))
    }
}

#[async_trait]
impl ToolSource for Toolset {
    fn label(&self) -> &str {
        self.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        // Tools whose host state is missing are included, because only the outermost toolset
        // withholds them.
        let all = self.list_all(cx).await;
        let failures: Vec<_> = all.failed_sources().collect();
        match failures.as_slice() {
            [(_, reason)] if all.is_empty() => Err(SourceError::new(self.label(), *reason)),
            [_, _, ..] if all.is_empty() => {
                let reasons = failures.iter().map(|(label, reason)| format!("{label}: {reason}"));
                Err(SourceError::new(self.label(), reasons.collect::<Vec<_>>().join("; ")))
            }
            _ => Ok(all),
        }
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolset").field("label", &self.label()).field("parts", &self.parts).finish()
    }
}
