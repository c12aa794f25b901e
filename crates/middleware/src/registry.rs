use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use haft_core::{
    Tool, ToolSource,
    pipeline::unknown_tool,
    toolset::{ListContext, SourceError, ToolList, ToolsetError},
};

/// Tools that may come and go while agents run. Clones are the same registry: one goes into the toolset, one stays with
/// whoever changes it.
///
/// A change is seen when tools are listed next: by an agent, at its next step. A call that is under way goes on, with the
/// tool that it found.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, tool};
/// use haft_middleware::ToolRegistry;
///
/// /// Tells what it was told.
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
    registered: Mutex<Registered>,
}

#[derive(Default)]
struct Registered {
    tools: Vec<Arc<dyn Tool>>,
    /// The snapshot of them, once somebody asked.
    list: Option<ToolList>,
}

impl ToolRegistry {
    /// Makes a registry without tools. The label names it in errors and logs.
    pub fn new(label: impl Into<String>) -> Self {
        Self(Arc::new(Shared { label: label.into(), registered: Mutex::default() }))
    }

    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// Fails when there is a tool of its name, or it has a [defect](haft_core::ToolDefinition::defect). Nothing changes then.
    pub fn register(&self, tool: impl Tool + 'static) -> Result<(), ToolsetError> {
        sound(&tool)?;
        let mut registered = self.registered();
        let name = tool.definition().name().clone();
        if registered.position(name.as_str()).is_some() {
            return Err(ToolsetError::Registered { name });
        }
        registered.change().push(Arc::new(tool));
        Ok(())
    }

    /// Puts a tool in the place of the one of its name, which is returned; adds it if there is none.
    ///
    /// # Errors
    ///
    /// Fails when it has a [defect](haft_core::ToolDefinition::defect). Nothing changes then.
    pub fn replace(&self, tool: impl Tool + 'static) -> Result<Option<Arc<dyn Tool>>, ToolsetError> {
        sound(&tool)?;
        let mut registered = self.registered();
        let position = registered.position(tool.definition().name().as_str());
        let tools = registered.change();
        let tool: Arc<dyn Tool> = Arc::new(tool);
        match position.and_then(|position| tools.get_mut(position)) {
            Some(place) => Ok(Some(std::mem::replace(place, tool))),
            None => {
                tools.push(tool);
                Ok(None)
            }
        }
    }

    /// Takes a tool away, and returns it.
    ///
    /// # Errors
    ///
    /// Fails when there is no tool of this name; the error lists those that there are.
    pub fn unregister(&self, name: &str) -> Result<Arc<dyn Tool>, ToolsetError> {
        let mut registered = self.registered();
        match registered.position(name) {
            Some(position) => Ok(registered.change().remove(position)),
            None => Err(ToolsetError::Unknown(unknown_tool(name, &registered.list(&self.0.label)))),
        }
    }

    fn registered(&self) -> MutexGuard<'_, Registered> {
        self.0.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    fn position(&self, name: &str) -> Option<usize> {
        self.tools.iter().position(|tool| tool.definition().name() == name)
    }

    /// The tools, for a change of them.
    fn change(&mut self) -> &mut Vec<Arc<dyn Tool>> {
        self.list = None;
        &mut self.tools
    }

    fn list(&mut self, label: &str) -> ToolList {
        let tools = &self.tools;
        let gather = || ToolList::gather(tools.iter().map(|tool| (label, Arc::clone(tool))), Vec::new());
        self.list.get_or_insert_with(gather).clone()
    }
}

fn sound(tool: &dyn Tool) -> Result<(), ToolsetError> {
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
        Ok(self.registered().list(&self.0.label))
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registered = self.registered();
        let names = registered.tools.iter().map(|tool| tool.definition().name());
        f.debug_struct("ToolRegistry")
            .field("label", &self.0.label)
            .field("tools", &names.collect::<Vec<_>>())
            .finish()
    }
}
