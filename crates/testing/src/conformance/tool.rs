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

use super::{GLANCE, PATIENCE, Promise, Report, comes_true, within};
use crate::example;
use haft_core::{
    Pipeline, Tool, ToolCall, ToolContext, ToolDefinition, ToolError, call::ToolOutcome, pipeline::Batch,
    tool::RunContext, toolset::ToolList,
};

const STABLE: Promise = Promise {
    what: "the definition is the same at every call",
    remedy: "make the definition once and keep it in the tool",
};
const USABLE: Promise = Promise {
    what: "the definition can be used",
    remedy: "mend what it says: `Toolset::check` tells the same before a program starts",
};
const ACCEPTS: Promise = Promise {
    what: "arguments that fit the schema are taken",
    remedy: "say in the schema what the tool really takes; or, where the made-up arguments mean nothing, give some by `arguments`",
};
const SUCCEEDS: Promise = Promise {
    what: "a call with arguments that were given for it goes well",
    remedy: "give the check arguments and a context with which the tool works: what fails is not looked at further",
};
const CALM: Promise = Promise {
    what: "a call does not panic",
    remedy: "return an error: `ToolError::Failed` says what the model reads",
};
const GOES_ON: Promise = Promise {
    what: "a call that goes wrong costs itself",
    remedy: "give the check what the tool needs by `context`; keep `ToolError::Fatal` for what must stop the run",
};
const RESULT: Promise = Promise {
    what: "a result fits the output schema",
    remedy: "return `ToolOutput::structured` of a value that fits, or declare what is returned",
};
const CANCELLED: Promise = Promise {
    what: "a call that is cancelled ends",
    remedy: "do not block in `call`: await, or move the work to `spawn_blocking` and let it end when the context's token is cancelled",
};
const DROPPED: Promise = Promise {
    what: "dropping a call ends it",
    remedy: "own what is spawned: abort it when the future of the call is dropped",
};

/// What came of a call, or of the task that it ran on.
type Called = Result<Result<ToolOutcome, ToolError>, JoinError>;

/// For how many glances it is waited that a call begins.
const GLANCES: usize = 1_000;

/// Checks a tool: see [`tool`].
#[must_use = "a check does nothing until it is awaited"]
pub struct ToolCheck {
    tool: Arc<dyn Tool>,
    arguments: Option<Value>,
    run: RunContext,
    patience: Duration,
}

/// Checks what [`Tool`] promises: a definition that stays and can be used; arguments that fit the schema are taken; no panic, also with
/// arguments that do not fit, which a pipeline keeps from it and another caller may not; results that fit their schema; calls that end when they are cancelled or dropped.
///
/// The tool is called some times, with arguments made from its schema unless some are [given](ToolCheck::arguments). Where it fails with those that
/// were made, which need not mean anything, its results are not looked at: give it some with which it goes well.
pub fn tool(tool: impl Tool + 'static) -> ToolCheck {
    ToolCheck { tool: Arc::new(tool), arguments: None, run: RunContext::default(), patience: PATIENCE }
}

