//! The model request that a hook can change before it is sent.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{
    ChatModel, Message, ToolDefinition, ToolExt as _,
    call::BoxError,
    message::TranscriptView,
    model::{ChatSettings, ToolChoice},
    toolset::ToolList,
};

use crate::Dialect;

/// The changed definitions of tools, by the names in the original tool list. `None` hides the tool.
type Changes = BTreeMap<String, Option<ToolDefinition>>;

/// The next model request, which a [hook](super::Hook::before_request) can change.
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestDraft {
    /// The messages of the conversation that are sent. Changes do not affect the transcript. Each
    /// call must stay together with its result.
    pub messages: TranscriptView,
    /// The tool choice. It is ignored if the model must answer without a tool call.
    pub tool_choice: ToolChoice,
    /// The settings of the model request, such as the temperature.
    pub settings: ChatSettings,
    /// Paragraphs that are appended to the instructions of this model request only.
    pub instructions: Vec<String>,
    list: ToolList,
    changes: Changes,
    pub(crate) model: Option<Arc<dyn ChatModel>>,
    pub(crate) dialect: Option<Arc<dyn Dialect>>,
}

impl RequestDraft {
    /// Creates a request with all tools of a tool list and without messages. This is useful in
    /// tests of hooks. A hook must return the request that it receives, with its changes.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{tool, Toolset, toolset::ListContext};
    /// use haft_react::hook::RequestDraft;
    ///
    /// /// Deletes a file.
    /// #[tool]
    /// fn delete(file: String) {}
    ///
    /// fn harmless(mut request: RequestDraft) -> RequestDraft {
    ///     request.hide_tool("delete");
    ///     request
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let tools = Toolset::new().with_tool(Delete).list(&ListContext::default()).await;
    /// let request = harmless(RequestDraft::new(&tools, Default::default(), Default::default()));
    /// assert_eq!(request.tools().count(), 0);
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(list: &ToolList, tool_choice: ToolChoice, settings: ChatSettings) -> Self {
        Self {
            messages: TranscriptView::default(),
            tool_choice,
            settings,
            instructions: Vec::new(),
            list: list.clone(),
            changes: Changes::new(),
            model: None,
            dialect: None,
        }
    }

