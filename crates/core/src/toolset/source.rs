//! Sources of tools.

use async_trait::async_trait;

use crate::{call::BoxError, pipeline::ToolList, tool::State};

/// A source of tools: a server, a registry, a list.
///
/// A source returns tools and never dispatches by name. It owns its connection: dropping the source closes the
/// connection, and tools that are still held fail with a typed error.
///
/// # Examples
///
/// A source with one tool per file of a folder, here as a list of names:
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
///         let definition = |name: &&str| ToolDefinition::new(ToolName::from_foreign(name), Schema::object());
///         let note = |name: &&str| {
///             let text = format!("the note {name}");
///             DynamicTool::new(definition(name), move |_, _| std::future::ready(text.clone()))
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
    /// The name of the source in errors and logs, such as `mcp:files`.
    fn label(&self) -> &str;

    /// Returns a snapshot of the current tools.
    ///
    /// Called before each model request. While nothing changes, return the same snapshot (the same
    /// [`ToolList::id`]) without any work.
    ///
    /// # Errors
    ///
    /// Fails when the source has no tools to offer and can say why. Other sources are not affected.
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

/// For whom tools are listed. Most sources ignore it.
#[derive(Clone, Debug, Default)]
pub struct ListContext {
    /// The step of the run, from 0.
    pub step: u32,
    /// The run; empty outside a run.
    pub run_id: String,
    /// Values of the host program.
    pub state: State,
}

/// Why a source has no tools to offer.
#[derive(Debug, thiserror::Error)]
#[error("tool source {label}: {reason}")]
pub struct SourceError {
    /// The source's label.
    pub label: String,
    /// What went wrong, and what to do.
    pub reason: String,
    /// The error below.
    #[source]
    pub source: Option<BoxError>,
}

impl SourceError {
    /// Makes an error without a cause below it.
    pub fn new(label: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { label: label.into(), reason: reason.into(), source: None }
    }
}
