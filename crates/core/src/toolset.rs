//! Toolsets: tools and sources, gathered for a model.

mod adaptor;
mod algebra;
mod approval_required;
mod ext;
mod external;
mod filtered;
mod mapped;
mod merge;
mod polled_source;
mod prefixed;
mod recent;
mod renamed;
mod selection;
mod source;

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::join_all};
use serde::Serialize;

pub use crate::pipeline::{Diagnostic, ToolList};
pub use adaptor::Adaptor;
pub use ext::ToolSourceExt;
pub use source::{ListContext, SourceError, ToolSource};

use crate::{
    call::{ToolCall, ToolError, ToolResult},
    pipeline::{Pipeline, UNNAMED, block_on},
    tool::{Tool, ToolContext, ToolDefinition, ToolName, Tools},
};
use adaptor::Step;
use merge::{Defaults, Identity, Listing, Merged, identity};
use polled_source::{PolledSource, panicked};
use recent::Recent;

/// Tools from anywhere, offered together. Cheap to clone.
///
/// A toolset has tools given as values ([`with`](Self::with)), [sources](Self::with_source), whose tools change
/// over time, and other toolsets. Adaptors such as [`prefixed`](Self::prefixed) and [`filtered`](Self::filtered)
/// return a toolset again.
///
/// # Nesting and adaptors
///
/// A toolset keeps its promises inside another toolset and behind every adaptor:
///
/// - Its tools run in its own [pipeline](Self::with_pipeline). The outer pipeline's recorder receives the calls
///   as well, arguments are repaired only if both pipelines allow it, and long results are kept in the inner store
///   if one was set, otherwise in the outer store.
/// - [`check`](Self::check) also reports duplicates and defects of the tools inside.
/// - Diagnostics name the inner toolset by its [label](Self::named).
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
/// let tools = Toolset::new().with(tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y }));
/// let sum = tools.call_blocking("add", json!({"x": 17, "y": 25}));
/// assert_eq!(sum.into_output()?.text(), "42");
/// # Ok::<(), haft_core::call::Failure>(())
/// ```
#[derive(Clone, Default)]
pub struct Toolset {
    parts: Arc<Vec<Part>>,
    label: Option<Arc<str>>,
    pipeline: Pipeline,
    /// Set if the pipeline was chosen by the user; a default pipeline gives way to the outer one.
    has_own_pipeline: bool,
    /// The tools that were given as values, by name.
    own: Arc<OnceLock<ToolList>>,
    merged: Arc<Mutex<Recent<Identity, Merged>>>,
}

#[derive(Clone)]
enum Part {
    Tool(Arc<dyn Tool>),
    Source(Arc<PolledSource>),
    Set(Toolset),
    Adapted(Toolset, Arc<Step>),
}

/// Why a toolset, or a registry, cannot be used like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsetError {
    /// Two tools have one name.
    #[error(
        "two tools are named \"{name}\", number {first} and number {second} of the toolset: give one another name, or leave it out"
    )]
    DuplicateName {
        /// The name.
        name: ToolName,
        /// Which tool has it first, from 1.
        first: usize,
        /// Which tool has it too.
        second: usize,
    },
    /// A registry has a tool of that name.
    #[error("a tool named \"{name}\" is registered already: replace it, or give one of the two another name")]
    Registered {
        /// The name.
        name: ToolName,
    },
    /// A tool cannot be used.
    #[error("tool \"{name}\" cannot be used: {reason}")]
    Defect {
        /// The tool.
        name: ToolName,
        /// What is wrong with it.
        reason: String,
    },
    /// A tool that was asked for is not there.
    #[error("{0}")]
    Unknown(String),
}

impl Toolset {
    /// Creates an empty toolset.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty toolset with a label, which names it in diagnostics and logs.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Toolset;
    ///
    /// assert_eq!(Toolset::named("billing").name(), "billing");
    /// ```
    pub fn named(label: impl Into<Arc<str>>) -> Self {
        Self { label: Some(label.into()), ..Self::default() }
    }

