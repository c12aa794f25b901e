//! What a run is lent for its next step.

use std::sync::Arc;

use haft_core::{
    Message, Timestamp,
    agent::AgentErrorKind,
    model::{ChatSettings, ToolChoice},
    tool::RunContext,
    toolset::{ListContext, ToolList},
};

use super::{HookError, StepContext, StepRequest, within};
use crate::{ReactAgent, Run, Step};

/// Tools, instructions, and what else is said of one request.
pub(in super::super) struct Lent {
    pub(in super::super) tools: ToolList,
    instructions: Option<Arc<Message>>,
    tool_choice: Option<ToolChoice>,
    settings: Option<ChatSettings>,
}

impl Lent {
    pub(in super::super) fn step<'a>(&'a self, agent: &'a ReactAgent, now: Timestamp) -> Step<'a> {
        Step {
            instructions: self.instructions.as_ref(),
            tool_choice: self.tool_choice.as_ref(),
            settings: self.settings.as_ref(),
            ..Step::new(&self.tools, agent.dialect(), now)
        }
    }
}

impl ReactAgent {
    /// Lists the tools, and asks the hooks about the next request. Instructions that are those of the `last` request are the
    /// same message, which keeps what adapters made of it.
    pub(in super::super) async fn lend(
        &self,
        run: &Run,
        context: &Arc<RunContext>,
        last: Option<Lent>,
    ) -> Result<Lent, AgentErrorKind> {
        let (run_id, state) = (context.run_id.clone(), context.state.clone());
        let all = self.0.tools.list(&ListContext { step: run.step(), run_id, state }).await;
        let hooks = &self.0.hooks;
        let given = self.0.instructions.clone();
        if hooks.instructions.is_empty() && hooks.prepare.is_empty() {
            return Ok(Lent { tools: all, instructions: given, tool_choice: None, settings: None });
        }
        let cx = StepContext::of(run, context);
        let mut request = StepRequest::new(&all, run.tool_choice(), run.config().settings.clone());
        let mut said = Vec::new();
        for hook in &hooks.instructions {
            let hook = Arc::clone(hook);
            let text = within(hooks.timeout, &cx, move |cx| hook(cx)).await;
            said.push(HookError::flat(text, "dynamic instructions")?);
        }
        for hook in &hooks.prepare {
            let hook = Arc::clone(hook);
            let prepared = within(hooks.timeout, &cx, move |cx| hook(request, cx)).await;
            request = HookError::flat(prepared, "prepare hook")?;
        }
        said.append(&mut request.instructions);
        Ok(Lent {
            tools: request.list(&all, &hooks.prepared),
            instructions: joined(given, &said, last.and_then(|last| last.instructions)),
            tool_choice: Some(request.tool_choice),
            settings: Some(request.settings),
        })
    }
}

fn joined(given: Option<Arc<Message>>, said: &[String], last: Option<Arc<Message>>) -> Option<Arc<Message>> {
    let said: Vec<_> = said.iter().filter(|text| !text.trim().is_empty()).collect();
    if said.is_empty() {
        return given;
    }
    let given = given.map(|message| message.text());
    let text: Vec<_> = given.iter().chain(said).map(String::as_str).collect();
    let text = text.join("\n\n");
    last.filter(|last| last.text() == text).or_else(|| Some(Arc::new(Message::system(text))))
}
