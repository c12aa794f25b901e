//! Tools and sources, gathered for a model.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::future::join_all;
use serde::Serialize;

use crate::{
    Diagnostic, ListContext, Pipeline, Schema, SourceError, State, StateType, Tool, ToolCall, ToolContext,
    ToolDefinition, ToolError, ToolList, ToolName, ToolResult, ToolSource, blocking, pipeline::unknown_tool,
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
    members: Arc<Vec<Member>>,
    pipeline: Pipeline,
    gathered: Arc<Mutex<Option<Gathered>>>,
}

#[derive(Clone)]
enum Member {
    Tool(Arc<dyn Tool>),
    Source(Arc<dyn ToolSource>),
}

/// The last answer, and what it was made of.
struct Gathered {
    of: Vec<Result<u64, String>>,
    /// All that is offered, whatever the host gives.
    all: ToolList,
    /// The types of state that the tools ask for.
    asked: Vec<StateType>,
    /// What was offered to a host that did not give all of them.
    without_state: Option<(Vec<StateType>, ToolList)>,
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
}

/// Why a toolset cannot be used.
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
    pub fn with(self, tool: impl Tool + 'static) -> Self {
        self.with_member(Member::Tool(Arc::new(tool)))
    }

    /// Adds a source.
    #[must_use]
    pub fn with_source(self, source: impl ToolSource + 'static) -> Self {
        self.with_member(Member::Source(Arc::new(source)))
    }

    /// Adds tools, such as those of an impl block.
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

    fn with_member(mut self, member: Member) -> Self {
        Arc::make_mut(&mut self.members).push(member);
        // Clones of the smaller toolset keep their own memory.
        self.gathered = Arc::default();
        self
    }

    /// How calls are run.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    fn own_tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.members.iter().filter_map(|member| match member {
            Member::Tool(tool) => Some(tool),
            Member::Source(_) => None,
        })
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
    /// A source that fails costs its own tools and is reported in the diagnostics. A tool is withheld when its
    /// name is taken or the state that it asks for is missing in `cx`.
    pub async fn list(&self, cx: &ListContext) -> ToolList {
        self.refreshed(cx, |gathered| gathered.offered_with(&cx.state)).await
    }

    /// A snapshot of all tools, also of those whose state must be given first.
    async fn all(&self) -> ToolList {
        self.refreshed(&ListContext::default(), |gathered| gathered.all.clone()).await
    }

    async fn refreshed(&self, cx: &ListContext, answer: impl FnOnce(&mut Gathered) -> ToolList) -> ToolList {
        let snapshots =
            join_all(self.sources().map(|source| async move { (source, source.tools(cx).await) })).await;
        let of: Vec<_> = snapshots.iter().map(|(_, snapshot)| identity(snapshot)).collect();
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *gathered {
            Some(last) if last.of == of => answer(last),
            outdated => answer(outdated.insert(self.gather(of, snapshots))),
        }
    }

    fn gather(&self, of: Vec<Result<u64, String>>, snapshots: Vec<(&dyn ToolSource, Listing)>) -> Gathered {
        // A tool given as a value has its name whatever a source lists.
        let mut tools: Vec<_> = self.own_tools().map(|tool| (OWN, Arc::clone(tool))).collect();
        let mut diagnostics = Vec::new();
        for (source, snapshot) in snapshots {
            match snapshot {
                Ok(list) => {
                    diagnostics.extend_from_slice(list.diagnostics());
                    tools.extend(list.tools().iter().map(|tool| (source.label(), Arc::clone(tool))));
                }
                Err(error) => diagnostics.push(Diagnostic::SourceFailed {
                    source_label: source.label().to_owned(),
                    reason: error.reason,
                }),
            }
        }
        let all = ToolList::gather(tools, diagnostics);
        let asked = all.tools().iter().flat_map(|tool| tool.definition().state()).copied().collect();
        Gathered { of, all, asked, without_state: None }
    }

    fn sources(&self) -> impl Iterator<Item = &dyn ToolSource> {
        self.members.iter().filter_map(|member| match member {
            Member::Tool(_) => None,
            Member::Source(source) => Some(&**source),
        })
    }

    /// The names of all tools, in order.
    pub async fn names(&self) -> Vec<ToolName> {
        self.all().await.names().cloned().collect()
    }

    /// The tool of a name.
    pub async fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.all().await.get(name).cloned()
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
        let all = self.all().await;
        let names = names
            .into_iter()
            .map(|name| match all.get(name.as_ref()) {
                Some(tool) => Ok(tool.definition().name().clone()),
                None => Err(ToolsetError::Unknown(unknown_tool(name.as_ref(), &all))),
            })
            .collect::<Result<_, _>>()?;
        let selected = Selected { of: self.clone(), names, keep, kept: Mutex::default() };
        Ok(Self::new().with_pipeline(self.pipeline.clone()).with_source(selected))
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
        self.pipeline.call(&self.all().await, &call, cx).await.into_result()
    }

    /// Calls a tool from synchronous code.
    ///
    /// Inside an async runtime this is a failure that names [`call`](Self::call): blocking there could not end.
    pub fn call_blocking(&self, name: &str, arguments: impl Serialize) -> ToolResult {
        blocking::block_on("call", self.call(name, arguments))
            .unwrap_or_else(|error| ToolResult::failed("", name, &error))
    }
}

