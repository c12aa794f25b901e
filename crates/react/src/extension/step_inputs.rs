//! The inputs of a model request, before and after the hooks.

use std::{collections::BTreeSet, fmt, sync::Arc};

use haft_core::{
    ChatModel, Message, Timestamp,
    model::{ChatSettings, ToolChoice},
    toolset::ToolList,
};

use super::StepRequest;
use crate::{
    Dialect, Run, Step,
    dialect::dialect_for,
    host_panic::{catch_panic, profile_of},
};

/// The inputs of a model request. [`ExtensionSet::prepare`](super::ExtensionSet::prepare) passes
/// them through the hooks.
///
/// Create the inputs with [`new`](Self::new), then set the optional fields.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use haft_core::{Message, Timestamp, toolset::ToolList};
/// use haft_react::{NativeCalls, extension::StepInputs};
/// use haft_testing::ScriptedModel;
///
/// let mut inputs =
///     StepInputs::new(ToolList::default(), Arc::new(ScriptedModel::new()), Arc::new(NativeCalls));
/// inputs.instructions = Some(Arc::new(Message::system("Be brief.")));
/// assert!(inputs.as_step(Timestamp::now()).instructions.is_some());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct StepInputs {
    /// The tools that the model can call in this step.
    pub tools: ToolList,
    /// The system message, which precedes the conversation in the request. Default: none.
    pub instructions: Option<Arc<Message>>,
    /// The tool choice of the request. Default: the tool choice of the run.
    pub tool_choice: Option<ToolChoice>,
    /// The settings of the request, such as the temperature. Default: the settings in the
    /// configuration of the run.
    pub settings: Option<ChatSettings>,
    /// The model that receives the request. A hook can
    /// [replace](super::StepRequest::use_model) it.
    pub model: Arc<dyn ChatModel>,
    /// The dialect that formats the request and parses the reply.
    pub dialect: Arc<dyn Dialect>,
    /// The names of the hand-off tools. The driver recognizes a hand-off by the name of the called
    /// tool, so hooks can neither rename these tools nor give their names to other tools. Default:
    /// none.
    pub handoff_tools: Arc<BTreeSet<String>>,
}

impl StepInputs {
    /// Creates inputs without instructions or overrides.
    pub fn new(tools: ToolList, model: Arc<dyn ChatModel>, dialect: Arc<dyn Dialect>) -> Self {
        Self {
            tools,
            instructions: None,
            tool_choice: None,
            settings: None,
            model,
            dialect,
            handoff_tools: Arc::default(),
        }
    }

    /// Creates a [`Step`] that borrows these inputs. `now` is the current time.
    pub fn as_step(&self, now: Timestamp) -> Step<'_> {
        Step {
            instructions: self.instructions.as_ref(),
            tool_choice: self.tool_choice.as_ref(),
            settings: self.settings.as_ref(),
            ..Step::new(&self.tools, &*self.dialect, now)
        }
    }

    /// Creates the request for the `prepare` hooks.
    pub(super) fn to_request(&self, run: &Run) -> StepRequest {
        let tool_choice = self.tool_choice.clone().unwrap_or_else(|| run.tool_choice());
        let settings = self.settings.clone().unwrap_or_else(|| run.config().settings.clone());
        StepRequest::new(&self.tools, tool_choice, settings)
    }

    /// Returns these inputs with the changes in `request`, and with `paragraphs` appended to the
    /// instructions. Fails with an error message for the user if a hook has renamed a hand-off
    /// tool, given its name to another tool, or returned a request for another tool list.
    pub(super) fn changed_by(self, request: StepRequest, paragraphs: &[String]) -> Result<Self, String> {
        request.check_tool_list(&self.tools)?;
        request.check_handoff_names(&self.tools, &self.handoff_tools)?;
        let tools = request.prepared_tools(&self.tools);
        let profile = request.model.as_deref().map(profile_of).transpose();
        let model_dialect = profile.map_err(|panic| panic.to_string())?.map(dialect_for);
        Ok(Self {
            tools,
            instructions: join_instructions(self.instructions, paragraphs),
            tool_choice: Some(request.tool_choice),
            settings: Some(request.settings),
            model: request.model.unwrap_or(self.model),
            dialect: request.dialect.or(model_dialect).unwrap_or(self.dialect),
            handoff_tools: self.handoff_tools,
        })
    }

    /// Returns the names of the dialect and of the tool if a tool of this step has the name that
    /// the dialect reserves. The tools and the dialect of the agent were checked when the agent was
    /// built, but a source may have added the tool since then, or a hook may have renamed a tool or
    /// replaced the dialect.
    pub(super) fn reserved_tool_name(&self, run: &Run) -> Option<(&'static str, &'static str)> {
        let outputs = run.config().outputs.as_ref();
        // A dialect that panics here fails again, with an error, when it builds the request.
        let names = || Some((self.dialect.name(), self.dialect.reserved_name(outputs)?));
        let names = catch_panic("Dialect::reserved_name", names).ok()??;
        self.tools.get(names.1).is_some().then_some(names)
    }
}

impl fmt::Debug for StepInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepInputs")
            .field("tools", &self.tools)
            .field("model", &self.model.profile().name)
            .field("dialect", &self.dialect.name())
            .finish_non_exhaustive()
    }
}

/// Appends the non-empty texts in `paragraphs` to the instructions `base`. Returns `base` if all
/// texts are empty.
pub(super) fn join_instructions<'a>(
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
