//! Tools and sources, gathered for a model.

mod asked;
mod gathered;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use async_trait::async_trait;
use futures::future::join_all;
use serde::Serialize;

pub(crate) use asked::Asked;
use gathered::Gathered;
pub(crate) use gathered::{Identity, gather, identity};

use crate::{
    Deprecation, ListContext, Pipeline, Schema, SourceError, Tool, ToolCall, ToolContext, ToolDefinition,
    ToolError, ToolList, ToolName, ToolResult, ToolSource, ToolSourceExt as _, Tools, blocking,
    pipeline::unknown_tool, recent::Recent,
};

/// Tools from anywhere, offered together. Cheap to clone.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, schemars::{self, JsonSchema}, tool_fn};
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
/// # Ok::<(), haft_core::Failure>(())
/// ```
#[derive(Clone, Default)]
pub struct Toolset {
    /// The tools that were given as values.
    tools: Arc<Vec<Arc<dyn Tool>>>,
    sources: Arc<Vec<Arc<Asked>>>,
    pipeline: Pipeline,
    /// The tools that were given as values, by name.
    own: Arc<OnceLock<ToolList>>,
    answers: Arc<Mutex<Recent<Identity, Gathered>>>,
}

/// What a tool is, for people and programs: as `info` gives it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolInfo {
    /// The name by which models call it.
    pub name: ToolName,
    /// What it does.
    pub description: String,
    /// What it takes.
    pub input_schema: Schema,
    /// What it returns, where that is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Schema>,
    /// Whether it should no longer be used, and what to use in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
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

/// The label of tools that were given as values.
const OWN: &str = "the toolset";

