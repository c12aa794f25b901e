//! An agent as a tool of another.

use async_trait::async_trait;
use futures::stream::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use haft_core::{
    Agent, RunEvent, RunInput, RunOutput, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName,
    ToolOutput,
    agent::{AgentError, AgentErrorKind, Parked, RunAnswer, StopReason},
    call::{Decision, Decisions, Pending, PendingCall, PendingKind, ToolOutcome},
    content::Content,
    tool::RunContext,
    usage::Usage,
};

/// The one argument of an agent as a tool.
const TASK: &str = "task";

/// Agents as tools.
pub trait AgentExt: Agent + Sized {
    /// Makes a tool of the agent: its argument is a task in words, its result the answer.
    ///
    /// The child's run is for the same principal, with the same state, and is cancelled with the call. When it waits, so does the
    /// call, and an answer to a call inside it is given to the parent's run by that call's id. Where the definition is given
    /// another [schema](ToolDefinition::with_input_schema), the arguments are the child's question as data.
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
    /// let tools = Toolset::new().with(research);
    /// ```
    fn into_tool(self, name: &str, description: impl Into<String>) -> AgentTool<Self> {
        let schema = json!({
            "type": "object",
            "properties": {TASK: {"type": "string", "description": "What is to be done, with all that must be known for it."}},
            "required": [TASK],
            "additionalProperties": false,
        });
        let definition = ToolDefinition::new(ToolName::from_foreign(name), Schema::object())
            .with_name(name)
            .with_input_schema(schema)
            .with_description(description);
        AgentTool { agent: self, definition }
    }
}

impl<A: Agent> AgentExt for A {}

/// An agent as a tool, as [`AgentExt::into_tool`] makes it.
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

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        // The agent and its tools are given all of it.
        cx.record_undeclared_read();
        let mut spent = Spent { cx, told: Usage::default() };
        let input = match (cx.resumed().map(|resumed| &resumed.pending().kind), cx.decision()) {
            (Some(PendingKind::Nested { pending }), Some(Decision::Nested { decisions })) => {
                let Kept { child: state, told } = Kept::of(cx.pending_state().cloned().unwrap_or_default());
                spent.told = told;
                let pending = rooted(pending, |id| within(cx.call_id(), id));
                let decisions =
                    decisions.iter().map(|(id, answer)| (within(cx.call_id(), id), answer.clone()));
                RunInput::resume(Parked { pending, state }, decisions.collect::<Decisions>())
            }
            _ => RunInput::new(question(arguments)),
        };
        match run(&self.agent, input.with_context(context(cx)), &mut spent).await {
            Ok(RunOutput::Answer(answer)) => {
                spent.settle(answer.usage);
                Ok(ToolOutcome::Done(output(*answer)))
            }
            Ok(RunOutput::Parked(Parked { pending, state })) => {
                let pending = rooted(&pending, |id| format!("{}/{id}", cx.call_id()));
                let state = json!(Kept { child: state, told: spent.told });
                Ok(ToolOutcome::Pending(Pending::new(PendingKind::Nested { pending }).with_state(state)))
            }
            Err(error) => {
                spent.settle(error.usage);
                Err(failure(error))
            }
        }
    }
}

/// Runs the child, and tells on the way what it uses.
async fn run(agent: &impl Agent, input: RunInput, spent: &mut Spent<'_>) -> Result<RunOutput, AgentError> {
    let mut events = agent.stream(input);
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::RequestFinished { usage } => spent.tell(usage.of_reply()),
            RunEvent::Done { output } => return Ok(output),
            _ => {}
        }
    }
    Err(AgentErrorKind::Incomplete.into())
}

/// Tells the parent's run what the child uses, while it uses it: a child that is given up tells nothing any more.
struct Spent<'a> {
    cx: &'a ToolContext,
    told: Usage,
}

impl Spent<'_> {
    fn tell(&mut self, usage: Usage) {
        self.told += usage;
        self.cx.report_usage(usage);
    }

    /// Tells the rest of all that the child used, such as summaries.
    fn settle(&mut self, all: Usage) {
        self.tell(all.without(self.told));
    }
}

/// What is kept of a child that waits.
#[derive(Serialize, Deserialize)]
struct Kept {
    child: Value,
    /// What it used, and the parent's run knows.
    told: Usage,
}

impl Kept {
    fn of(state: Value) -> Self {
        // What was kept before usage was told is the child alone.
        Self::deserialize(&state).unwrap_or(Self { child: state, told: Usage::default() })
    }
}

/// What the child is asked.
fn question(arguments: Value) -> Content {
    match arguments {
        Value::Object(mut object) if object.len() == 1 && object.get(TASK).is_some_and(Value::is_string) => {
            match object.remove(TASK) {
                Some(Value::String(task)) => Content::text(task),
                _ => Content::text(""),
            }
        }
        arguments => Content::json(arguments),
    }
}

fn context(cx: &ToolContext) -> RunContext {
    let run = cx.run();
    RunContext {
        run_id: if run.run_id.is_empty() {
            String::new()
        } else {
            format!("{}/{}", run.run_id, cx.call_id())
        },
        cancellation: run.cancellation.child_token(),
        progress: cx.relayed_progress(),
        ..run.clone()
    }
}

fn output(answer: RunAnswer) -> ToolOutput {
    let mut output = ToolOutput::from(answer.text);
    if !answer.outputs.is_empty() {
        output.structured = Some(Value::Object(answer.outputs));
    }
    if answer.stop_reason == StopReason::LimitReached {
        output.warnings.push("it had to answer before it was done".to_owned());
    }
    output
}

fn failure(error: AgentError) -> ToolError {
    match *error.kind {
        AgentErrorKind::Cancelled => ToolError::Cancelled,
        _ => ToolError::Failed {
            message: format!("the agent came to no answer: {error}"),
            source: Some(error.into()),
        },
    }
}

/// Calls that wait, and those inside them, with other ids: unique in the whole tree of runs, or those of the child again.
fn rooted(pending: &[PendingCall], id: impl Fn(&str) -> String + Copy) -> Vec<PendingCall> {
    let calls = pending.iter().cloned().map(|mut waits| {
        waits.call.id = id(&waits.call.id);
        if let PendingKind::Nested { pending } = &mut waits.pending.kind {
            *pending = rooted(pending, id);
        }
        waits
    });
    calls.collect()
}

/// An id as the child knows it.
fn within(call_id: &str, id: &str) -> String {
    let inner = id.strip_prefix(call_id).and_then(|rest| rest.strip_prefix('/'));
    inner.unwrap_or(id).to_owned()
}
