//! The inputs of a step: its tools, instructions, tool choice, settings, model and dialect.

use std::sync::Arc;

use haft_core::{
    ChatModel, Message, Timestamp,
    agent::AgentErrorKind,
    model::{ChatSettings, ToolChoice},
    tool::RunContext,
    toolset::{ListContext, ToolList},
};

use super::ReactAgent;
use crate::{
    Dialect, Run, Step,
    dialect::dialect_for,
    extension::{Entries, StepContext, StepRequest},
    run::Resolver,
};

/// The inputs of the next model request, after all hooks have run.
pub(super) struct StepInputs {
    pub(super) tools: ToolList,
    instructions: Option<Arc<Message>>,
    tool_choice: Option<ToolChoice>,
    settings: Option<ChatSettings>,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) dialect: Arc<dyn Dialect>,
}

impl StepInputs {
    /// Creates a [`Step`] that borrows these inputs and `resolver`. `now` is the current time.
    pub(super) fn as_step<'a>(&'a self, resolver: &'a dyn Resolver, now: Timestamp) -> Step<'a> {
        Step {
            instructions: self.instructions.as_ref(),
            tool_choice: self.tool_choice.as_ref(),
            settings: self.settings.as_ref(),
            resolver: Some(resolver),
            ..Step::new(&self.tools, &*self.dialect, now)
        }
    }
}

impl ReactAgent {
    /// Lists the tools and runs the hooks for the next request. If the text of the instructions is
    /// the same as in `last`, reuses the [`Message`] from `last`, which caches its rendered text.
    pub(super) async fn prepare_step(
        &self,
        run: &Run,
        context: &Arc<RunContext>,
        entries: &Entries,
        last: Option<StepInputs>,
    ) -> Result<StepInputs, AgentErrorKind> {
        let (run_id, state) = (context.run_id.clone(), context.state.clone());
        let all = self.0.tools.list(&ListContext { step: run.step(), run_id, state }).await;
        let extensions = &self.0.extensions;
        let instructions = self.0.instructions.clone();
        let (model, dialect) = (Arc::clone(&self.0.model), Arc::clone(&self.0.dialect));
        if !extensions.change_requests() {
            let (tool_choice, settings) = (None, None);
            return Ok(StepInputs { tools: all, instructions, tool_choice, settings, model, dialect });
        }
        let cx = StepContext::new(run, context, entries);
        let request = StepRequest::new(&all, run.tool_choice(), run.config().settings.clone());
        let mut paragraphs = extensions.dynamic_instructions(&cx).await?;
        let mut request = extensions.prepare(request, &cx).await?;
        paragraphs.append(&mut request.instructions);
        request
            .check_fixed_names(&all, &self.0.transfers)
            .map_err(|problem| AgentErrorKind::Hook { hook: "prepare hook", source: problem.into() })?;
        let tools = request.list(&all, &extensions.prepared);
        let chosen = request.model.map(|model| self.0.priced(model));
        let model_dialect = chosen.as_ref().map(|model| dialect_for(model.profile()));
        let inputs = StepInputs {
            instructions: join_instructions(
                instructions,
                &paragraphs,
                last.and_then(|last| last.instructions),
            ),
            tool_choice: Some(request.tool_choice),
            settings: Some(request.settings),
            model: chosen.unwrap_or(model),
            dialect: request.dialect.or(model_dialect).unwrap_or(dialect),
            tools,
        };
        inputs.check_tool_names(run)?;
        Ok(inputs)
    }
}

impl StepInputs {
    /// Fails if a tool of this step has a name that the dialect of this step reserves.
    /// [`build`](super::ReactAgentBuilder::build) checked the agent's own dialect and tools, but a
    /// hook may have replaced them.
    fn check_tool_names(&self, run: &Run) -> Result<(), AgentErrorKind> {
        match self.dialect.reserved_name(run.config().outputs.as_ref()) {
            Some(name) if self.tools.get(name).is_some() => Err(AgentErrorKind::Hook {
                hook: "prepare hook",
                source: format!(
                    "no tool can be named {name:?} in this step: the dialect {} ends a run by this name",
                    self.dialect.name()
                )
                .into(),
            }),
            _ => Ok(()),
        }
    }
}

/// Appends the non-empty texts in `paragraphs` to the instructions `base`. Returns `last` instead
/// of a new message if both have the same text, because `last` caches its rendered text.
pub(super) fn join_instructions(
    base: Option<Arc<Message>>,
    paragraphs: &[String],
    last: Option<Arc<Message>>,
) -> Option<Arc<Message>> {
    let paragraphs: Vec<_> = paragraphs.iter().filter(|text| !text.trim().is_empty()).collect();
    if paragraphs.is_empty() {
        return base;
    }
    let base = base.map(|message| message.text());
    let text: Vec<_> = base.iter().chain(paragraphs).map(String::as_str).collect();
    let text = text.join("\n\n");
    last.filter(|last| last.text() == text).or_else(|| Some(Arc::new(Message::system(text))))
}
