//! Tests of the hooks and defaults of a pipeline, and of calls as a model wrote them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use haft_core::{
    Json, Pipeline, Tool as _, ToolCall, ToolContext, ToolError, ToolExt as _, Toolset,
    call::{Decision, FailureKind, Pending, PendingKind, ToolResponse, ToolResult},
    export::async_trait,
    pipeline::{Batch, BatchCall, CallOutcome, InvalidCall, RepairHook},
    schema::{RepairKind, RepairPolicy},
    tool,
    tool::{FailedAttempts, ToolPolicy},
    toolset::{ListContext, ToolsetError},
};
use serde_json::{Value, json};

#[tool]
fn double(n: i64) -> i64 {
    2 * n
}

#[tool]
async fn hang() {
    std::future::pending::<()>().await;
}

#[tool]
fn crash() {
    if true {
        panic!("secret");
    }
}

#[tool]
fn retry() -> Result<(), ToolError> {
    Err(ToolError::retry("use fewer words"))
}

#[tool]
fn fail() -> Result<(), std::num::ParseIntError> {
    "x".parse::<i64>().map(drop)
}

fn tools() -> Toolset {
    Toolset::new().with_tools((Double, Hang, Crash, Retry, Fail))
}

/// Renames each failure, so that a test sees which hook replaced it.
fn naming_pipeline(name: &'static str) -> Pipeline {
    Pipeline::new().with_failure_hook(move |failed| {
        let tool = failed.definition.map_or("(none)", |it| it.name().as_str());
        Some(failed.with_message(format!("{name}: {:?} of {tool}", failed.failure.kind)))
    })
}

async fn run(tools: &Toolset, name: &str, arguments: &str) -> ToolResult {
    tools.run(&ToolCall::new("call_1", name, arguments)).await
}

