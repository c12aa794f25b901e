//! Agents used as tools by other agents.

#[cfg(test)]
mod tests;

use std::{future::Future, panic::catch_unwind, pin::pin, time::Duration};

use async_trait::async_trait;
use futures::{
    future::{Either, select},
    stream::StreamExt as _,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use haft_core::{
    Agent, RunEvent, RunInput, RunOutput, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName,
    ToolOutput,
    agent::{AgentError, AgentErrorKind, RunAnswer, StopReason, SuspendedRun},
    call::{Decision, Decisions, Pending, PendingCall, PendingKind, ToolResponse},
    content::Content,
    tool::{OnCancel, RunContext},
    usage::{Usage, UsageMeter},
};

/// The name of the [`AgentTool`] argument that contains the task.
const TASK_ARGUMENT: &str = "task";

/// An extension trait that converts an agent into a tool.
pub trait AgentExt: Agent + Sized {
    /// Converts the agent into a tool. The tool has one argument, `task`: the task for the agent,
    /// in natural language. The tool returns the agent's answer.
    ///
    /// Each call to the tool starts a child run of the agent. The child run has the same principal
    /// and host state as the call, and is cancelled together with the call. Its requests and calls
    /// count toward the limits of the parent run. If the child run reaches a limit of its own or of
    /// the parent run, the call fails with a message that contains the limit. If the child run is
    /// suspended, the call is suspended too. To decide the pending calls of the child run, resume
    /// the parent run with decisions for their call ids.
    ///
    /// If you replace the [input schema](ToolDefinition::with_input_schema) of the tool, the task
    /// of the child run is the JSON object of all arguments, unless the only argument is a string
    /// named `task`.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Toolset;
    /// use haft_middleware::AgentExt;
    /// # use haft_core::{Agent, RunEvent, RunInput, agent::AgentError};
    /// # struct Researcher;
    /// # impl Agent for Researcher {
    /// #     fn stream(&self, _: RunInput) -> futures::stream::BoxStream<'static, Result<RunEvent, AgentError>> {
    /// #         Box::pin(futures::stream::empty())
    /// #     }
    /// # }
    ///
    /// let research = Researcher.into_tool("research", "Finds out what is known about something.");
    /// let tools = Toolset::new().with_tool(research);
    /// ```
    fn into_tool(self, name: &str, description: impl Into<String>) -> AgentTool<Self> {
        let schema = json!({
            "type": "object",
            "properties": {TASK_ARGUMENT: {"type": "string", "description": "What is to be done, with all that must be known for it."}},
            "required": [TASK_ARGUMENT],
            "additionalProperties": false,
        });
        let definition = ToolDefinition::new(ToolName::sanitize(name), Schema::object())
            .with_name(name)
            .with_input_schema(schema)
            .with_description(description)
            // The tools of the child run end before the call ends, and can read any host state.
            .map_policy(|policy| policy.with_on_cancel(OnCancel::Subtasks).with_cacheable_results(false));
        AgentTool { agent: self, definition }
    }
}

impl<A: Agent> AgentExt for A {}

/// An agent as a tool, created by [`AgentExt::into_tool`].
#[derive(Clone, Debug)]
pub struct AgentTool<A> {
    agent: A,
    definition: ToolDefinition,
}

#[async_trait]
impl<A: Agent> Tool for AgentTool<A> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        let context = child_context(cx);
        let mut reporter =
            UsageReporter { meter: context.usage.clone().unwrap_or_default(), ..UsageReporter::default() };
        let input = match (cx.resumed().map(|resumed| &resumed.pending().kind), cx.decision()) {
            (Some(PendingKind::Nested { pending }), Some(Decision::Nested { decisions })) => {
                let SavedChild { child: checkpoint, reported } =
                    SavedChild::from_continuation(cx.continuation().unwrap_or(&Value::Null))?;
                (reporter.reported, reporter.finished) = (reported, reported);
                let pending = map_ids(pending, |id| strip_call_id(cx.call_id(), id));
                let decisions = decisions
                    .iter()
                    .map(|(id, decision)| (strip_call_id(cx.call_id(), id), decision.clone()));
                RunInput::resume(SuspendedRun { pending, checkpoint }, decisions.collect::<Decisions>())
            }
            _ => RunInput::new(task_content(arguments)),
        };
        let cancellation = context.cancellation.clone();
        let run = run_agent(&self.agent, input.with_context(context), &mut reporter, cx);
        match cancel_at_deadline(run, cx.deadline(), || cancellation.cancel()).await {
            Ok(RunOutput::Answer(answer)) => {
                reporter.report_up_to(answer.usage);
                Ok(ToolResponse::Done(tool_output(*answer)))
            }
            Ok(RunOutput::Suspended(SuspendedRun { pending, checkpoint })) => {
                let pending = map_ids(&pending, |id| format!("{}/{id}", cx.call_id()));
                reporter.count_reported();
                let continuation = json!(SavedChild { child: checkpoint, reported: reporter.reported });
                Ok(ToolResponse::Pending(
                    Pending::new(PendingKind::Nested { pending }).with_continuation(continuation),
                ))
            }
            Err(error) => {
                reporter.report_up_to(error.usage);
                Err(tool_error(error))
            }
        }
    }
}

/// Runs `agent` until the child run ends or is suspended, and returns the output of the child run.
/// The usage of the child run is reported to the parent run after each model request, and its
/// events as events of the call.
async fn run_agent(
    agent: &impl Agent,
    input: RunInput,
    reporter: &mut UsageReporter,
    cx: &ToolContext,
) -> Result<RunOutput, AgentError> {
    let mut events = agent.stream(input);
    while let Some(event) = events.next().await {
        let event = event?;
        match event {
            RunEvent::RequestFinished { usage } => reporter.on_request(usage.counted_as_request()),
            RunEvent::Done { output } => return Ok(output),
            _ => {}
        }
        if let Some(sink) = &cx.run_context().progress {
            sink.report_event(cx.call_id(), event).await;
        }
    }
    Err(AgentErrorKind::Incomplete.into())
}

