//! The one way that every call takes: find → parse → repair → validate → gate → call → catch → check → bound →
//! record.
//!
//! No front door has its own copy: an agent, a server, a direct call and a test all come through
//! [`Pipeline::call`].

mod arguments;
mod batch;
mod bound;
mod check;
mod find;
mod gate;
mod invoke;
mod record;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use futures::FutureExt as _;
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::{
    MemoryResultStore, Pending, PendingCall, PendingKind, Repair, RepairPolicy, ResultStore, Timestamp, Tool,
    ToolCall, ToolContext, ToolDefinition, ToolError, ToolList, ToolOutcome, ToolResult, limits,
};

pub use batch::Batch;
pub(crate) use bound::media_bytes;
pub(crate) use find::unknown_tool;
pub use record::{CallRecord, Recorder};

use bound::Bound;
use invoke::{Runner, panicked};
use record::Recording;

/// Runs calls. Cheap to clone; clones share the store and the recorder.
///
/// # Examples
///
/// ```
/// use haft_core::{Pipeline, RepairPolicy, Toolset};
///
/// let strict = Pipeline::new().with_repair(RepairPolicy::Strict);
/// let tools = Toolset::new().with_pipeline(strict);
/// ```
#[derive(Clone)]
pub struct Pipeline {
    repair: RepairPolicy,
    store: Option<Arc<dyn ResultStore>>,
    recorder: Option<Arc<dyn Recorder>>,
    runner: Runner,
}

/// What came of a call: a result, or the need to wait.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// The call ended.
    Finished(ToolResult),
    /// The call waits for somebody.
    Pending(PendingCall),
}

impl CallOutcome {
    /// The result; for a caller who cannot wait, a call that must is a failure.
    pub fn into_result(self) -> ToolResult {
        match self {
            Self::Finished(result) => result,
            Self::Pending(PendingCall { call, pending }) => {
                let error = match pending.kind {
                    PendingKind::Approval { .. } => ToolError::Denied(
                        "it needs an approval, and this caller cannot wait for one".to_owned(),
                    ),
                    _ => ToolError::failed("it waits for an answer, and this caller cannot wait for one"),
                };
                ToolResult::failed(call.id, call.name, &error)
            }
        }
    }
}

/// Repairs arguments, keeps long results in memory, records nothing.
impl Default for Pipeline {
    fn default() -> Self {
        Self { store: Some(Arc::new(MemoryResultStore::default())), ..Self::unbounded() }
    }
}

/// The arguments of a call: text as a model writes it, or a value as a program has it.
enum Arguments<'a> {
    Text(&'a str),
    Value(Value),
}

/// What is learned of a call on its way.
struct Notes<'a> {
    definition: &'a OnceLock<ToolDefinition>,
    repairs: Vec<Repair>,
    /// What whoever reads the result should know of the call.
    warning: Option<String>,
}

impl Pipeline {
    /// Makes the default pipeline: it repairs arguments and keeps long results in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a pipeline that never shortens a result: for programs, which read all of it.
    pub fn unbounded() -> Self {
        Self { repair: RepairPolicy::default(), store: None, recorder: None, runner: Runner::default() }
    }

    /// Sets whether arguments that do not fit are repaired.
    #[must_use]
    pub fn with_repair(mut self, policy: RepairPolicy) -> Self {
        self.repair = policy;
        self
    }