    /// The label, or `"the toolset"`.
    pub fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(UNNAMED)
    }

    /// Adds a tool.
    #[must_use]
    pub fn with(self, tool: impl Tool + 'static) -> Self {
        self.with_part(Part::Tool(Arc::new(tool)))
    }

    /// Adds a source. A toolset keeps its pipeline, its checks and its label.
    #[must_use]
    pub fn with_source(self, source: impl ToolSource + 'static) -> Self {
        let part = match (&source as &dyn Any).downcast_ref::<Self>() {
            Some(toolset) => Part::Set(toolset.clone()),
            None => Part::Source(Arc::new(PolledSource::new(Arc::new(source)))),
        };
        self.with_part(part)
    }

    /// Adds the tools of a value: those of an `impl` block with [`#[tools]`](macro@crate::tools), or several tools as a list or a
    /// tuple.
    #[must_use]
    pub fn with_tools(self, tools: impl Tools) -> Self {
        self.with_all(tools.into_tools())
    }

    /// Adds tools of one type.
    #[must_use]
    pub fn with_all<T: Tool + 'static>(self, tools: impl IntoIterator<Item = T>) -> Self {
        tools.into_iter().fold(self, Self::with)
    }

    /// Sets the pipeline that runs the calls.
    #[must_use]
    pub fn with_pipeline(mut self, pipeline: Pipeline) -> Self {
        (self.pipeline, self.has_own_pipeline) = (pipeline, true);
        self.without_memory()
    }

    fn with_part(mut self, part: Part) -> Self {
        Arc::make_mut(&mut self.parts).push(part);
        self.without_memory()
    }

    /// Detaches the snapshots of the toolset that this one was cloned from.
    fn without_memory(mut self) -> Self {
        (self.own, self.merged) = Default::default();
        self
    }

    /// The pipeline that runs the calls.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The tools that were given as values, here and in toolsets inside, after all adaptors but
    /// [`prepared`](Self::prepared), which depends on the listing.
    pub fn own_tools(&self) -> impl Iterator<Item = Arc<dyn Tool>> {
        let mut tools = Vec::new();
        self.collect_own(&mut tools);
        tools.into_iter()
    }

    fn collect_own(&self, tools: &mut Vec<Arc<dyn Tool>>) {
        for part in self.parts.iter() {
            match part {
                Part::Tool(tool) => tools.push(Arc::clone(tool)),
                Part::Source(_) => {}
                Part::Set(inner) => inner.collect_own(tools),
                Part::Adapted(inner, step) => {
                    tools.extend(inner.own_tools().filter_map(|tool| step.adapt_known(tool)));
                }
            }
        }
    }

    /// The tools that were given to this toolset directly.
    fn direct_tools(&self) -> impl Iterator<Item = Arc<dyn Tool>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Tool(tool) => Some(Arc::clone(tool)),
            _ => None,
        })
    }

    /// Checks the [tools that were given as values](Self::own_tools). An agent does so when it is built.
    ///
    /// # Errors
    ///
    /// Fails if two of them have the same name, or if one has a [defect](crate::tool::ToolDefinition::defect).
    pub fn check(&self) -> Result<(), ToolsetError> {
        let mut seen = HashMap::new();
        for (number, tool) in (1..).zip(self.own_tools()) {
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

    /// Returns a snapshot of the tools on offer. While nothing changes, it is the same snapshot.
    ///
    /// A source that fails loses its own tools and is reported in the diagnostics. A source that takes longer than one
    /// second is not awaited: its latest snapshot is used until it responds. A tool is withheld if its name is taken or
    /// if state that it declares is missing in `cx`.
    pub async fn list(&self, cx: &ListContext) -> ToolList {
        self.merged(cx, |merged| merged.with_state(&cx.state)).await
    }

    /// Returns a snapshot of all tools, including those whose state is missing.
    pub(super) async fn all(&self, cx: &ListContext) -> ToolList {
        self.merged(cx, |merged| merged.all()).await
    }

    /// Returns a snapshot that contains the tool of this name, if there is one. For a tool given as a value no source is
    /// listed.
    async fn snapshot_with(&self, name: &str, cx: &ListContext) -> ToolList {
        let own = self.own.get_or_init(|| self.defaults().list(self.direct_tools()));
        if own.get(name).is_some() { own.clone() } else { self.all(cx).await }
    }

    async fn merged(&self, cx: &ListContext, select: impl FnOnce(&mut Merged) -> ToolList) -> ToolList {
        let listings = self.parts.iter().filter_map(|part| part.list(cx));
        let listings = join_all(listings).await;
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        let merge = |_: &Identity| Merged::new(self.direct_tools(), &listings, &self.defaults());
        select(merged.get_or_insert_with(identity(&listings), merge))
    }

    fn defaults(&self) -> Defaults {
        Defaults { label: self.label.clone(), pipeline: self.has_own_pipeline.then(|| self.pipeline.clone()) }
    }

    /// The names of all tools, in order.
    pub async fn names(&self) -> Vec<ToolName> {
        self.all(&ListContext::default()).await.names().cloned().collect()
    }

    /// Returns the tool of a name.
    pub async fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.snapshot_with(name, &ListContext::default()).await.get(name).cloned()
    }

    /// Returns `true` if there is a tool of this name.
    pub async fn contains(&self, name: &str) -> bool {
        self.get(name).await.is_some()
    }

    /// Returns the definition of the tool of a name.
    pub async fn info(&self, name: &str) -> Option<ToolDefinition> {
        self.get(name).await.map(|tool| tool.definition().clone())
    }

    /// Calls a tool as an agent does: the call is validated, repaired, caught, bounded and recorded.
    ///
    /// `arguments` is anything that serialises. A call that has to wait fails here: use [`Pipeline::call`] to see
    /// its pending state.
    ///
    /// # Examples
    ///
    /// See [`Toolset`].
    pub async fn call(&self, name: &str, arguments: impl Serialize) -> ToolResult {
        self.call_with(name, arguments, &ToolContext::default()).await
    }

    /// Calls a tool in a given context.
    pub async fn call_with(&self, name: &str, arguments: impl Serialize, cx: &ToolContext) -> ToolResult {
        let arguments = match serde_json::to_string(&arguments) {
            Ok(arguments) => arguments,
            Err(error) => return ToolResult::failed(cx.call_id(), name, &ToolError::failed(error)),
        };
        let call = ToolCall::new(cx.call_id(), name, arguments);
        let listing = ListContext { state: cx.run().state.clone(), ..ListContext::default() };
        let tools = self.snapshot_with(name, &listing).await;
        self.pipeline.call(&tools, &call, cx).await.into_result()
    }

    /// Calls a tool from synchronous code.
    ///
    /// In a task of an async runtime this fails with an error that names [`call`](Self::call): blocking there could not
    /// end. Where code may block, as in `spawn_blocking`, it works.
    pub fn call_blocking(&self, name: &str, arguments: impl Serialize) -> ToolResult {
        block_on("call", self.call(name, arguments))
            .unwrap_or_else(|error| ToolResult::failed("", name, &error))
    }
}

