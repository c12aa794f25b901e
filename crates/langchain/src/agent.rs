use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{
    SinkExt as _,
    channel::mpsc::Sender,
    stream::{self, StreamExt as _},
};
use langchain_rust::{
    agent::{Agent as ForeignAgent, AgentError as ForeignError, PlanEvent, PlanEventStream},
    language_models::TokenUsage,
    prompt::PromptArgs,
    schemas::{
        self as foreign,
        agent::{AgentAction, AgentEvent, AgentFinish},
    },
    tools::Tool as ForeignTool,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use haft_core::{
    Agent, RunEvent, RunInput, RunOutput, Tool as _, ToolCall,
    agent::{AgentError, AgentErrorKind, SuspendedRun},
    call::{Decision, Decisions, Pending, PendingCall, PendingKind, ToolResponse},
    text::ErrorChain,
    tool::{DynamicTool, RunContext},
};

use crate::{
    LangChainTool,
    chain::{INPUT, history, message},
    channel_stream::channel_stream,
    llm::token_usage,
    message::to_langchain_calls,
    tool::tool_name,
};

/// The beginning of the observation of a failed tool in `AgentExecutor`.
const FAILED_OBSERVATION: &str = "The tool return the following error: ";

/// Creates an external haft tool for each LangChain tool. A call is suspended as
/// [`PendingKind::External`]. Give these tools to the agent in a [`HaftAgent`]; LangChain's
/// `AgentExecutor` executes the calls.
pub fn external_tools(tools: &[Arc<dyn ForeignTool>]) -> Vec<DynamicTool> {
    let external = |tool: &Arc<dyn ForeignTool>| {
        let definition = LangChainTool::new(Arc::clone(tool)).definition().clone();
        DynamicTool::new(definition, |arguments, _| async {
            ToolResponse::Pending(Pending::new(PendingKind::External).with_continuation(arguments))
        })
    };
    tools.iter().map(external).collect()
}

/// A haft agent as a LangChain agent, for LangChain's `AgentExecutor`.
///
/// # Plans
///
/// The first plan starts a run with the variables `input`, `images` and `chat_history`. If the run
/// is suspended for [external](external_tools) calls, the plan has these calls as actions. The next
/// plan resumes the run with the observations. The log of the last action of a plan contains the
/// saved run as JSON, so the agent itself has no state: concurrent executions do not affect each
/// other. The memory of the executor contains only the external calls.
///
/// The executor calls the tools one after the other. Tools of the agent that are not external run
/// in the run itself, in parallel. A call to an unknown tool never reaches the executor, which
/// would abort: the model reads an error and continues.
///
/// # Limits
///
/// The limits of the haft agent apply and are errors. The executor has a limit of its own, 10 calls
/// by default, after which it returns the answer `Max iterations reached`. Raise it with
/// `with_max_iterations`.
///
/// # Examples
///
/// ```no_run
/// use std::sync::Arc;
///
/// use haft_core::Toolset;
/// use haft_langchain::{
///     HaftAgent, external_tools,
///     langchain_rust::{agent::AgentExecutor, chain::Chain, prompt_args, tools::{Calculator, Tool}},
/// };
/// # fn react_agent(_: Toolset) -> impl haft_core::Agent + 'static { NoAgent }
/// # struct NoAgent;
/// # impl haft_core::Agent for NoAgent {
/// #     fn stream(&self, _: haft_core::RunInput) -> futures::stream::BoxStream<'static, Result<haft_core::RunEvent, haft_core::agent::AgentError>> {
/// #         Box::pin(futures::stream::empty())
/// #     }
/// # }
///
/// # async fn example() -> Result<(), haft_langchain::langchain_rust::chain::ChainError> {
/// let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Calculator::new())];
/// // `react_agent` returns an agent with these tools, such as a `haft_react::ReactAgent`.
/// let agent = react_agent(Toolset::new().with_tools(external_tools(&tools)));
/// let executor = AgentExecutor::from_agent(HaftAgent::new(agent, tools)).with_max_iterations(50);
/// println!("{}", executor.invoke(prompt_args! {"input" => "What is 17 plus 25?"}).await?);
/// # Ok(())
/// # }
/// ```
pub struct HaftAgent {
    agent: Arc<dyn Agent>,
    tools: Vec<Arc<dyn ForeignTool>>,
    context: RunContext,
}

impl HaftAgent {
    /// Wraps `agent`. The executor runs its external calls with `tools`.
    pub fn new(agent: impl Agent + 'static, tools: Vec<Arc<dyn ForeignTool>>) -> Self {
        Self { agent: Arc::new(agent), tools, context: RunContext::default() }
    }

    /// Sets the context of the runs, for example with a principal, host state and a cancellation
    /// token.
    #[must_use]
    pub fn with_context(mut self, context: RunContext) -> Self {
        self.context = context;
        self
    }

    /// Returns the input for a new run, or for the saved run in the last of `steps`.
    fn input(&self, steps: &[(AgentAction, String)], inputs: &PromptArgs) -> Result<RunInput, ForeignError> {
        let Some((last, _)) = steps.last() else {
            let history = history(inputs).map_err(|error| other(error.to_string()))?;
            let message = message(inputs, INPUT).map_err(|error| match error {
                error if inputs.contains_key(INPUT) => other(error.to_string()),
                _ => ForeignError::MissingInputVariable(INPUT.to_owned()),
            })?;
            return Ok(RunInput::new(message).with_history(history).with_context(self.context.clone()));
        };
        let log: ActionLog = serde_json::from_str(&last.log)?;
        let run =
            log.run.ok_or_else(|| other("the last step is not the last action of a plan of this agent"))?;
        let count = run.pending.len();
        let batch = steps.len().checked_sub(count).and_then(|first| steps.get(first..)).unwrap_or_default();
        let decisions = batch.iter().map(decision).collect::<Result<Decisions, _>>()?;
        if run.pending.iter().any(|pending| !decisions.contains_key(&pending.call.id)) {
            return Err(other("the steps lack an observation for a call of the last plan"));
        }
        Ok(RunInput::resume(run, decisions).with_context(self.context.clone()))
    }

    /// Returns the plan for the output of a run, and the usage of a run with an answer.
    fn plan_of(&self, output: RunOutput) -> Result<(AgentEvent, Option<TokenUsage>), ForeignError> {
        Ok(match output {
            RunOutput::Answer(answer) => {
                (AgentEvent::Finish(AgentFinish { output: answer.text }), token_usage(answer.usage))
            }
            RunOutput::Suspended(run) => (AgentEvent::Action(self.actions(run)?), None),
        })
    }

    /// Runs the agent and sends its text. Returns the remaining events.
    async fn stream_plan(
        &self,
        steps: &[(AgentAction, String)],
        inputs: &PromptArgs,
        sender: &mut Sender<Result<PlanEvent, ForeignError>>,
    ) -> Result<Vec<PlanEvent>, ForeignError> {
        let mut events = self.agent.stream(self.input(steps, inputs)?);
        let mut has_text = false;
        while let Some(event) = events.next().await {
            match event.map_err(|error| plan_error(&error))? {
                RunEvent::TextDelta { text } => {
                    has_text = true;
                    let _ = sender.send(Ok(PlanEvent::Text(text))).await;
                }
                RunEvent::Done { output } => {
                    let (event, usage) = self.plan_of(output)?;
                    let text = match &event {
                        AgentEvent::Finish(finish) if !has_text => Some(finish.output.clone()),
                        _ => None,
                    };
                    let text = text.map(PlanEvent::Text).into_iter();
                    return Ok(text
                        .chain(usage.map(PlanEvent::Usage))
                        .chain([PlanEvent::Done(event)])
                        .collect());
                }
                _ => {}
            }
        }
        Err(plan_error(&AgentErrorKind::Incomplete.into()))
    }

    /// Returns the actions for the calls of a suspended run.
    fn actions(&self, run: SuspendedRun) -> Result<Vec<AgentAction>, ForeignError> {
        let is_external = |it: &PendingCall| matches!(it.pending.kind, PendingKind::External);
        if run.pending.is_empty() || !run.pending.iter().all(is_external) {
            return Err(other(format!("only external calls can be executed by LangChain: {run}")));
        }
        let calls: Vec<ToolCall> = run.pending.iter().map(repaired_call).collect();
        let tools = foreign::ToolCall::list_to_string(&to_langchain_calls(&calls));
        let (last, mut run) = (calls.len() - 1, Some(run));
        let action = |(index, call): (usize, ToolCall)| {
            let saved = if index == last { run.take() } else { None };
            let log = ActionLog { tool_id: call.id, tools: tools.clone(), run: saved };
            Ok(AgentAction {
                tool: self.executor_tool(&call.name)?,
                tool_input: call.arguments.to_string(),
                log: serde_json::to_string(&log)?,
            })
        };
        calls.into_iter().enumerate().map(action).collect()
    }

    /// Returns the name in LangChain of the haft tool named `name`.
    fn executor_tool(&self, name: &str) -> Result<String, ForeignError> {
        let tool = self.tools.iter().find(|tool| tool_name(&***tool) == *name);
        tool.map(|tool| tool.name()).ok_or_else(|| {
            other(format!("the external tool {name:?} is missing: pass the same tools to `HaftAgent::new` and `external_tools`"))
        })
    }
}

/// Returns the call of `pending` with the arguments that the pipeline repaired. The continuation of
/// an external tool has them.
fn repaired_call(pending: &PendingCall) -> ToolCall {
    let mut call = pending.call.clone();
    if let arguments @ Value::Object(_) = &pending.pending.continuation {
        call.arguments = arguments.clone().into();
    }
    call
}

/// The log of an action: LangChain's `LogTools`, which `AgentExecutor` reads to fill its memory,
/// and the saved run.
#[derive(Serialize, Deserialize)]
struct ActionLog {
    /// The id of the call.
    tool_id: String,
    /// The calls of the plan as JSON.
    tools: String,
    /// The suspended run, in the last action of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<SuspendedRun>,
}

/// Returns the id of the call of a step, and its observation as a decision.
fn decision((action, observation): &(AgentAction, String)) -> Result<(String, Decision), ForeignError> {
    let ActionLog { tool_id, .. } = serde_json::from_str(&action.log)?;
    let decision = match observation.strip_prefix(FAILED_OBSERVATION) {
        Some(error) => Decision::Failed { message: error.to_owned() },
        None => Decision::output(observation.as_str()),
    };
    Ok((tool_id, decision))
}

fn plan_error(error: &AgentError) -> ForeignError {
    other(ErrorChain(error).to_string())
}

fn other(message: impl Into<String>) -> ForeignError {
    ForeignError::OtherError(message.into())
}

#[async_trait]
impl ForeignAgent for HaftAgent {
    async fn plan(
        &self,
        steps: &[(AgentAction, String)],
        inputs: PromptArgs,
    ) -> Result<AgentEvent, ForeignError> {
        Ok(self.plan_with_usage(steps, inputs).await?.0)
    }

    /// The usage of the whole run is returned with its answer.
    async fn plan_with_usage(
        &self,
        steps: &[(AgentAction, String)],
        inputs: PromptArgs,
    ) -> Result<(AgentEvent, Option<TokenUsage>), ForeignError> {
        let input = self.input(steps, &inputs)?;
        self.plan_of(self.agent.run(input).await.map_err(|error| plan_error(&error))?)
    }

    /// Streams the text that the model writes, also before calls and in replies that the agent
    /// rejects. An answer that is not the text of a reply, such as the result of a stop tool, is
    /// one piece of text.
    fn plan_stream<'a>(
        &'a self,
        steps: &'a [(AgentAction, String)],
        inputs: PromptArgs,
    ) -> PlanEventStream<'a> {
        let events = channel_stream(move |mut sender| async move {
            let end: Vec<_> = match self.stream_plan(steps, &inputs, &mut sender).await {
                Ok(events) => events.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            // The receiver is gone only if this future is about to be dropped.
            let _ = sender.send_all(&mut stream::iter(end.into_iter().map(Ok))).await;
        });
        Box::pin(events)
    }

    fn get_tools(&self) -> Vec<Arc<dyn ForeignTool>> {
        self.tools.clone()
    }
}

impl fmt::Debug for HaftAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.tools.iter().map(|tool| tool.name()).collect();
        f.debug_struct("HaftAgent").field("tools", &names).finish_non_exhaustive()
    }
}
