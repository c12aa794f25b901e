use std::{
    fmt, ptr,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use langchain_rust::tools::Tool as ForeignTool;
use serde_json::Value;

use haft_core::{
    ToolSource,
    toolset::{ListContext, SourceError, ToolList},
};

use crate::LangChainTool;

/// A changing list of LangChain tools, as a haft tool source.
///
/// The list is read at each listing, so a change is visible in the next step of an agent. If the
/// list has the same `Arc`s with equal names, descriptions and parameters, the listing returns the
/// same snapshot.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, RwLock};
///
/// use haft_core::Toolset;
/// use haft_langchain::{LangChainSource, langchain_rust::tools::{Calculator, Tool}};
///
/// # futures::executor::block_on(async {
/// let list: Arc<RwLock<Vec<Arc<dyn Tool>>>> = Arc::default();
/// let shared = Arc::clone(&list);
/// let source = LangChainSource::new("langchain", move || shared.read().unwrap().clone());
/// let tools = Toolset::new().with_source(source);
///
/// assert!(tools.names().await.is_empty());
/// list.write().unwrap().push(Arc::new(Calculator::new()));
/// assert_eq!(tools.names().await, ["calculator"]);
/// # });
/// ```
pub struct LangChainSource {
    label: String,
    list: Box<dyn Fn() -> Vec<Arc<dyn ForeignTool>> + Send + Sync>,
    last: Mutex<Option<Listing>>,
}

/// A listing with its snapshot.
struct Listing {
    entries: Vec<Entry>,
    snapshot: ToolList,
}

/// A listed tool with the parts of its definition.
struct Entry {
    tool: Arc<dyn ForeignTool>,
    name: String,
    description: String,
    parameters: Value,
}

impl LangChainSource {
    /// Creates a source that calls `list` at each listing. `list` must return quickly: it is called
    /// before each model request. `label` identifies the source in diagnostics.
    pub fn new(
        label: impl Into<String>,
        list: impl Fn() -> Vec<Arc<dyn ForeignTool>> + Send + Sync + 'static,
    ) -> Self {
        Self { label: label.into(), list: Box::new(list), last: Mutex::new(None) }
    }
}

impl Entry {
    fn new(tool: Arc<dyn ForeignTool>) -> Self {
        let (name, description, parameters) = (tool.name(), tool.description(), tool.parameters());
        Self { tool, name, description, parameters }
    }
}

/// Compares the tools by address, and the sources of their definitions by value.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.tool), Arc::as_ptr(&other.tool))
            && (&self.name, &self.description) == (&other.name, &other.description)
            && self.parameters == other.parameters
    }
}

#[async_trait]
impl ToolSource for LangChainSource {
    fn label(&self) -> &str {
        &self.label
    }

    async fn tools(&self, _cx: &ListContext) -> Result<ToolList, SourceError> {
        let entries: Vec<_> = (self.list)().into_iter().map(Entry::new).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let listing = match last.take() {
            Some(listing) if listing.entries == entries => listing,
            _ => {
                let tools = entries.iter().map(|entry| LangChainTool::new(Arc::clone(&entry.tool)));
                let snapshot = ToolList::new(&self.label, tools);
                Listing { entries, snapshot }
            }
        };
        Ok(last.insert(listing).snapshot.clone())
    }
}

impl fmt::Debug for LangChainSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LangChainSource").field("label", &self.label).finish_non_exhaustive()
    }
}