/// Awaits the child run `run`. At the `deadline` of the call, calls `cancel`, which cancels the
/// run, and waits for its end, so that its tools end before the call.
async fn cancel_at_deadline<T>(
    run: impl Future<Output = T>,
    deadline: Option<Instant>,
    cancel: impl FnOnce(),
) -> T {
    // The pipeline has to notice its deadline first, so that the result of the call is a timeout.
    let deadline = deadline.and_then(|deadline| deadline.checked_add(Duration::from_millis(1)));
    // Without a timer in the runtime, the pipeline reports the error.
    let timer = deadline.and_then(|deadline| catch_unwind(|| sleep_until(deadline)).ok());
    let mut run = pin!(run);
    let Some(timer) = timer else { return run.await };
    match select(run.as_mut(), pin!(timer)).await {
        Either::Left((output, _)) => output,
        Either::Right(((), _)) => {
            cancel();
            run.await
        }
    }
}

/// Adds the usage of a child run to its parent run after each model request. Requests are therefore
/// counted even if the child run is dropped. Usage that the agent has added to the meter in its
/// context is not added again.
#[derive(Default)]
struct UsageReporter {
    /// The meter in the context of the child run, a part of the meter of the parent run.
    meter: UsageMeter,
    /// The usage of the child run that was added to the parent run, also before a suspension.
    reported: Usage,
    /// The usage of the finished requests.
    finished: Usage,
}

impl UsageReporter {
    fn on_request(&mut self, usage: Usage) {
        self.finished += usage;
        self.report_up_to(self.finished);
    }

    /// Reports the usage in `total` that has not been reported yet, for example the usage of
    /// summaries.
    fn report_up_to(&mut self, total: Usage) {
        self.count_reported();
        self.meter.add(total.saturating_sub(self.reported));
        self.count_reported();
    }

    fn count_reported(&mut self) {
        self.reported += self.meter.take();
    }
}

/// A suspended child run, as saved in the continuation of the tool call.
#[derive(Serialize, Deserialize)]
struct SavedChild {
    child: Value,
    /// The usage that was added to the parent run before the child run was suspended. It is not
    /// added again when the child run is resumed.
    reported: Usage,
}

impl SavedChild {
    fn from_continuation(continuation: &Value) -> Result<Self, ToolError> {
        Self::deserialize(continuation).map_err(|error| ToolError::Failed {
            message: "cannot read the saved state of the agent".to_owned(),
            source: Some(error.into()),
        })
    }
}

/// Returns the task of the child run: the value of the argument `task` if it is the only argument
/// and a string, or else the JSON of all `arguments`.
fn task_content(arguments: Value) -> Content {
    let only = arguments.as_object().filter(|object| object.len() == 1);
    match only.and_then(|object| object.get(TASK_ARGUMENT)?.as_str()) {
        Some(task) => Content::text(task),
        None => Content::json(arguments),
    }
}

fn child_context(cx: &ToolContext) -> RunContext {
    let run = cx.run_context();
    RunContext {
        run_id: if run.run_id.is_empty() {
            String::new()
        } else {
            format!("{}/{}", run.run_id, cx.call_id())
        },
        cancellation: run.cancellation.child_token(),
        progress: cx.relayed_progress(),
        usage: run.usage.as_ref().map(UsageMeter::part),
        ..run.clone()
    }
}

fn tool_output(answer: RunAnswer) -> ToolOutput {
    let mut output = ToolOutput::from(answer.text);
    let outputs = Some(answer.outputs).filter(|outputs| !outputs.is_empty()).map(Value::Object);
    output.structured = answer.value.or(outputs);
    if answer.stop_reason == StopReason::LimitReached {
        output.warnings.push("the agent reached a limit and answered early".to_owned());
    }
    output
}

/// Converts `error` to the error of the call. A model reads the message of the returned error, so
/// messages for the operator, which may contain server addresses, are only in its `source`.
fn tool_error(error: AgentError) -> ToolError {
    let message = match *error.kind {
        AgentErrorKind::Cancelled => return ToolError::Cancelled,
        AgentErrorKind::Model(_) => "the agent did not finish: its model failed".to_owned(),
        AgentErrorKind::ListTools(_) => "the agent did not finish: its tools cannot be listed".to_owned(),
        _ => format!("the agent did not finish: {error}"),
    };
    ToolError::Failed { message, source: Some(error.into()) }
}

/// Returns a copy of `pending` in which `id` has been applied to each call id, at all levels of
/// nesting. `id` converts a call id of the child run to a call id of the parent run, or back.
fn map_ids(pending: &[PendingCall], id: impl Fn(&str) -> String + Copy) -> Vec<PendingCall> {
    let calls = pending.iter().cloned().map(|mut pending_call| {
        pending_call.call.id = id(&pending_call.call.id);
        if let PendingKind::Nested { pending } = &mut pending_call.pending.kind {
            *pending = map_ids(pending, id);
        }
        pending_call
    });
    calls.collect()
}

/// Converts `id`, a call id of the parent run, to the call id in the child run, by removing the
/// prefix `call_id` and a slash. `call_id` is the id of the call that started the child run.
fn strip_call_id(call_id: &str, id: &str) -> String {
    let inner = id.strip_prefix(call_id).and_then(|rest| rest.strip_prefix('/'));
    inner.unwrap_or(id).to_owned()
}