impl Part {
    /// Lists a part that is not a tool.
    fn list<'a>(&'a self, cx: &'a ListContext) -> Option<impl Future<Output = (String, Listing)> + 'a> {
        if let Self::Tool(_) = self {
            return None;
        }
        Some(async move {
            match self {
                Self::Tool(_) => (String::new(), Ok(ToolList::default())),
                Self::Source(source) => (source.label().to_owned(), source.list(cx).await),
                Self::Set(inner) => (inner.name().to_owned(), Ok(Box::pin(inner.all(cx)).await)),
                Self::Adapted(inner, step) => {
                    let listing = AssertUnwindSafe(Box::pin(step.list(inner, cx))).catch_unwind().await;
                    let listing = listing.unwrap_or_else(|_panic| Err(panicked(inner.name())));
                    (inner.name().to_owned(), listing)
                }
            }
        })
    }
}

/// A toolset is a source itself.
#[async_trait]
impl ToolSource for Toolset {
    fn label(&self) -> &str {
        self.name()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        // The outermost toolset withholds tools without their state: it may still be provided there.
        let all = self.all(cx).await;
        let failures: Vec<_> = all.failed_sources().collect();
        match failures.as_slice() {
            [(_, reason)] if all.is_empty() => Err(SourceError::new(self.name(), *reason)),
            [_, _, ..] if all.is_empty() => {
                let reasons = failures.iter().map(|(label, reason)| format!("{label}: {reason}"));
                Err(SourceError::new(self.name(), reasons.collect::<Vec<_>>().join("; ")))
            }
            _ => Ok(all),
        }
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolset").field("name", &self.name()).field("parts", &self.parts).finish()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => f.debug_tuple("Tool").field(tool.definition().name()).finish(),
            Self::Source(source) => f.debug_tuple("Source").field(&source.label()).finish(),
            Self::Set(inner) => inner.fmt(f),
            Self::Adapted(inner, _) => f.debug_tuple("Adapted").field(inner).finish(),
        }
    }
}