impl Toolset {
    /// Makes an empty toolset.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        Arc::make_mut(&mut self.tools).push(Arc::new(tool));
        self.anew()
    }

    /// Adds a source.
    #[must_use]
    pub fn with_source(mut self, source: impl ToolSource + 'static) -> Self {
        Arc::make_mut(&mut self.sources).push(Arc::new(Asked::new(Arc::new(source))));
        self.anew()
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

    /// Sets how calls are run.
    #[must_use]
    pub fn with_pipeline(mut self, pipeline: Pipeline) -> Self {
        self.pipeline = pipeline;
        self
    }

    /// The same without a memory: clones of the smaller toolset keep theirs.
    fn anew(mut self) -> Self {
        (self.own, self.answers) = Default::default();
        self
    }

    /// How calls are run.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The tools that were given as values, in order.
    pub fn own_tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// Checks the tools that were given as values. An agent does so when it is built.
    ///
    /// # Errors
    ///
    /// Fails when two of them have one name, or one has a [defect](crate::ToolDefinition::defect).
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

    /// A snapshot of the tools on offer. When nothing changed, it is the same as before.
    ///
    /// A source that fails costs its own tools and is reported in the diagnostics. One that takes longer than a second is
    /// waited for no longer: until it answers, what it listed last is offered. A tool is withheld when its name is taken or the state that it asks for is missing in `cx`.
    pub async fn list(&self, cx: &ListContext) -> ToolList {
        self.refreshed(cx, |gathered| gathered.offered_with(&cx.state)).await
    }

    /// A snapshot of all tools, also of those whose state must be given first.
    async fn all(&self, cx: &ListContext) -> ToolList {
        self.refreshed(cx, |gathered| gathered.all()).await
    }

    /// A snapshot that has the tool of this name, if there is one. A tool that was given as a value waits for no
    /// source.
    async fn knowing(&self, name: &str, cx: &ListContext) -> ToolList {
        let own = self.own.get_or_init(|| ToolList::gather(self.own_tools().map(labelled), Vec::new()));
        if own.get(name).is_some() { own.clone() } else { self.all(cx).await }
    }

    async fn refreshed(&self, cx: &ListContext, answer: impl FnOnce(&mut Gathered) -> ToolList) -> ToolList {
        let listings =
            join_all(self.sources.iter().map(async |source| (source.label(), source.list(cx).await))).await;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let gather = |listings| Gathered::new(self.own_tools(), listings);
        answer(answers.get_or_insert_with(identity(&listings), |_| gather(listings)))
    }

    /// The names of all tools, in order.
    pub async fn names(&self) -> Vec<ToolName> {
        self.all(&ListContext::default()).await.names().cloned().collect()
    }

    /// The tool of a name.
    pub async fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.knowing(name, &ListContext::default()).await.get(name).cloned()
    }

    /// Whether there is a tool of a name.
    pub async fn contains(&self, name: &str) -> bool {
        self.get(name).await.is_some()
    }

    /// What the tool of a name is.
    pub async fn info(&self, name: &str) -> Option<ToolInfo> {
        self.get(name).await.map(|tool| ToolInfo::of(tool.definition()))
    }

    /// The tools of these names, in the order of this toolset; it follows later changes of the sources.
    ///
    /// # Errors
    ///
    /// Fails when a name is unknown; the error lists the known ones.
    pub async fn subset<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, ToolsetError> {
        self.selected(names, true).await
    }

    /// All tools but those of these names.
    ///
    /// # Errors
    ///
    /// Fails when a name is unknown; the error lists the known ones.
    pub async fn without<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, ToolsetError> {
        self.selected(names, false).await
    }

    async fn selected<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
        keep: bool,
    ) -> Result<Self, ToolsetError> {
        let all = self.all(&ListContext::default()).await;
        let names = names
            .into_iter()
            .map(|name| match all.get(name.as_ref()) {
                Some(tool) => Ok(tool.definition().name().clone()),
                None => Err(ToolsetError::Unknown(unknown_tool(name.as_ref(), &all))),
            })
            .collect::<Result<_, _>>()?;
        Ok(self.select(Arc::new(Selection { names, keep })))
    }

    fn select(&self, selection: Arc<Selection>) -> Self {
        let tools = self.own_tools().filter(|tool| selection.has(tool.definition().name())).cloned();
        let sources = self.sources.iter().map(|source| {
            let selection = Arc::clone(&selection);
            let selected = Arc::clone(&source.source).filtered(move |it| selection.has(it.name()));
            Arc::new(Asked::new(Arc::new(selected)))
        });
        let (tools, sources) = (Arc::new(tools.collect()), Arc::new(sources.collect()));
        Self { tools, sources, pipeline: self.pipeline.clone(), ..Self::default() }
    }

    /// Calls a tool, as an agent would: the call is validated, repaired, caught, bounded and recorded.
    ///
    /// `arguments` is anything that serialises. A call that must wait for somebody is a failure here: use
    /// [`Pipeline::call`] to see what it waits for.
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
        let tools = self.knowing(name, &listing).await;
        self.pipeline.call(&tools, &call, cx).await.into_result()
    }

    /// Calls a tool from synchronous code.
    ///
    /// In a task of an async runtime this is a failure that names [`call`](Self::call): blocking there could not end. Where
    /// code may block, as in `spawn_blocking`, it works.
    pub fn call_blocking(&self, name: &str, arguments: impl Serialize) -> ToolResult {
        blocking::block_on("call", self.call(name, arguments))
            .unwrap_or_else(|error| ToolResult::failed("", name, &error))
    }
}

/// A tool that was given as a value, with the label of its source.
fn labelled(tool: &Arc<dyn Tool>) -> (&'static str, Arc<dyn Tool>) {
    (OWN, Arc::clone(tool))
}

/// A toolset is a source in its turn.
#[async_trait]
impl ToolSource for Toolset {
    fn label(&self) -> &str {
        OWN
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        // Who offers them to a model withholds what lacks its state: here it may still be given.
        Ok(self.all(cx).await)
    }
}

impl ToolInfo {
    /// Describes a tool.
    pub fn of(definition: &ToolDefinition) -> Self {
        Self {
            name: definition.name().clone(),
            description: definition.description().to_owned(),
            input_schema: definition.input_schema().clone(),
            output_schema: definition.output_schema().cloned(),
            deprecated: definition.deprecated().cloned(),
        }
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolset")
            .field(
                "tools",
                &self.own_tools().map(|tool| tool.definition().name().clone()).collect::<Vec<_>>(),
            )
            .field("sources", &self.sources.iter().map(|source| source.label()).collect::<Vec<_>>())
            .finish()
    }
}

/// Names, and whether they are those to keep or those to leave out.
struct Selection {
    names: BTreeSet<ToolName>,
    keep: bool,
}

impl Selection {
    fn has(&self, name: &ToolName) -> bool {
        self.names.contains(name) == self.keep
    }
}
