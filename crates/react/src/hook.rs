//! Hooks: code of the host program that judges and changes what happens in a run.

mod clear_tool_results;
mod closure;
mod context;
mod earlier_turns;
mod guardrail;
mod request_draft;
mod run_hook;
mod set;
mod verdict;

use std::sync::Arc;

use haft_core::{Message, ToolOutput, ToolResult, agent::AgentStep, call::BoxError, export::async_trait};
use serde_json::Value;

use crate::{dialect::Reply, output::Output};

pub use clear_tool_results::ClearToolResults;
pub use context::HookContext;
pub use earlier_turns::EarlierTurns;
pub use guardrail::{Guardrail, HookFailure};
pub use request_draft::RequestDraft;
pub use verdict::{Judgement, Verdict};

pub(crate) use closure::Closure;
pub(crate) use request_draft::{PreparedListCache, join_instructions};
pub(crate) use run_hook::{run_hook, run_host_code};
pub(crate) use set::{HookSet, NamedHook};

/// The result of a hook: its verdict, or an error that ends the run with
/// [`AgentErrorKind::HookFailed`](haft_core::agent::AgentErrorKind::HookFailed).
pub type HookResult<T> = Result<Verdict<T>, BoxError>;

/// Code of the host program that runs at events of a run. Implement [`runs_at`](Self::runs_at) and
/// the methods of these events.
///
/// [`ReactAgentBuilder::hook`](crate::ReactAgentBuilder::hook) and
/// [`Extension::hook`](crate::Extension::hook) add a hook. A closure for one event is shorter:
/// [`Guardrail`], [`prepare`](crate::Extension::prepare),
/// [`dynamic_instructions`](crate::Extension::dynamic_instructions),
/// [`history_processor`](crate::Extension::history_processor),
/// [`after_reply`](crate::Extension::after_reply), [`after_calls`](crate::Extension::after_calls)
/// and [`output_validator`](crate::Extension::output_validator).
///
/// At each event, the hooks run in the order in which they were added, each on its own tokio task.
/// Each hook receives the data that the previous hook returned. The first verdict other than
/// [`Pass`](Verdict::Pass) and [`Replace`](Verdict::Replace) decides, and the later hooks do not
/// run. A hook that fails, panics or exceeds its [timeout](crate::ReactAgentBuilder::hook_timeout)
/// ends the run.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, export::async_trait, tool};
/// use haft_react::{Hook, ReactAgent, Verdict, hook::{CallArguments, HookContext, HookEvent, HookResult}};
/// use haft_testing::ScriptedModel;
/// use serde_json::Value;
///
/// /// Deletes a file.
/// #[tool]
/// fn delete(file: String) -> String {
///     format!("{file} is gone")
/// }
///
/// /// Blocks calls with a path outside of the folder `tmp`.
/// struct OnlyTmp;
///
/// #[async_trait]
/// impl Hook for OnlyTmp {
///     fn name(&self) -> &str {
///         "only tmp"
///     }
///
///     fn runs_at(&self, event: HookEvent) -> bool {
///         event == HookEvent::Call
///     }
///
///     async fn before_call(&self, call: CallArguments, _: &HookContext) -> HookResult<Value> {
///         let is_tmp = call.arguments["file"].as_str().is_some_and(|file| file.starts_with("tmp/") && !file.contains(".."));
///         Ok(if is_tmp { Verdict::Pass } else { Verdict::block("only files in tmp/ can be deleted") })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new().reply_calls([("1", "delete", r#"{"file":"/etc/passwd"}"#)]).reply_text("I cannot.");
/// let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(Delete)).hook(OnlyTmp).build()?;
/// let answer = agent.run("Delete the passwords.").await?.into_answer()?;
/// assert_eq!(answer.steps[0].result.model_text(), "denied: only files in tmp/ can be deleted");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait Hook: Send + Sync {
    /// Returns the name of the hook in reports and errors. A hook without a name (`""`, the
    /// default) has no [reports](haft_core::agent::RunAnswer::guardrails).
    fn name(&self) -> &str {
        ""
    }

    /// Returns `true` for the events at which the hook runs. The other events cost nothing and have
    /// no report.
    fn runs_at(&self, event: HookEvent) -> bool;

    /// Judges new messages of the user, once, before the first request that contains them: the
    /// input of the run, [enqueued](crate::Run::enqueue) messages, and messages of an earlier run
    /// without a reply.
    ///
    /// A replacement has one message for each message. The transcript keeps the original messages;
    /// requests, also those of later runs, contain the replacements, or a note in place of messages
    /// that were blocked or ended the run. A blocked input ends the run with the text as its
    /// answer.
    async fn on_input(&self, _messages: Vec<Arc<Message>>, _cx: &HookContext) -> HookResult<Vec<Message>> {
        Ok(Verdict::Pass)
    }

    /// Judges or changes each request before it is sent: its messages, tools, instructions,
    /// settings, model and dialect. Also runs before the open calls of a resumed run are executed,
    /// which are executed with the tools that the hook has kept.
    async fn before_request(&self, _request: RequestDraft, _cx: &HookContext) -> HookResult<RequestDraft> {
        Ok(Verdict::Pass)
    }

    /// Judges or changes each complete reply before the run reads it. Calls that the model wrote as
    /// text are tool calls here. The usage of the reply cannot be changed. Streamed deltas contain
    /// the original reply.
    async fn after_reply(&self, _reply: Reply, _cx: &HookContext) -> HookResult<Reply> {
        Ok(Verdict::Pass)
    }

    /// Judges the arguments of a call, after their repair and validation, and before an approval is
    /// requested. No call of a reply starts before the hooks have judged all of its calls. Invalid
    /// calls, and calls beyond the [maximum number](haft_core::tool::ToolPolicy::max_calls), do not
    /// run and are not judged. A replacement has the new arguments, which are validated again. If
    /// an approver changes the arguments of a call, it is judged again.
    async fn before_call(&self, _call: CallArguments, _cx: &HookContext) -> HookResult<Value> {
        Ok(Verdict::Pass)
    }

    /// Judges the result of a call, also a failure, before it is recorded and emitted. A
    /// replacement must fit the output schema of the tool.
    async fn after_call(&self, _result: ToolResult, _cx: &HookContext) -> HookResult<ToolOutput> {
        Ok(Verdict::Pass)
    }

    /// Judges the calls of a reply with their results, after the last of them and before the next
    /// request. A replacement ends the run with this output, for example
    /// [`Output::of_results`]; its stop reason is
    /// [`StopReason::Tool`](haft_core::agent::StopReason::Tool). Does not run if a stop tool or a
    /// hand-off succeeded, or if a limit closed the calls.
    async fn after_calls(&self, _calls: Arc<[AgentStep]>, _cx: &HookContext) -> HookResult<Output> {
        Ok(Verdict::Pass)
    }

    /// Judges the answer before the run ends. Refusals are not judged. With
    /// [`Retry`](Verdict::Retry), the model answers again, at most
    /// [`max_output_retries`](crate::RunConfig::max_output_retries) times in a row. A replacement
    /// must fit the declared schema. Streamed deltas of the answer precede the verdict.
    async fn on_answer(&self, _output: Output, _cx: &HookContext) -> HookResult<Output> {
        Ok(Verdict::Pass)
    }
}

/// The events at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookEvent {
    /// [`Hook::on_input`].
    Input,
    /// [`Hook::before_request`].
    Request,
    /// [`Hook::after_reply`].
    Reply,
    /// [`Hook::before_call`].
    Call,
    /// [`Hook::after_call`].
    Result,
    /// [`Hook::after_calls`].
    Results,
    /// [`Hook::on_answer`].
    Answer,
}

/// A call, as judged by [`Hook::before_call`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallArguments {
    /// The id of the call.
    pub call_id: String,
    /// The name of the called tool.
    pub tool: String,
    /// The repaired and validated arguments.
    pub arguments: Value,
}