/// A hook of the host replaces the text of any failure: invalid arguments, unknown tools, denials,
/// errors, retries, timeouts and panics. The kind stays the same.
#[tokio::test(start_paused = true)]
async fn failure_hook_replaces_the_text_of_each_failure() {
    let tools = tools()
        .with_tool(Double.with_definition(|it| it.with_name("guarded")).with_approval())
        .with_pipeline(naming_pipeline("hook"));
    let calls = [
        ("double", r#"{"n": "#),
        ("double", r#"{"n": "many"}"#),
        ("double", r#"{"n": 21}"#),
        ("unknown", "{}"),
        ("hang", "{}"),
        ("crash", "{}"),
        ("retry", "{}"),
        ("fail", "{}"),
    ];
    let mut lines = String::new();
    for (name, arguments) in calls {
        let result = run(&tools, name, arguments).await;
        lines += &format!("{name} {arguments} -> {}\n", result.model_text());
    }
    expect![[r#"
        double {"n":  -> hook: InvalidArguments of double
        double {"n": "many"} -> hook: InvalidArguments of double
        double {"n": 21} -> 42
        unknown {} -> hook: NotFound of (none)
        hang {} -> hook: TimedOut of hang
        crash {} -> hook: Failed of crash
        retry {} -> hook: Retry of retry
        fail {} -> hook: Failed of fail
    "#]]
    .assert_eq(&lines);
}

/// The hook of a tool precedes the hook of its toolset, and this one the hook of the outer toolset,
/// also behind adaptors. `None` and a panic keep the failure.
#[tokio::test]
async fn nearest_failure_hook_wins() {
    let own = Fail.map_policy(|it| it.with_failure_hook(|failed| Some(failed.with_message("own"))));
    let silent = |name: &str| {
        Fail.with_definition(|it| it.with_name(name)).map_policy(|it| it.with_failure_hook(|_| None))
    };
    let panics = Fail
        .with_definition(|it| it.with_name("panics"))
        .map_policy(|it| it.with_failure_hook(|_| panic!("a bug in the hook")));
    let inner = Toolset::new()
        .with_tool(own)
        .with_tool(silent("silent"))
        .with_pipeline(naming_pipeline("inner"))
        .prefixed("in_");
    let outer = Toolset::new()
        .with_source(inner)
        .with_tool(silent("outside"))
        .with_tool(panics)
        .with_pipeline(naming_pipeline("outer"));
    let mut texts = Vec::new();
    for name in ["in_fail", "in_silent", "outside", "panics"] {
        texts.push(run(&outer, name, "{}").await.model_text().into_owned());
    }
    expect![[
        r#"["own", "inner: Failed of in_silent", "outer: Failed of outside", "outer: Failed of panics"]"#
    ]]
    .assert_eq(&format!("{texts:?}"));

    let kept = Toolset::new()
        .with_tool(Fail)
        .with_pipeline(Pipeline::new().with_failure_hook(|_| None).with_failure_hook(|_| panic!("a bug")));
    assert_eq!(run(&kept, "fail", "{}").await.model_text(), "invalid digit found in string");
}

/// A hook reads the source of the error, and can turn a failure into a fatal error.
#[tokio::test]
async fn failure_hook_can_make_a_failure_fatal() {
    let pipeline = Pipeline::new().with_failure_hook(|failed| {
        let source = failed.source?.downcast_ref::<std::num::ParseIntError>()?;
        Some(failed.fatal(format!("stop: {:?}", source.kind())))
    });
    let result = run(&tools().with_pipeline(pipeline), "fail", "{}").await;
    let failure = result.failure().unwrap();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Fatal, "stop: InvalidDigit"));
}

/// A repair hook that counts its calls and returns `0`, unless this is null.
struct Fixed(Value, Arc<AtomicUsize>);

#[async_trait]
impl RepairHook for Fixed {
    async fn repair(&self, call: &InvalidCall<'_>) -> Option<Value> {
        assert!(matches!(call.error, ToolError::InvalidArguments(_)));
        assert_eq!(call.definition.name().as_str(), call.call.name);
        self.1.fetch_add(1, Ordering::Relaxed);
        (!self.0.is_null()).then(|| self.0.clone())
    }
}

struct Panics;

#[async_trait]
impl RepairHook for Panics {
    async fn repair(&self, call: &InvalidCall<'_>) -> Option<Value> {
        panic!("a bug: {call:?}")
    }
}

struct Hangs;

#[async_trait]
impl RepairHook for Hangs {
    async fn repair(&self, _: &InvalidCall<'_>) -> Option<Value> {
        std::future::pending().await
    }
}

/// A repair hook receives malformed and invalid arguments. Its arguments are validated again, and
/// the result lists the repair. Without valid arguments, the model reads the original error.
#[tokio::test(start_paused = true)]
async fn repair_hook_repairs_malformed_and_invalid_arguments() {
    let count = Arc::new(AtomicUsize::new(0));
    let fixed = |value: Value| Pipeline::new().with_repair_hook(Fixed(value, Arc::clone(&count)));
    let cases = [
        ("valid", fixed(json!({"n": 1})), r#"{"n": 21}"#),
        ("repaired by haft", fixed(json!({"n": 1})), r#"{"n": "21"}"#),
        ("invalid", fixed(json!({"n": 1})), r#"{"n": "many"}"#),
        ("malformed", fixed(json!({"n": 1})), "n = 21"),
        ("hook repaired by haft", fixed(json!({"n": "1"})), "n = 21"),
        ("still invalid", fixed(json!({"m": 1})), "n = 21"),
        ("none", fixed(Value::Null), "n = 21"),
        ("second hook", fixed(Value::Null).with_repair_hook(Fixed(json!({"n": 3}), Arc::default())), "?"),
        ("panic", Pipeline::new().with_repair_hook(Panics), "?"),
        ("timeout", Pipeline::new().with_repair_hook(Hangs), "?"),
        ("strict", fixed(json!({"n": 1})).with_repair(RepairPolicy::Strict), r#"{"n": "21"}"#),
    ];
    let mut lines = String::new();
    for (case, pipeline, arguments) in cases {
        let result = run(&tools().with_pipeline(pipeline), "double", arguments).await;
        let repairs: Vec<_> = result.repairs.iter().map(ToString::to_string).collect();
        lines += &format!("{case}: {} {repairs:?}\n", result.model_text());
    }
    expect![[r#"
        valid: 42 []
        repaired by haft: 42 ["/n: read a string as the integer that it spells"]
        invalid: 2 ["/: the host program replaced the arguments"]
        malformed: 2 ["/: the host program replaced the arguments"]
        hook repaired by haft: 2 ["/: the host program replaced the arguments"]
        still invalid: invalid arguments: not JSON: expected ident at line 1 column 2; write one JSON object []
        none: invalid arguments: not JSON: expected ident at line 1 column 2; write one JSON object []
        second hook: 6 ["/: the host program replaced the arguments"]
        panic: invalid arguments: not JSON: expected value at line 1 column 1; write one JSON object []
        timeout: invalid arguments: not JSON: expected value at line 1 column 1; write one JSON object []
        strict: 2 ["/: the host program replaced the arguments"]
    "#]].assert_eq(&lines);
    assert_eq!(count.load(Ordering::Relaxed), 7);
}

/// All repair hooks share one time limit. After it, the model reads the original error. After a
/// cancellation, the call is cancelled. In both cases no further hook is started.
#[tokio::test(start_paused = true)]
async fn interrupted_repair_starts_no_further_hook() {
    struct Cancels;

    #[async_trait]
    impl RepairHook for Cancels {
        async fn repair(&self, call: &InvalidCall<'_>) -> Option<Value> {
            call.context.cancellation().cancel();
            std::future::pending().await
        }
    }

    let count = Arc::new(AtomicUsize::new(0));
    let last = || Fixed(json!({"n": 1}), Arc::clone(&count));
    let cases = [
        (Pipeline::new().with_repair_hook(Hangs).with_repair_hook(last()), FailureKind::InvalidArguments),
        (Pipeline::new().with_repair_hook(Cancels).with_repair_hook(last()), FailureKind::Cancelled),
    ];
    for (pipeline, kind) in cases {
        let result = run(&tools().with_pipeline(pipeline), "double", "?").await;
        assert_eq!(result.failure().map(|it| it.kind), Some(kind));
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

/// The repair hook of an outer toolset applies to inner toolsets, unless their pipeline is strict.
/// Unknown tools and arguments that are too long are not repaired.
#[tokio::test]
async fn repair_hook_applies_to_inner_toolsets() {
    let count = Arc::new(AtomicUsize::new(0));
    let inner = |repair| tools().with_pipeline(Pipeline::new().with_repair(repair));
    let outer = Toolset::new()
        .with_source(inner(RepairPolicy::Default).prefixed("a_"))
        .with_source(inner(RepairPolicy::Strict).prefixed("b_"))
        .with_pipeline(Pipeline::new().with_repair_hook(Fixed(json!({"n": 1}), Arc::clone(&count))));
    assert_eq!(run(&outer, "a_double", "?").await.model_text(), "2");
    assert!(!run(&outer, "b_double", "?").await.is_success());
    assert!(!run(&outer, "double", "?").await.is_success());
    let long = format!("{:?}", "x".repeat(haft_core::limits::ARGUMENT_BYTES));
    assert!(!run(&outer, "a_double", &long).await.is_success());
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// The arguments of a call can be repaired before its execution, for a check. The hooks are then
/// not called again.
#[tokio::test]
async fn arguments_are_repaired_before_the_execution() {
    let count = Arc::new(AtomicUsize::new(0));
    let hook = Fixed(json!({"n": 1}), Arc::clone(&count));
    let tools = tools().with_pipeline(Pipeline::new().with_repair_hook(hook));
    let list = tools.list(&ListContext::default()).await;
    let call = ToolCall::new("call_1", "double", "?");
    let (arguments, repairs) =
        tools.pipeline().repair_arguments(&list, &call, &ToolContext::default()).await.unwrap();
    assert_eq!((arguments, &repairs[0].kind), (json!({"n": 1}), &RepairKind::Replaced));

    let batch = Batch::new(list, [BatchCall { is_repaired: true, ..BatchCall::new(call) }]);
    let result = tools.pipeline().call_all(batch).await.remove(0).into_result();
    assert_eq!((result.is_success(), count.load(Ordering::Relaxed)), (false, 1));
}

/// A call with repaired arguments is approved and resumed with them, and the hook runs once.
#[tokio::test]
async fn repaired_call_resumes_without_another_repair() {
    #[tool]
    fn ask(n: i64, #[tool(context)] cx: &ToolContext) -> ToolResponse {
        match cx.decision() {
            Some(Decision::Input { value }) => format!("{n} {value}").into(),
            _ => ToolResponse::Pending(Pending::new(PendingKind::input("Which?"))),
        }
    }

    let count = Arc::new(AtomicUsize::new(0));
    let hook = Fixed(json!({"n": 7}), Arc::clone(&count));
    let tools = Toolset::new()
        .with_tool(Double.with_approval())
        .with_tool(Ask)
        .with_pipeline(Pipeline::new().with_repair_hook(hook));
    let decisions = [("double", Decision::approved()), ("ask", Decision::Input { value: json!("b") })];
    let mut texts = Vec::new();
    for (name, decision) in decisions {
        let call = ToolCall::new("call_1", name, "?");
        let CallOutcome::Pending(pending) = tools.run_with(&call, &ToolContext::default()).await else {
            panic!("{name} is not pending")
        };
        let saved: Pending = serde_json::from_value(serde_json::to_value(&pending.pending).unwrap()).unwrap();
        let cx = ToolContext::default().with_resumed(saved.resume(decision).unwrap());
        texts.push(tools.run_with(&call, &cx).await.into_result().model_text().into_owned());
    }
    assert_eq!((texts, count.load(Ordering::Relaxed)), (vec!["14".to_owned(), "7 \"b\"".to_owned()], 2));
}

/// The timeout of a tool precedes the default of its toolset, and this one the default of the outer
/// toolset. A tool can set the timeout of five minutes explicitly.
#[tokio::test(start_paused = true)]
async fn nearest_timeout_applies() {
    let named = |name: &str| Hang.with_definition(|it| it.with_name(name));
    let inner = Toolset::new()
        .with_tool(named("default"))
        .with_tool(named("own").with_timeout(Duration::from_millis(20)))
        .with_tool(named("long").with_timeout(haft_core::limits::CALL_TIMEOUT))
        .with_timeout(Duration::from_millis(50))
        .filtered(|_| true);
    let plain = Toolset::new().with_tool(named("plain"));
    let outer = Toolset::new().with_source(inner).with_source(plain).with_timeout(Duration::from_millis(70));
    let mut texts = Vec::new();
    for name in ["own", "default", "plain", "long"] {
        texts.push(run(&outer, name, "{}").await.model_text().into_owned());
    }
    let expected = ["20 ms", "50 ms", "70 ms", "300000 ms"].map(|time| format!("timed out after {time}"));
    assert_eq!(texts, expected);
    let unset = Toolset::new().with_tool(Hang);
    assert_eq!(run(&unset, "hang", "{}").await.model_text(), "timed out after 300000 ms");
}

/// A policy with which no call can succeed is a defect of the tool, with a remedy.
#[test]
fn zero_in_a_policy_is_a_defect() {
    let policies = [
        ToolPolicy::default().with_timeout(Duration::ZERO),
        ToolPolicy::default().with_output_limit(0),
        ToolPolicy::default().with_max_calls(0),
    ];
    let mut lines = String::new();
    for policy in policies {
        let tool = Double.map_policy(|_| policy);
        lines += &format!("{}\n", Toolset::new().with_tool(tool).check().unwrap_err());
    }
    expect![[r#"
        tool "double" cannot be used: its policy: with a timeout of zero, each call times out: set a positive timeout, or leave it out
        tool "double" cannot be used: its policy: with an output limit of 0 bytes, the model reads no result: set a positive limit, or leave it out
        tool "double" cannot be used: its policy: with at most 0 calls, each call is denied: set a positive number, or hide the tool
    "#]].assert_eq(&lines);
    let repaired = Double.with_timeout(Duration::ZERO).with_timeout(Duration::from_secs(1)).with_retries(0);
    assert_eq!(Toolset::new().with_tool(repaired).check(), Ok(()));

    let zero = Toolset::new().with_tool(Double).with_label("billing").with_timeout(Duration::ZERO);
    let error = Toolset::new().with_source(zero.prefixed("b_")).check().unwrap_err();
    assert_eq!(error, ToolsetError::ZeroTimeout { label: "billing".to_owned() });
}

/// A call as a model wrote it runs through the pipeline. A malformed call is a failed result, and a
/// pending call is available.
#[tokio::test]
async fn call_of_a_model_is_run_as_written() {
    let tools = tools().with_tool(Double.with_definition(|it| it.with_name("guarded")).with_approval());
    let calls: [ToolCall; 6] = [
        ("a", "double", r#"{"n": 21}"#).into(),
        ("b", "double", r#"{"n": "21"}"#).into(),
        ("c", "double", r#"{"n": 21"#).into(),
        ("d", "dubble", "{}").into(),
        ("e", "crash", "").into(),
        ("f", "guarded", r#"{"n": 1}"#).into(),
    ];
    let mut lines = String::new();
    for call in &calls {
        let result = tools.run(call).await;
        lines += &format!("{} {}: {}\n", result.call_id, result.name, result.model_text());
    }
    expect![[r#"
        a double: 42
        b double: 42
        c double: invalid arguments: not JSON: EOF while parsing an object at line 1 column 8; write one JSON object
        d dubble: unknown tool "dubble"; did you mean "double"? available: double, hang, crash, retry, fail, guarded
        e crash: the tool panicked; it may have done a part of its work
        f guarded: denied: it needs an approval, and this caller cannot wait for one
    "#]].assert_eq(&lines);
    let pending = tools.run_with(&calls[5], &ToolContext::default().with_call_id("other")).await;
    assert!(matches!(&pending, CallOutcome::Pending(pending) if pending.call.id == "f"), "{pending:?}");
}

/// A direct call is the only attempt. A driver without a run sets the failed attempts itself.
#[tokio::test]
async fn direct_call_is_the_first_and_last_attempt() {
    #[tool(retries = 3)]
    fn count(#[tool(context)] cx: &ToolContext) -> Json<Value> {
        let attempt = cx.attempt();
        Json(json!([attempt.number, attempt.retries_left, attempt.is_last()]))
    }

    let tools = Toolset::new().with_tool(Count);
    assert_eq!(tools.call("count", json!({})).await.model_text(), "[1,0,true]");
    let failed = FailedAttempts { total: 4, retries: 2 };
    let cx = ToolContext::default().with_failed_attempts(failed);
    assert_eq!(tools.call_with("count", json!({}), &cx).await.model_text(), "[5,1,false]");
    assert_eq!(Count.definition().policy().retries, 3);
}