impl ToolCheck {
    /// Calls the tool with these arguments, with which it must go well.
    pub fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = Some(arguments);
        self
    }

    /// Calls the tool in this context: state, principal. Its token is not used.
    pub fn context(mut self, run: RunContext) -> Self {
        self.run = run;
        self
    }

    /// Sets how long each call may take to end. Default: five seconds.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    async fn run(self) -> Report {
        let Ok(definition) = catch_unwind(AssertUnwindSafe(|| self.tool.definition().clone())) else {
            let mut report = Report::new("the tool");
            report.add(CALM, "asking for the definition panics");
            return report;
        };
        let mut report = Report::new(format!("tool \"{}\"", definition.name()));
        let again = (0..3).map(|_| self.tool.definition().clone());
        report
            .hold(STABLE, again.into_iter().all(|it| it == definition), || "it changes by itself".to_owned());
        if let Some(defect) = definition.defect() {
            report.add(USABLE, defect);
            return report;
        }
        let arguments = match &self.arguments {
            Some(arguments) => Ok(arguments.clone()),
            None => example(definition.input_schema()),
        };
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(error) => {
                report.add(ACCEPTS, error.to_string());
                return report;
            }
        };
        self.call(&definition, &arguments, &mut report).await;
        if report.findings.iter().all(|finding| finding.promise != CALM.what) {
            self.call_wrongly(&definition, &arguments, &mut report).await;
        }
        self.interrupt(&definition, &arguments, &mut report).await;
        report
    }

    fn context_of(&self, cancellation: &CancellationToken) -> Arc<RunContext> {
        Arc::new(RunContext { cancellation: cancellation.clone(), ..self.run.clone() })
    }

    /// One call, without the pipeline around it, which would catch what goes wrong.
    async fn call(&self, definition: &ToolDefinition, arguments: &Value, report: &mut Report) {
        let output = match self.call_directly(arguments).await {
            // A call may take longer than anybody waits here.
            None => return,
            Some(Err(_panic)) => {
                return report.add(CALM, format!("it panics when it is called with {arguments}"));
            }
            Some(Ok(Err(ToolError::InvalidArguments(reason)))) => {
                return report.add(ACCEPTS, format!("{arguments} is refused: {reason}"));
            }
            Some(Ok(Err(ToolError::Fatal(reason)))) => return report.add(GOES_ON, reason),
            Some(Ok(Err(error))) => {
                return report.hold(SUCCEEDS, self.arguments.is_none(), || format!("it fails: {error}"));
            }
            Some(Ok(Ok(ToolOutcome::Pending(_)))) => return,
            Some(Ok(Ok(ToolOutcome::Done(output)))) => output,
        };
        match (definition.output_schema(), &output.structured) {
            (None, _) => {}
            (Some(_), None) => {
                report.add(RESULT, "there is an output schema, and the result has no structured content");
            }
            (Some(schema), Some(value)) => {
                if let Err(violations) = schema.validate(value) {
                    report.add(RESULT, violations.to_string());
                }
            }
        }
    }

    /// Calls that a pipeline would refuse. What they come to is the tool's affair, as long as it comes to something.
    async fn call_wrongly(&self, definition: &ToolDefinition, arguments: &Value, report: &mut Report) {
        for wrong in misfits(definition, arguments) {
            match self.call_directly(&wrong).await {
                Some(Ok(_)) => {}
                // One tells what is wrong with it.
                Some(Err(_panic)) => {
                    return report.add(CALM, format!("it panics when it is called with {wrong}"));
                }
                // The next one would take as long.
                None => return,
            }
        }
    }

    /// A call without a pipeline, which would catch what goes wrong; `None` for one that takes too long.
    async fn call_directly(&self, arguments: &Value) -> Option<Called> {
        let cx = ToolContext::new(self.context_of(&CancellationToken::new()), "check");
        let (tool, arguments) = (Arc::clone(&self.tool), arguments.clone());
        // On a task of its own: code that blocks must not hold up who waits here.
        let mut call = JoinSet::new();
        call.spawn(async move { tool.call(arguments, &cx).await });
        within(self.patience, call.join_next()).await.flatten()
    }

    /// A call that is cancelled under way, and one that is dropped.
    async fn interrupt(&self, definition: &ToolDefinition, arguments: &Value, report: &mut Report) {
        for (promise, is_cancelled) in [(CANCELLED, true), (DROPPED, false)] {
            let pipeline = Pipeline::unbounded();
            let begun = Arc::new(AtomicBool::new(false));
            let watched = Watched { tool: Arc::clone(&self.tool), begun: Arc::clone(&begun) };
            let cancellation = CancellationToken::new();
            let call = ToolCall::new("check", definition.name().as_str(), arguments.to_string());
            let mut calls = Box::pin(pipeline.batch(Batch {
                tools: ToolList::new("check", [watched]),
                calls: vec![call],
                run: self.context_of(&cancellation),
                ..Batch::default()
            }));
            // It begins on a task of its own.
            let mut is_over = false;
            for _ in 0..GLANCES {
                is_over = within(GLANCE, calls.next()).await.is_some();
                if is_over || begun.load(Ordering::Relaxed) {
                    break;
                }
            }
            if is_over {
                continue;
            }
            if is_cancelled {
                cancellation.cancel();
                drop(within(self.patience, calls.next()).await);
            }
            drop(calls);
            let ended = comes_true(self.patience, || pipeline.abandoned_calls() == 0).await;
            report.hold(promise, ended, || format!("it still runs after {:?}", self.patience));
        }
    }
}

/// A tool that notes when it is called.
struct Watched {
    tool: Arc<dyn Tool>,
    begun: Arc<AtomicBool>,
}

#[async_trait]
impl Tool for Watched {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        self.begun.store(true, Ordering::Relaxed);
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

/// Arguments that do not fit: no object, and each member in turn left out or of another kind.
fn misfits(definition: &ToolDefinition, arguments: &Value) -> Vec<Value> {
    let mut wrong = vec![Value::Null, Value::from("text"), Value::Array(Vec::new())];
    for name in arguments.as_object().into_iter().flat_map(|members| members.keys()) {
        for other in [None, Some(Value::Array(vec![Value::Null])), Some(Value::from("\u{0}"))] {
            let mut changed = arguments.clone();
            if let Some(members) = changed.as_object_mut() {
                drop(members.remove(name));
                members.extend(other.map(|other| (name.clone(), other)));
            }
            wrong.push(changed);
        }
    }
    wrong.retain(|value| !definition.input_schema().is_valid(value));
    wrong
}

impl std::fmt::Debug for ToolCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCheck").finish_non_exhaustive()
    }
}