    /// Returns the definitions of the tools in the request. Hidden tools are not included.
    pub fn tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.list.tools().iter().filter_map(|tool| {
            let definition = tool.definition();
            match self.changes.get(definition.name().as_str()) {
                Some(changed) => changed.as_ref(),
                None => Some(definition),
            }
        })
    }

    /// Hides the tool named `name` from the model. If the model calls it nevertheless, the call
    /// fails like a call to an unknown tool.
    pub fn hide_tool(&mut self, name: &str) {
        if let Some(original) = self.original_name(name) {
            self.changes.insert(original, None);
        }
    }

    /// Hides the tools for which `keep` returns `false`. The model does not receive their
    /// definitions.
    pub fn retain_tools(&mut self, mut keep: impl FnMut(&ToolDefinition) -> bool) {
        let hidden: Vec<_> =
            self.tools().filter(|tool| !keep(tool)).map(|tool| tool.name().to_string()).collect();
        hidden.iter().for_each(|name| self.hide_tool(name));
    }

    /// Changes the definition of the tool named `name`. Does nothing if there is no such tool.
    ///
    /// Calls are validated against the new definition. If two tools then have the same name, the
    /// second one in the tool list is hidden. If a hook renames a hand-off tool or gives its name
    /// to another tool, the run ends with an error.
    pub fn change_tool(&mut self, name: &str, change: impl FnOnce(ToolDefinition) -> ToolDefinition) {
        let current = self.tools().find(|tool| *tool.name() == *name).cloned();
        if let (Some(original), Some(current)) = (self.original_name(name), current) {
            self.changes.insert(original, Some(change(current)));
        }
    }

    /// Returns the name in the original tool list of the tool whose current name is `name`.
    fn original_name(&self, name: &str) -> Option<String> {
        let renamed = self
            .changes
            .iter()
            .find(|(_, changed)| changed.as_ref().is_some_and(|definition| *definition.name() == *name));
        match renamed {
            Some((original, _)) => Some(original.clone()),
            None => {
                (self.list.get(name).is_some() && !self.changes.contains_key(name)).then(|| name.to_owned())
            }
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

    /// Checks that the request was made from `received`, the request that the hook received.
    pub(crate) fn check_origin(&self, received: &Self) -> Result<(), BoxError> {
        if self.list.snapshot_id() == received.list.snapshot_id() {
            return Ok(());
        }
        Err("the returned request is for another tool list: change the request that the hook receives".into())
    }

    /// Checks that no hook has renamed a tool named in `fixed`, or has given a name in `fixed` to
    /// another tool. The error text names the tool.
    pub(crate) fn check_fixed_names(&self, fixed: &BTreeSet<String>) -> Result<(), String> {
        for (name, changed) in &self.changes {
            let Some(changed) = changed.as_ref().map(|it| it.name().as_str()).filter(|it| it != name) else {
                continue;
            };
            if fixed.contains(name) {
                return Err(format!("the hand-off tool {name:?} cannot be renamed"));
            }
            if fixed.contains(changed) {
                return Err(format!(
                    "the tool {name:?} cannot be renamed to {changed:?}, the name of a hand-off tool"
                ));
            }
        }
        Ok(())
    }

    /// Returns the tool list of the request: the original list if no hook has changed a tool, or a
    /// changed copy, which is cached in `cached`.
    pub(crate) fn prepared_tools(&self, cached: &PreparedListCache) -> ToolList {
        let is_same = |(name, changed): (&String, &Option<ToolDefinition>)| {
            let original = self.list.get(name).map(|tool| tool.definition());
            changed.is_some() && changed.as_ref() == original
        };
        if self.changes.iter().all(is_same) {
            return self.list.clone();
        }
        cached.get_or_insert(&self.list, &self.changes)
    }
}

impl fmt::Debug for RequestDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestDraft")
            .field("messages", &self.messages.len())
            .field("tool_choice", &self.tool_choice)
            .field("settings", &self.settings)
            .field("instructions", &self.instructions)
            .field("tools", &self.list)
            .field("changes", &self.changes)
            .field("dialect", &self.dialect.as_deref().map(Dialect::name))
            .finish_non_exhaustive()
    }
}

/// The maximum number of tool lists in a [`PreparedListCache`].
const MAX_CACHED_LISTS: usize = 8;

/// An LRU cache of tool lists that hooks have changed. A cached list keeps its memoized values,
/// such as the system message that a dialect rendered from the list, so they are not computed
/// again.
#[derive(Default)]
pub(crate) struct PreparedListCache(Mutex<VecDeque<(u64, Changes, ToolList)>>);

impl PreparedListCache {
    fn get_or_insert(&self, all: &ToolList, changes: &Changes) -> ToolList {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = lists.iter().position(|(id, known, _)| *id == all.snapshot_id() && known == changes);
        let entry = position.and_then(|position| lists.remove(position));
        let entry = entry.unwrap_or_else(|| (all.snapshot_id(), changes.clone(), changed_list(all, changes)));
        let list = entry.2.clone();
        lists.truncate(MAX_CACHED_LISTS - 1);
        lists.push_front(entry);
        list
    }
}

fn changed_list(all: &ToolList, changes: &Changes) -> ToolList {
    all.filter_map(|tool| match changes.get(tool.definition().name().as_str()) {
        None => Some(Arc::clone(tool)),
        Some(None) => None,
        Some(Some(changed)) if changed == tool.definition() => Some(Arc::clone(tool)),
        Some(Some(changed)) => {
            let tool = Arc::clone(tool);
            Some(Arc::new(tool.with_definition(|_| changed.clone())))
        }
    })
}

/// Appends the non-empty texts in `paragraphs` to the instructions `base`. Returns `base` if all
/// texts are empty.
pub(crate) fn join_instructions<'a>(
    base: Option<Arc<Message>>,
    paragraphs: impl IntoIterator<Item = &'a String>,
) -> Option<Arc<Message>> {
    let paragraphs: Vec<_> = paragraphs.into_iter().filter(|text| !text.trim().is_empty()).collect();
    if paragraphs.is_empty() {
        return base;
    }
    let base = base.map(|message| message.text());
    let text: Vec<_> = base.iter().chain(paragraphs).map(String::as_str).collect();
    Some(Arc::new(Message::system(text.join("\n\n"))))
}
