//! The model request that a `prepare` hook can change.

use std::{collections::BTreeSet, fmt, sync::Arc};

use haft_core::{
    ChatModel, ToolDefinition,
    model::{ChatSettings, ToolChoice},
    toolset::ToolList,
};

use crate::Dialect;

/// The next model request. A [`prepare`](crate::ReactAgentBuilder::prepare) hook can change it.
#[derive(Clone)]
#[non_exhaustive]
pub struct StepRequest {
    /// The tool choice. It is ignored if the model must answer without a tool call.
    pub tool_choice: ToolChoice,
    /// The settings of the model request, such as the temperature.
    pub settings: ChatSettings,
    /// Paragraphs that are appended to the instructions of this model request only.
    pub instructions: Vec<String>,
    /// The [id](ToolList::snapshot_id) of the tool list.
    list: u64,
    /// The definition of each tool in the tool list, in the same order. `None` if the tool is
    /// hidden.
    tools: Vec<Option<ToolDefinition>>,
    pub(super) model: Option<Arc<dyn ChatModel>>,
    pub(super) dialect: Option<Arc<dyn Dialect>>,
}

impl StepRequest {
    /// Creates a request with all tools of a tool list. This is useful in tests of hooks. A hook
    /// must return the request that it receives, with its changes. If it returns a request for
    /// another tool list, the run ends with an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{tool, Toolset, toolset::ListContext};
    /// use haft_react::extension::StepRequest;
    ///
    /// /// Deletes a file.
    /// #[tool]
    /// fn delete(file: String) {}
    ///
    /// fn harmless(mut request: StepRequest) -> StepRequest {
    ///     request.hide_tool("delete");
    ///     request
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let tools = Toolset::new().with_tool(Delete).list(&ListContext::default()).await;
    /// let request = harmless(StepRequest::new(&tools, Default::default(), Default::default()));
    /// assert_eq!(request.tools().count(), 0);
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(list: &ToolList, tool_choice: ToolChoice, settings: ChatSettings) -> Self {
        let tools = list.tools().iter().map(|tool| Some(tool.definition().clone())).collect();
        let list = list.snapshot_id();
        Self { tool_choice, settings, instructions: Vec::new(), list, tools, model: None, dialect: None }
    }

    /// Returns the definitions of the tools in the request. Hidden tools are not included.
    pub fn tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.iter().flatten()
    }

    /// Hides the tool named `name` from the model. If the model calls it nevertheless, the call
    /// fails like a call to an unknown tool.
    pub fn hide_tool(&mut self, name: &str) {
        self.retain_tools(|tool| *tool.name() != *name);
    }

    /// Hides the tools for which `keep` returns `false`. The model does not receive their
    /// definitions.
    pub fn retain_tools(&mut self, mut keep: impl FnMut(&ToolDefinition) -> bool) {
        for tool in &mut self.tools {
            tool.take_if(|tool| !keep(tool));
        }
    }

    /// Changes the definition of the tool named `name`. Does nothing if there is no such tool.
    ///
    /// Calls are validated against the new definition. If two tools then have the same name, the
    /// second one in the tool list is hidden. If a hook renames a hand-off tool or gives its name
    /// to another tool, the run ends with an error.
    pub fn change_tool(&mut self, name: &str, change: impl FnOnce(ToolDefinition) -> ToolDefinition) {
        if let Some(tool) = self.tools.iter_mut().flatten().find(|tool| *tool.name() == *name) {
            *tool = change(tool.clone());
        }
    }

    /// Sends this request to `model` instead of the model of the agent, for example to a cheap
    /// model for simple steps.
    ///
    /// The request uses the [default dialect](crate::dialect::dialect_for) of `model`, unless
    /// [`use_dialect`](Self::use_dialect) sets another dialect. The cost is computed with the
    /// [prices](crate::ReactAgentBuilder::prices) of the agent. The next step uses the model of the
    /// agent again.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Agent;
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let (large, small) = (ScriptedModel::new(), ScriptedModel::new().reply_text("Hello."));
    /// let agent = ReactAgent::builder(large)
    ///     .prepare(move |mut request, cx| {
    ///         let small = small.clone();
    ///         async move {
    ///             if cx.step == 0 {
    ///                 request.use_model(small);
    ///             }
    ///             Ok(request)
    ///         }
    ///     })
    ///     .build()?;
    /// assert_eq!(agent.run("Hi").await?.text()?, "Hello.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn use_model(&mut self, model: impl ChatModel + 'static) {
        self.model = Some(Arc::new(model));
    }

    /// Sets the dialect of this request. Later requests use the dialect of the agent again.
    pub fn use_dialect(&mut self, dialect: impl Dialect + 'static) {
        self.dialect = Some(Arc::new(dialect));
    }

    /// Checks that the request was created from the tool list `all`.
    pub(super) fn check_tool_list(&self, all: &ToolList) -> Result<(), String> {
        if self.list == all.snapshot_id() {
            return Ok(());
        }
        Err("the returned request is for another tool list: change the request that the hook receives"
            .to_owned())
    }

    /// Checks that no hook has renamed a tool named in `fixed`, or has given a name in `fixed` to
    /// another tool. `all` is the original tool list. The error text names the tool.
    pub(super) fn check_handoff_names(&self, all: &ToolList, fixed: &BTreeSet<String>) -> Result<(), String> {
        for (tool, prepared) in all.tools().iter().zip(&self.tools) {
            let name = tool.definition().name();
            let Some(prepared) = prepared.as_ref().map(ToolDefinition::name).filter(|it| *it != name) else {
                continue;
            };
            if fixed.contains(name.as_str()) {
                return Err(format!("the hand-off tool {name:?} cannot be renamed"));
            }
            if fixed.contains(prepared.as_str()) {
                return Err(format!(
                    "the tool {name:?} cannot be renamed to {prepared:?}, the name of a hand-off tool"
                ));
            }
        }
        Ok(())
    }

    /// Returns `all`, the original tool list, with the changes of the hooks.
    pub(super) fn prepared_tools(&self, all: &ToolList) -> ToolList {
        all.redefined(self.tools.clone())
    }
}

impl fmt::Debug for StepRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepRequest")
            .field("tool_choice", &self.tool_choice)
            .field("settings", &self.settings)
            .field("instructions", &self.instructions)
            .field("tools", &self.tools)
            .field("model", &self.model.as_ref().map(|model| &model.profile().name))
            .field("dialect", &self.dialect.as_deref().map(Dialect::name))
            .finish()
    }
}
