use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use haft_core::{
    Tool, ToolSource,
    pipeline::unknown_tool_message,
    toolset::{ListContext, SourceError, ToolList, ToolsetError},
};

/// A tool source with methods to add, replace and remove tools while agents run.
///
/// Clones share the tools: add a clone to a toolset, and keep the original to change the tools. An
/// agent lists the tools at each step, so a change takes effect at its next step. Calls in progress
/// are not affected.
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
/// let registry = ToolRegistry::new("plugins");
/// let tools = Toolset::new().with_source(registry.clone());
/// assert!(!tools.contains("echo").await);
/// registry.register(Echo)?;
/// assert!(tools.contains("echo").await);
/// registry.unregister("echo")?;
/// assert!(!tools.contains("echo").await);
/// # Ok::<(), haft_core::toolset::ToolsetError>(())
/// # })?;
/// # Ok::<(), haft_core::toolset::ToolsetError>(())
/// ```
#[derive(Clone)]
pub struct ToolRegistry(Arc<Shared>);

struct Shared {
    label: String,
    entries: Mutex<RegisteredTools>,
}

#[derive(Default)]
struct RegisteredTools {
    tools: Vec<Arc<dyn Tool>>,
    /// The cached snapshot of the tools. `None` after a change, until the tools are listed again.
    list: Option<ToolList>,
}

impl ToolRegistry {
    /// Creates an empty registry. `label` identifies the registry in errors and logs.
    pub fn new(label: impl Into<String>) -> Self {
        Self(Arc::new(Shared { label: label.into(), entries: Mutex::default() }))
    }

    /// Adds `tool` to the registry.
    ///
    /// # Errors
    ///
    /// Fails if the registry already contains a tool with this name, or if the tool has a
    /// [defect](haft_core::ToolDefinition::defect). The registry is then unchanged.
    pub fn register(&self, tool: impl Tool + 'static) -> Result<(), ToolsetError> {
        check_defect(&tool)?;
        let mut entries = self.lock_entries();
        let name = tool.definition().name().clone();
        if entries.position(name.as_str()).is_some() {
            return Err(ToolsetError::AlreadyRegistered { name });
        }
        entries.change_tools().push(Arc::new(tool));
        Ok(())
    }

    /// Replaces the registered tool with the same name as `tool`, and returns the old tool. If no
    /// tool has this name, adds `tool` and returns `None`.
    ///
    /// # Errors
    ///
    /// Fails if the tool has a [defect](haft_core::ToolDefinition::defect). The registry is then
    /// unchanged.
    pub fn replace(&self, tool: impl Tool + 'static) -> Result<Option<Arc<dyn Tool>>, ToolsetError> {
        check_defect(&tool)?;
        let mut entries = self.lock_entries();
        let position = entries.position(tool.definition().name().as_str());
        let tools = entries.change_tools();
        let tool: Arc<dyn Tool> = Arc::new(tool);
        match position.and_then(|position| tools.get_mut(position)) {
            Some(slot) => Ok(Some(std::mem::replace(slot, tool))),
            None => {
                tools.push(tool);
                Ok(None)
            }
        }
    }

    /// Removes and returns the tool named `name`.
    ///
    /// # Errors
    ///
    /// Fails if the registry contains no tool with this name. The error lists up to 30 registered
    /// names.
    pub fn unregister(&self, name: &str) -> Result<Arc<dyn Tool>, ToolsetError> {
        let mut entries = self.lock_entries();
        match entries.position(name) {
            Some(position) => Ok(entries.change_tools().remove(position)),
            None => Err(ToolsetError::UnknownTool(unknown_tool_message(name, &entries.list(&self.0.label)))),
        }
    }

    fn lock_entries(&self) -> MutexGuard<'_, RegisteredTools> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegisteredTools {
    fn position(&self, name: &str) -> Option<usize> {
        self.tools.iter().position(|tool| tool.definition().name() == name)
    }

    /// Returns a mutable reference to the tools, for changes. Discards the cached snapshot, since
    /// it becomes obsolete.
    fn change_tools(&mut self) -> &mut Vec<Arc<dyn Tool>> {
        self.list = None;
        &mut self.tools
    }

    fn list(&mut self, label: &str) -> ToolList {
        let tools = &self.tools;
        let gather = || ToolList::collect(tools.iter().map(|tool| (label, Arc::clone(tool))), Vec::new());
        self.list.get_or_insert_with(gather).clone()
    }
}

fn check_defect(tool: &dyn Tool) -> Result<(), ToolsetError> {
    let definition = tool.definition();
    definition.defect().map_or(Ok(()), |reason| {
        Err(ToolsetError::Defect { name: definition.name().clone(), reason: reason.to_owned() })
    })
}

#[async_trait]
impl ToolSource for ToolRegistry {
    fn label(&self) -> &str {
        &self.0.label
    }

    async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
        Ok(self.lock_entries().list(&self.0.label))
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.lock_entries();
        let names = entries.tools.iter().map(|tool| tool.definition().name());
        f.debug_struct("ToolRegistry")
            .field("label", &self.0.label)
            .field("tools", &names.collect::<Vec<_>>())
            .finish()
    }
}
