use std::{
    future::IntoFuture,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{DEFAULT_TIMEOUT, POLL_INTERVAL, Report, Rule, wait_until, with_timeout};
use crate::generate_example;
use haft_core::{
    Pipeline, Tool, ToolCall, ToolContext, ToolDefinition, ToolError,
    call::{FailureKind, ToolResponse},
    pipeline::Batch,
    tool::RunContext,
    toolset::ToolList,
};

const DEFINITION_CONSTANT: Rule = Rule {
    text: "the definition is valid and constant",
    remedy: "create the definition once and store it in the tool; `Toolset::check` reports the same defect at startup",
};
const ACCEPTS_VALID_ARGUMENTS: Rule = Rule {
    text: "a call with valid arguments succeeds",
    remedy: "describe the accepted arguments in the schema; set arguments and a context with which the tool succeeds",
};
const NO_PANIC: Rule = Rule {
    text: "a call does not panic",
    remedy: "return an error: `ToolError::Failed` says what the model reads",
};
const RESULT_MATCHES_SCHEMA: Rule = Rule {
    text: "a result matches the output schema",
    remedy: "return `ToolOutput::structured` with a matching value, or correct the output schema",
};
const CANCELLED_CALL_ENDS: Rule = Rule {
    text: "a cancelled call ends",
    remedy: "do not block in `call`, and abort spawned tasks when its future is dropped; end `spawn_blocking` when the context's token is cancelled",
};

/// The result of a tool call in a spawned task. The outer `Err` means that the task panicked.
type TaskResult = Result<Result<ToolResponse, ToolError>, JoinError>;

/// The maximum number of polls while the check waits for a call to start. The interval between
/// polls is [`POLL_INTERVAL`].
const MAX_POLLS: usize = 1_000;

/// A conformance check of a tool, created by [`tool`]. It runs when it is awaited.
#[must_use = "a check does nothing unless awaited"]
pub struct ToolCheck {
    tool: Arc<dyn Tool>,
    arguments: Option<Value>,
    run_context: RunContext,
    timeout: Duration,
}

/// Creates a check of `tool` against these rules of the [`Tool`] contract:
///
/// - the definition is valid and does not change
/// - a call with valid arguments does not fail with [`ToolError::InvalidArguments`] or
///   [`ToolError::Fatal`], and does not panic
/// - results match the output schema
/// - cancelled calls end
///
/// The check calls the tool several times. The arguments are generated from its schema, unless the
/// caller [sets](ToolCheck::arguments) them. Generated arguments are valid but meaningless, so the
/// tool may fail with them. Results are checked only for successful calls.
pub fn tool(tool: impl Tool + 'static) -> ToolCheck {
    ToolCheck {
        tool: Arc::new(tool),
        arguments: None,
        run_context: RunContext::default(),
        timeout: DEFAULT_TIMEOUT,
    }
}

impl ToolCheck {
    /// Sets the arguments of the tool calls. The check then also requires that the tool succeeds.
    pub fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = Some(arguments);
        self
    }

    /// Sets the context of the calls, for example with a state and a principal. The check replaces
    /// the cancellation token of the context, so that it can cancel each call separately.
    pub fn context(mut self, run: RunContext) -> Self {
        self.run_context = run;
        self
    }

    /// Sets the timeout of each call. A cancelled call must end within the same time.
    /// Default: 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn run(self) -> Report {
        let Ok(definition) = catch_unwind(AssertUnwindSafe(|| self.tool.definition().clone())) else {
            let mut report = Report::new("the tool");
            report.add_finding(NO_PANIC, "`definition` panics");
            return report;
        };
        let mut report = Report::new(format!("tool \"{}\"", definition.name()));
        let again = (0..3).map(|_| self.tool.definition().clone());
        report.require(DEFINITION_CONSTANT, again.into_iter().all(|it| it == definition), || {
            "it changes between calls".to_owned()
        });
        if let Some(defect) = definition.defect() {
            report.add_finding(DEFINITION_CONSTANT, defect);
            return report;
        }
        let arguments = match &self.arguments {
            Some(arguments) => Ok(arguments.clone()),
            None => generate_example(definition.input_schema()),
        };
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(error) => {
                report.add_finding(ACCEPTS_VALID_ARGUMENTS, error.to_string());
                return report;
            }
        };
        self.call(&definition, &arguments, &mut report).await;
        self.cancel(&definition, &arguments, &mut report).await;
        report
    }

    fn call_context(&self, cancellation: &CancellationToken) -> Arc<RunContext> {
        Arc::new(RunContext { cancellation: cancellation.clone(), ..self.run_context.clone() })
    }

    /// Calls the tool with valid `arguments` and checks the result. The call bypasses the pipeline,
    /// because the pipeline would catch a panic and validate the result itself.
    async fn call(&self, definition: &ToolDefinition, arguments: &Value, report: &mut Report) {
        let output = match self.call_directly(arguments).await {
            // A slow call does not violate the contract, so a timeout is not a finding.
            None => return,
            Some(Err(_panic)) => {
                return report.add_finding(NO_PANIC, format!("it panics when it is called with {arguments}"));
            }
            Some(Ok(Err(error))) => {
                let is_accepted = !matches!(error.kind(), FailureKind::InvalidArguments | FailureKind::Fatal);
                // Generated arguments make no sense to many tools.
                return report.require(
                    ACCEPTS_VALID_ARGUMENTS,
                    is_accepted && self.arguments.is_none(),
                    || format!("{arguments} fails: {error}"),
                );
            }
            Some(Ok(Ok(ToolResponse::Pending(_)))) => return,
            Some(Ok(Ok(ToolResponse::Done(output)))) => output,
        };
        if let Err(error) = definition.check_output(&output) {
            report.add_finding(RESULT_MATCHES_SCHEMA, error.to_string());
        }
    }

    /// Calls the tool with `arguments` in a spawned task, without a pipeline. Returns `None` if the
    /// call takes longer than the timeout.
    async fn call_directly(&self, arguments: &Value) -> Option<TaskResult> {
        let cx = ToolContext::new(self.call_context(&CancellationToken::new()), "check");
        let (tool, arguments) = (Arc::clone(&self.tool), arguments.clone());
        // Spawn a task, so that a tool that blocks its thread does not block the check.
        let mut call = JoinSet::new();
        call.spawn(async move { tool.call(arguments, &cx).await });
        with_timeout(self.timeout, call.join_next()).await.flatten()
    }

    /// Cancels a call in progress, and checks that it ends.
    async fn cancel(&self, definition: &ToolDefinition, arguments: &Value, report: &mut Report) {
        let pipeline = Pipeline::unbounded();
        let started = Arc::new(AtomicBool::new(false));
        let probe = StartProbe { tool: Arc::clone(&self.tool), started: Arc::clone(&started) };
        let cancellation = CancellationToken::new();
        let call = ToolCall::new("check", definition.name().as_str(), arguments.to_string());
        let mut calls = Box::pin(pipeline.stream_batch(Batch {
            run_context: self.call_context(&cancellation),
            ..Batch::new(ToolList::new("check", [probe]), [call])
        }));
        // The pipeline starts the call on another task. Wait until the call has started.
        for _ in 0..MAX_POLLS {
            if with_timeout(POLL_INTERVAL, calls.next()).await.is_some() {
                return;
            }
            if started.load(Ordering::Relaxed) {
                break;
            }
        }
        cancellation.cancel();
        drop(with_timeout(self.timeout, calls.next()).await);
        drop(calls);
        let ended = wait_until(self.timeout, || pipeline.abandoned_calls() == 0).await;
        report.require(CANCELLED_CALL_ENDS, ended, || format!("it still runs after {:?}", self.timeout));
    }
}

/// A tool that sets `started` when it is called, and then calls `tool`.
struct StartProbe {
    tool: Arc<dyn Tool>,
    started: Arc<AtomicBool>,
}

#[async_trait]
impl Tool for StartProbe {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        self.started.store(true, Ordering::Relaxed);
        self.tool.call(arguments, cx).await
    }
}

impl IntoFuture for ToolCheck {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}

impl std::fmt::Debug for ToolCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCheck").finish_non_exhaustive()
    }
}