type Listing = Result<ToolList, SourceError>;

/// What tells one answer of a source from another.
fn identity(snapshot: &Listing) -> Result<u64, String> {
    match snapshot {
        Ok(list) => Ok(list.id()),
        Err(error) => Err(error.reason.clone()),
    }
}

impl Gathered {
    fn offered_with(&mut self, state: &State) -> ToolList {
        let missing: Vec<_> = state.missing(&self.asked).copied().collect();
        if missing.is_empty() {
            return self.all.clone();
        }
        match &self.without_state {
            Some((of, list)) if *of == missing => list.clone(),
            _ => {
                let list = withhold(&self.all, &missing);
                self.without_state = Some((missing, list.clone()));
                list
            }
        }
    }
}

fn withhold(all: &ToolList, missing: &[StateType]) -> ToolList {
    let mut diagnostics = all.diagnostics().to_vec();
    let tools = all.tools().iter().filter(|tool| {
        let definition = tool.definition();
        let lacking = definition.state().iter().find(|asked| missing.contains(asked));
        if let Some(lacking) = lacking {
            diagnostics.push(Diagnostic::Quarantined {
                tool: definition.name().to_string(),
                source_label: OWN.to_owned(),
                reason: format!("the host program gives no state of type {}", lacking.name()),
            });
        }
        lacking.is_none()
    });
    let tools: Vec<_> = tools.map(|tool| (OWN, Arc::clone(tool))).collect();
    ToolList::gather(tools, diagnostics)
}

/// A toolset is a source in its turn.
#[async_trait]
impl ToolSource for Toolset {
    fn label(&self) -> &str {
        OWN
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        Ok(self.list(cx).await)
    }
}

/// Some tools of a toolset, by name.
struct Selected {
    of: Toolset,
    names: BTreeSet<ToolName>,
    keep: bool,
    /// The last answer, and the id of the snapshot that it was made of.
    kept: Mutex<Option<(u64, ToolList)>>,
}

#[async_trait]
impl ToolSource for Selected {
    fn label(&self) -> &str {
        OWN
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.of.list(cx).await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, list)) = &*kept
            && *of == all.id()
        {
            return Ok(list.clone());
        }
        let selected =
            all.tools().iter().filter(|tool| self.names.contains(tool.definition().name()) == self.keep);
        let list = ToolList::gather(selected.map(|tool| (OWN, Arc::clone(tool))), all.diagnostics().to_vec());
        *kept = Some((all.id(), list.clone()));
        Ok(list)
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
            .field("sources", &self.sources().map(ToolSource::label).collect::<Vec<_>>())
            .finish()
    }
}
