use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{
    Tool, ToolDefinition, ToolExt as _,
    model::{ChatSettings, ToolChoice},
    toolset::ToolList,
};

/// What the model is about to be asked, for [`prepare`](crate::ReactAgentBuilder::prepare) to change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepRequest {
    /// Whether the model may, must or must not call. A model that must answer now is not made to call.
    pub tool_choice: ToolChoice,
    /// How the reply is made.
    pub settings: ChatSettings,
    /// What the model is told at this step behind the instructions, each a paragraph.
    pub instructions: Vec<String>,
    /// What became of each tool of the list; `None` is hidden.
    tools: Vec<Option<ToolDefinition>>,
}

impl StepRequest {
    /// Makes one of all tools of a list, as an agent does, or a test of what it calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{tool, Toolset, toolset::ListContext};
    /// use haft_react::StepRequest;
    ///
    /// /// Deletes a file.
    /// #[tool]
    /// fn delete(file: String) {}
    ///
    /// fn harmless(mut request: StepRequest) -> StepRequest {
    ///     request.hide("delete");
    ///     request
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let tools = Toolset::new().with(Delete).list(&ListContext::default()).await;
    /// let request = harmless(StepRequest::new(&tools, Default::default(), Default::default()));
    /// assert_eq!(request.tools().count(), 0);
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(tools: &ToolList, tool_choice: ToolChoice, settings: ChatSettings) -> Self {
        let tools = tools.tools().iter().map(|tool| Some(tool.definition().clone())).collect();
        Self { tool_choice, settings, instructions: Vec::new(), tools }
    }

    /// The tools that are offered.
    pub fn tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.iter().flatten()
    }

    /// Hides the tool of this name, if it is offered: a model that calls it is told that there is none.
    pub fn hide(&mut self, name: &str) {
        self.retain(|tool| *tool.name() != *name);
    }

    /// Hides all tools but these.
    pub fn retain(&mut self, mut keep: impl FnMut(&ToolDefinition) -> bool) {
        for tool in &mut self.tools {
            tool.take_if(|tool| !keep(tool));
        }
    }

    /// Changes the definition of the tool of this name, if it is offered: calls are held against the changed one. A name that
    /// another tool has hides it.
    pub fn change(&mut self, name: &str, change: impl FnOnce(ToolDefinition) -> ToolDefinition) {
        if let Some(tool) = self.tools.iter_mut().flatten().find(|tool| *tool.name() == *name) {
            *tool = change(tool.clone());
        }
    }

    /// The tools that are offered, with what they are called by.
    pub(super) fn list(&self, all: &ToolList, kept: &PreparedLists) -> ToolList {
        let is_same = |(tool, prepared): (&Arc<dyn Tool>, &Option<ToolDefinition>)| {
            prepared.as_ref() == Some(tool.definition())
        };
        if all.tools().iter().zip(&self.tools).all(is_same) {
            return all.clone();
        }
        kept.get(all, &self.tools)
    }
}

/// How many lists are remembered: enough for the kinds of steps that one agent has.
const REMEMBERED: usize = 8;

/// The latest lists by what they were made of: a list that is the same keeps what adapters made of it.
#[derive(Default)]
pub(super) struct PreparedLists(Mutex<VecDeque<PreparedList>>);

/// The list that was prepared, what became of each tool of it, and the list of that.
type PreparedList = (u64, Vec<Option<ToolDefinition>>, ToolList);

impl PreparedLists {
    fn get(&self, all: &ToolList, prepared: &[Option<ToolDefinition>]) -> ToolList {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lists.iter().position(|(id, tools, _)| *id == all.id() && tools == prepared);
        let entry = place.and_then(|place| lists.remove(place));
        let entry = entry.unwrap_or_else(|| (all.id(), prepared.to_vec(), gathered(all, prepared)));
        let list = entry.2.clone();
        lists.truncate(REMEMBERED - 1);
        lists.push_front(entry);
        list
    }
}

fn gathered(all: &ToolList, prepared: &[Option<ToolDefinition>]) -> ToolList {
    let kept = all.tools().iter().zip(prepared).filter_map(|(tool, prepared)| {
        let prepared = prepared.as_ref()?;
        let tool = Arc::clone(tool);
        let is_same = tool.definition() == prepared;
        let tool = if is_same { tool } else { Arc::new(tool.with_definition(|_| prepared.clone())) };
        Some(("prepare", tool))
    });
    ToolList::gather(kept, all.diagnostics().to_vec())
}