    /// Sets where the whole of a long result is kept.
    #[must_use]
    pub fn with_store(mut self, store: impl ResultStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets who is told of every call.
    #[must_use]
    pub fn with_recorder(mut self, recorder: impl Recorder + 'static) -> Self {
        self.recorder = Some(Arc::new(recorder));
        self
    }

    /// Where the whole of a long result is kept.
    pub fn store(&self) -> Option<&Arc<dyn ResultStore>> {
        self.store.as_ref()
    }

    /// How many calls were given up at their deadline and run on all the same, because their code blocks.
    pub fn abandoned_calls(&self) -> usize {
        self.runner.abandoned()
    }

    /// Runs one call on the caller's task.
    ///
    /// It survives a panic of the tool, not code that blocks the thread: for that, see [`batch`](Self::batch).
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the tool. An effect that was under way may have happened.
    pub async fn call(&self, tools: &ToolList, call: &ToolCall, cx: &ToolContext) -> CallOutcome {
        let tool = find::find(tools, &call.name).map(|tool| &**tool);
        self.run(tool, call, Arguments::Text(&call.arguments), cx, invoke::Host::Caller).await
    }

    /// Runs one call of a tool at hand, with a value for arguments, on the caller's task.
    ///
    /// # Cancellation
    ///
    /// As for [`call`](Self::call).
    pub async fn call_tool(&self, tool: &dyn Tool, arguments: Value, cx: &ToolContext) -> CallOutcome {
        let call = ToolCall::new(cx.call_id(), tool.definition().name().as_str(), arguments.to_string());
        self.run(Ok(tool), &call, Arguments::Value(arguments), cx, invoke::Host::Caller).await
    }

    async fn run(
        &self,
        tool: Result<&dyn Tool, ToolError>,
        call: &ToolCall,
        arguments: Arguments<'_>,
        cx: &ToolContext,
        host: invoke::Host<'_>,
    ) -> CallOutcome {
        let span = tracing::info_span!(
            "execute_tool",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = call.name,
            gen_ai.tool.call.id = call.id,
        );
        let (started_at, started) = (Timestamp::now(), Instant::now());
        let definition = OnceLock::new();
        let recording = self.recorder.as_deref().map(|recorder| Recording {
            recorder,
            definition: &definition,
            call,
            context: cx,
            is_over: false,
        });
        let mut notes = Notes { definition: &definition, repairs: Vec::new(), warning: None };
        let way = async {
            let tool = tool?;
            self.take_through(tool, arguments, cx, host, started, &mut notes).await
        };
        // Whatever panics on the way, the tool or what stands around it, costs this call only.
        let way = AssertUnwindSafe(way).catch_unwind();
        let outcome = way.instrument(span.clone()).await.unwrap_or_else(|panic| Err(panicked(&*panic)));
        let result = match outcome {
            Ok(ToolOutcome::Done(output)) => Ok(ToolResult::done(&call.id, &call.name, output)),
            Ok(ToolOutcome::Pending(pending)) => Err(PendingCall { call: call.clone(), pending }),
            Err(error) => Ok(span.in_scope(|| record::failure(call, &error))),
        };
        let outcome = match result {
            Err(pending) => CallOutcome::Pending(pending),
            Ok(result) => {
                let repairs = notes.repairs;
                let mut result = ToolResult { repairs, started_at, duration: started.elapsed(), ..result };
                result.warnings.extend(notes.warning);
                if let Some(store) = &self.store {
                    let limit = definition.get().map_or(limits::RESULT_BYTES, |it| it.policy().output_limit);
                    Bound { limit, store: &**store, cx }.apply(&mut result).await;
                }
                CallOutcome::Finished(result)
            }
        };
        if let Some(recording) = recording {
            recording.end(&outcome);
        }
        outcome
    }

    /// The way of a call whose tool was found.
    async fn take_through(
        &self,
        tool: &dyn Tool,
        arguments: Arguments<'_>,
        cx: &ToolContext,
        host: invoke::Host<'_>,
        started: Instant,
        notes: &mut Notes<'_>,
    ) -> Result<ToolOutcome, ToolError> {
        let definition = notes.definition.get_or_init(|| tool.definition().clone());
        let arguments = match arguments {
            Arguments::Text(text) => arguments::parse(text, self.repair, notes)?,
            Arguments::Value(value) => value,
        };
        let arguments = arguments::fit(definition, arguments, self.repair, notes)?;
        let outcome = match gate::pass(definition, arguments, cx)? {
            gate::Passage::Open { arguments, approved, are_others } => {
                notes.warning =
                    are_others.then(|| format!("it was approved with other arguments: {arguments}"));
                match self.runner.invoke(host, tool, arguments, cx, started).await? {
                    ToolOutcome::Pending(pending) => ToolOutcome::Pending(Pending { approved, ..pending }),
                    done => done,
                }
            }
            gate::Passage::Answered(output) => ToolOutcome::Done(output),
            gate::Passage::Waits(pending) => ToolOutcome::Pending(pending),
        };
        if let ToolOutcome::Done(output) = &outcome {
            check::check(definition, output)?;
        }
        Ok(outcome)
    }
}
