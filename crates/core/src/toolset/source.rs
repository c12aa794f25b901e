use async_trait::async_trait;

use crate::{call::BoxError, pipeline::ToolList, tool::HostState};

/// A source of tools, for example a server or a registry.
///
/// A listing returns the tools themselves, and callers call these tools directly, not through the
/// source. A source owns its connection, if any: dropping the source closes the connection, and
/// later calls to its tools fail.
///
/// # Examples
///
/// A source with one tool for each note in a fixed list:
///
/// ```
/// use haft_core::{
///     Schema, ToolDefinition, ToolName, ToolSource, Toolset,
///     export::async_trait,
///     tool::DynamicTool,
///     toolset::{ListContext, SourceError, ToolList},
/// };
///
/// struct Notes(ToolList);
///
/// impl Notes {
///     fn new(names: &[&str]) -> Self {
///         let note = |name: &&str| {
///             let text = format!("the note {name}");
///             let name = ToolName::sanitize(name);
///             let definition = ToolDefinition::new(name, Schema::object());
///             DynamicTool::new(definition, move |_, _| std::future::ready(text.clone()))
///         };
///         // The same snapshot is returned at each listing, so it is built once.
///         Self(ToolList::new("notes", names.iter().map(note)))
///     }
/// }
///
/// #[async_trait]
/// impl ToolSource for Notes {
///     fn label(&self) -> &str {
///         "notes"
///     }
///
///     async fn tools(&self, _cx: &ListContext) -> Result<ToolList, SourceError> {
///         Ok(self.0.clone())
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let tools = Toolset::new().with_source(Notes::new(&["todo", "ideas"]));
/// assert_eq!(tools.names().await, ["todo", "ideas"]);
/// # });
/// ```
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Returns the name of the source for errors and logs, for example `mcp:files`.
    fn label(&self) -> &str;

    /// Returns a snapshot of the current tools.
    ///
    /// This method is called before each model request, so it should be fast. If nothing has
    /// changed, return a clone of the previous snapshot, which has the same
    /// [`ToolList::snapshot_id`].
    ///
    /// # Errors
    ///
    /// Fails if the tools cannot be listed. The other sources of a toolset are not affected.
    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError>;
}

#[async_trait]
impl<S: ToolSource + ?Sized> ToolSource for std::sync::Arc<S> {
    fn label(&self) -> &str {
        S::label(self)
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        S::tools(self, cx).await
    }
}

/// The context of a listing: the run, its step, and the host state. Most sources ignore the
/// context.
#[derive(Clone, Debug, Default)]
pub struct ListContext {
    /// The number of the current step of the run, counted from 0.
    pub step: u32,
    /// The id of the run. Empty outside a run.
    pub run_id: String,
    /// The host state that is available to the tools.
    pub state: HostState,
}

/// The error of a source whose tools could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("tool source {label}: {reason}")]
pub struct SourceError {
    /// The label of the source.
    pub label: String,
    /// A description of the problem, with a remedy if one is known.
    pub reason: String,
    /// The underlying error, if any.
    #[source]
    pub source: Option<BoxError>,
}

impl SourceError {
    /// Creates an error without an underlying error.
    pub fn new(label: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { label: label.into(), reason: reason.into(), source: None }
    }
}
