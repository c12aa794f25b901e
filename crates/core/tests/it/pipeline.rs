//! Tests of the call pipeline: arguments, limits, panics, results, approvals and records.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use expect_test::{Expect, expect};
use futures::FutureExt as _;
use haft_core::{
    Json, Pipeline, Schema, Tool, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExt, ToolName,
    ToolOutput, ToolResult, Toolset,
    call::{
        Decision, DecisionError, Decisions, Failure, FailureKind, Pending, PendingCall, PendingKind,
        ToolResponse,
    },
    content::Content,
    export::schemars::{self, JsonSchema},
    pipeline::{CallOutcome, CallRecord, MemoryResultStore, Recorder, ResultStore},
    schema::RepairPolicy,
    tool::{DynamicTool, Principal, RunContext, ToolPolicy},
    tool_fn,
    toolset::ToolList,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pair {
    x: i64,
    #[serde(default)]
    y: i64,
}

fn add() -> DynamicTool {
    tool_fn("add", "Adds two integers.", |Pair { x, y }| async move { x + y })
}

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

async fn run(pipeline: &Pipeline, tool: impl Tool + 'static, arguments: &str) -> ToolResult {
    let call = ToolCall::new("call_1", tool.definition().name().as_str(), arguments);
    let tools = ToolList::new("test", [tool]);
    pipeline.call(&tools, &call, &ToolContext::default()).await.into_result()
}

async fn check_add(arguments: &str, text: Expect) {
    let result = run(&Pipeline::new(), add(), arguments).await;
    text.assert_eq(&format!("{}{}", if result.is_success() { "" } else { "error: " }, result.model_text()));
}

/// The error lists each invalid argument, and the tool function is not called.
#[tokio::test]
async fn invalid_arguments_are_explained_and_the_tool_does_not_run() {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let tool = tool_fn("add", "", move |Pair { x, y }| {
        seen.store(true, Ordering::Relaxed);
        async move { x + y }
    });
    let result = run(&Pipeline::new(), tool, r#"{"x": "abc", "y": [1]}"#).await;
    let failure = result.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::InvalidArguments);
    for part in ["/x", "integer", "\"abc\"", "/y", "array"] {
        assert!(failure.message.contains(part), "{part} is not in {failure}");
    }
    assert!(!ran.load(Ordering::Relaxed));
}

/// `"3"` and `3.0` become the integer 3, and `true` is rejected. The error names a missing required
/// argument. Arguments that a model wraps in a string or in an additional object are unwrapped. The
/// error for malformed arguments contains the reason.
#[tokio::test]
async fn malformed_arguments_are_repaired_or_rejected() {
    check_add(r#"{"x": 17, "y": 25}"#, expect!["42"]).await;
    check_add(r#"{"x": "3"}"#, expect!["3"]).await;
    check_add(r#"{"x": 3.0}"#, expect!["3"]).await;
    check_add(r#""{\"x\": 4}""#, expect!["4"]).await;
    check_add(r#"{"args": {"x": 5}}"#, expect!["5"]).await;
    check_add(r#"{"x": 6, "y": null}"#, expect!["6"]).await;
    check_add("", expect![[r#"error: invalid arguments: /: missing required property "x" (integer)"#]]).await;
    check_add(r#"{"a":1"#, expect!["error: invalid arguments: not JSON: EOF while parsing an object at line 1 column 6; write one JSON object"]).await;
    check_add(
        "not json",
        expect![
            "error: invalid arguments: not JSON: expected ident at line 1 column 2; write one JSON object"
        ],
    )
    .await;
    check_add("[1]", expect!["error: invalid arguments: /: expected object, received array [1]"]).await;
    check_add("null", expect!["error: invalid arguments: /: expected object, received null"]).await;
    check_add(
        r#"{"x": true}"#,
        expect!["error: invalid arguments: /x: expected integer, received boolean true"],
    )
    .await;
    check_add(
        r#""three""#,
        expect![[r#"error: invalid arguments: /: expected object, received string "three""#]],
    )
    .await;
}

/// The strict policy repairs no arguments. The result of a call lists the repairs of its arguments.
#[tokio::test]
async fn repairs_follow_the_policy_and_are_recorded() {
    let strict = Pipeline::new().with_repair(RepairPolicy::Strict);
    assert!(!run(&strict, add(), r#"{"x": "3"}"#).await.is_success());
    assert!(!run(&strict, add(), "").await.is_success());
    assert_eq!(run(&Pipeline::new(), add(), r#"{"x": "3"}"#).await.repairs.len(), 1);
    assert_eq!(run(&Pipeline::new(), add(), r#"{"x": 3}"#).await.repairs.len(), 0);
    // An empty text is repaired to `{}`. This repair is not listed, because the call fails: a
    // required argument is still missing.
    assert_eq!(run(&Pipeline::new(), add(), "").await.repairs.len(), 0);
}

/// Arguments longer than 1 MiB are rejected before they are parsed.
#[tokio::test]
async fn oversized_arguments_are_not_parsed() {
    let text = format!(r#"{{"x": "{}"}}"#, "9".repeat(2 << 20));
    let result = run(&Pipeline::new(), add(), &text).await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::InvalidArguments);
    assert!(result.model_text().contains("at most 1048576"), "{}", result.model_text());
}

/// A panic fails only its own call. A panic is caught even if the tool holds a lock.
///
/// The panic message can contain secrets, so it is not in the result.
#[tokio::test]
async fn panic_is_a_failed_call() {
    let lock = Arc::new(Mutex::new(0));
    let shared = AssertUnwindSafe(lock.clone());
    let tool = DynamicTool::new(definition("explode"), move |_, _| {
        let lock = shared.clone();
        async move {
            let _guard = lock.lock();
            if true {
                panic!("the password is hunter2");
            }
        }
    });
    let result = run(&Pipeline::new(), tool, "{}").await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::Failed);
    expect!["the tool panicked; it may have done a part of its work"].assert_eq(&result.model_text());
    assert!(lock.is_poisoned());
}

/// A call that hangs ends at its deadline. The timeout in the tool's policy needs no `tower` layer.
/// The hanging call fails with a timeout.
#[tokio::test(start_paused = true)]
async fn hanging_call_times_out() {
    let policy = ToolPolicy { timeout: Some(Duration::from_millis(50)), ..ToolPolicy::default() };
    let tool = DynamicTool::new(definition("hang").with_policy(policy), |_, _| async {
        std::future::pending::<()>().await;
    });
    let result = run(&Pipeline::new(), tool, "{}").await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::TimedOut);
    expect!["timed out after 50 ms"].assert_eq(&result.model_text());
}

/// If the tool itself returns a timeout error, the result contains the duration from this error.
#[tokio::test]
async fn timeout_reported_by_the_tool_is_kept() {
    let tool = DynamicTool::new(definition("slow"), |_, _| async {
        Err::<(), _>(ToolError::TimedOut { after: Duration::from_secs(7) })
    });
    let result = run(&Pipeline::new(), tool, "{}").await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::TimedOut);
    expect!["timed out after 7000 ms"].assert_eq(&result.model_text());
}

/// The source of an error may contain paths and secrets. It is logged, but must not be in the
/// result.
#[tokio::test]
async fn source_of_an_error_is_not_in_the_result() {
    #[derive(Debug, thiserror::Error)]
    #[error("the file cannot be read")]
    struct Unreadable(#[source] std::io::Error);
    let tool = DynamicTool::new(definition("read"), |_, _| async {
        Err::<(), _>(Unreadable(std::io::Error::other("/home/ann/.ssh/id_rsa: denied")))
    });
    let result = run(&Pipeline::new(), tool, "{}").await;
    assert_eq!(result.model_text(), "the file cannot be read");
    assert!(!serde_json::to_string(&result).unwrap().contains("id_rsa"));
}

/// A text of 50 MiB is truncated at a character boundary. The note at the end contains the number
/// of omitted bytes. The full text is saved in the result store.
#[tokio::test]
async fn oversized_text_is_cut_and_stored() {
    let pipeline = Pipeline::new();
    let tool = DynamicTool::new(definition("flood"), |_, _| async { "ä".repeat(25 << 20) });
    let result = run(&pipeline, tool, "{}").await;
    let output = result.output().unwrap();
    let handle = output.result_handle.clone().unwrap();
    let text = output.text();
    assert!(text.len() < (128 << 10) + 200, "{} bytes", text.len());
    assert!(text.starts_with("ää"));
    let mark =
        format!("[52297728 of 52428800 bytes in 1 pieces are cut; the whole result is stored as {handle:?}]");
    assert!(text.ends_with(&mark), "{}", &text[text.len() - 150..]);
    assert_eq!(output.to_value().as_str(), Some(&*text), "a single text stays a single text");
    let whole = pipeline.store().unwrap().get(&handle, &ToolContext::default()).await.unwrap().unwrap();
    assert_eq!(whole.text().len(), 50 << 20);
}

/// An error message or a warning of 10 MiB is truncated to 128 KiB of text for the model. The note
/// at the end contains the handle of the full text.
#[tokio::test]
async fn oversized_errors_and_warnings_are_cut() {
    let flood = || "x".repeat(10 << 20);
    let fails =
        DynamicTool::new(
            definition("fails"),
            move |_, _| async move { Err::<(), _>(ToolError::failed(flood())) },
        );
    let failed = run(&Pipeline::new(), fails, "{}").await;
    let warns = DynamicTool::new(definition("warns"), move |_, _| async move {
        ToolOutput::from("ok").with_warning(flood())
    });
    let warned = run(&Pipeline::new(), warns, "{}").await;
    for result in [failed, warned] {
        assert!(result.model_text().len() < (128 << 10) + 200, "{} bytes", result.model_text().len());
        assert!(
            result.model_text().contains("10354688 of 10485760 bytes are cut; the whole result is stored as")
        );
    }
}

/// The output of a failed call is kept for programs. Its content has the limit of a successful one.
#[tokio::test]
async fn output_of_a_failure_is_kept_and_bounded() {
    let fails = DynamicTool::new(definition("fails"), move |_, _| async move {
        let mut output = ToolOutput::structured(json!({"code": 7}));
        output.content = vec![Content::text("x".repeat(1 << 20))];
        let failure = Failure::new(FailureKind::Failed, "no quota").with_output(output);
        Err::<(), _>(ToolError::from(failure))
    });
    let result = run(&Pipeline::new(), fails, "{}").await;
    let expected = json!({
        "success": false, "result": null, "error": "no quota", "warning": null, "structured": {"code": 7},
    });
    assert_eq!(result.to_json(), expected);
    let output = result.into_output().unwrap_err().output.unwrap();
    assert!(output.text().len() < (128 << 10) + 200, "{} bytes", output.text().len());
}

/// An image that exceeds the limit of 16 MiB of media per result is replaced by a description. The
/// full result is stored.
#[tokio::test]
async fn oversized_media_are_replaced_by_a_description() {
    let tool = DynamicTool::new(definition("draw"), |_, _| async {
        vec![
            Content::from_bytes(vec![0; 1 << 20], "image/png"),
            Content::from_bytes(vec![0; 17 << 20], "image/png"),
        ]
    });
    let result = run(&Pipeline::new(), tool, "{}").await;
    let content = &result.output().unwrap().content;
    assert!(matches!(content[0], Content::Image { .. }));
    let handle = result.output().unwrap().result_handle.as_deref().unwrap();
    let description = format!(
        "[image/png, 17825792 bytes]\n[media of 17825792 bytes are left out; the whole result is stored as {handle:?}]"
    );
    assert_eq!(content[1].as_text(), description);
}

/// Only the principal of a call can read its stored result. If the store is full, the oldest result
/// is evicted.
#[tokio::test]
async fn stored_result_is_private_to_its_principal_until_evicted() {
    let called_by = |id: &str| {
        let principal = Some(Principal { id: id.into(), ..Principal::default() });
        ToolContext::new(Arc::new(RunContext { principal, ..RunContext::default() }), "1")
    };
    let store = MemoryResultStore::with_max_bytes(3_000);
    let output = ToolOutput {
        content: vec![Content::from_bytes(vec![0; 1_000], "image/png")],
        ..ToolOutput::default()
    };
    let first = store.put(&output, &called_by("ann")).await.unwrap();
    assert!(store.get(&first, &called_by("ann")).await.unwrap().is_some());
    assert!(store.get(&first, &called_by("bob")).await.unwrap().is_none());
    assert!(store.get(&first, &ToolContext::default()).await.unwrap().is_none());
    for _ in 0..3 {
        store
            .put(
                &ToolOutput { content: vec![], ..ToolOutput::structured(json!("x".repeat(900))) },
                &called_by("ann"),
            )
            .await
            .unwrap();
    }
    assert!(store.get(&first, &called_by("ann")).await.unwrap().is_none());
}

/// A pipeline without a store leaves the choice of the store to its outer pipelines. A default
/// store between them does not replace a store that was set further out.
#[tokio::test]
async fn unbounded_pipeline_does_not_protect_a_default_store() {
    let flood = DynamicTool::new(definition("flood"), |_, _| async { "x".repeat(1 << 20) });
    let store = Arc::new(MemoryResultStore::default());
    let inner = Toolset::new().with_pipeline(Pipeline::unbounded()).with_tool(flood);
    let middle = Toolset::new().with_pipeline(Pipeline::new()).with_source(inner);
    let pipeline = Pipeline::new().with_store(Arc::clone(&store));
    let result = Toolset::new().with_pipeline(pipeline).with_source(middle).call("flood", ()).await;
    let handle = result.output().unwrap().result_handle.as_deref().unwrap();
    assert!(store.get(handle, &ToolContext::default()).await.unwrap().is_some());
}

/// A long text is truncated even if the result store returns an error, panics, or exceeds
/// its timeout.
#[tokio::test(start_paused = true)]
async fn oversized_text_is_cut_if_the_store_fails() {
    struct FailingStore {
        hangs: bool,
        panics: bool,
    }
    #[haft_core::export::async_trait]
    impl ResultStore for FailingStore {
        async fn put(&self, _: &ToolOutput, _: &ToolContext) -> Result<String, haft_core::call::BoxError> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            assert!(!self.panics, "with a secret");
            Err("the disk is full".into())
        }

        async fn get(
            &self,
            _: &str,
            _: &ToolContext,
        ) -> Result<Option<Arc<ToolOutput>>, haft_core::call::BoxError> {
            Ok(None)
        }
    }
    for (hangs, panics) in [(false, false), (true, false), (false, true)] {
        let tool = DynamicTool::new(definition("flood"), |_, _| async { "x".repeat(1 << 20) });
        let store = FailingStore { hangs, panics };
        let result = run(&Pipeline::new().with_store(store), tool, "{}").await;
        assert!(result.model_text().ends_with("are cut; the whole result could not be stored]"));
    }
}

/// A result with 10,000 content blocks is truncated to 1,000 blocks.
#[tokio::test]
async fn number_of_content_blocks_is_limited() {
    let tool = DynamicTool::new(definition("flood"), |_, _| async { vec![Content::text("x"); 10_000] });
    let result = run(&Pipeline::new(), tool, "{}").await;
    let output = result.output().unwrap();
    assert_eq!(output.content.len(), 1_000);
    assert!(output.text().contains("[9000 of 10000 bytes in 10000 pieces are cut;"));
}

/// Structured output is not sent to the model, so only the text is truncated.
#[tokio::test]
async fn structured_output_is_never_cut() {
    let tool = DynamicTool::new(definition("data"), |_, _| async { Json(vec![7; 100_000]) });
    let result = run(&Pipeline::new(), tool, "{}").await;
    let output = result.output().unwrap();
    assert!(output.result_handle.is_some());
    assert_eq!(output.structured.as_ref().unwrap().as_array().unwrap().len(), 100_000);
}

/// A call fails if its result violates the output schema of the tool.
#[tokio::test]
async fn result_that_violates_the_output_schema_is_an_error() {
    let schema = Schema::new(json!({"type": "object", "required": ["sum"]})).unwrap();
    let definition = definition("sum").with_output_schema(schema);
    let wrong =
        DynamicTool::new(definition.clone(), |_, _| async { ToolOutput::structured(json!({"total": 3})) });
    let result = run(&Pipeline::new(), wrong, "{}").await;
    assert!(result.model_text().starts_with("the call did run, but its result does not fit"), "{result:?}");
    let right = DynamicTool::new(definition, |_, _| async { ToolOutput::structured(json!({"sum": 3})) });
    assert!(run(&Pipeline::new(), right, "{}").await.is_success());
}

/// A result with a warning is a success. Its JSON form has the fields `success`, `result`, `error`
/// and `warning`.
#[tokio::test]
async fn result_with_a_warning_is_a_success() {
    let tool = DynamicTool::new(definition("rate"), |_, _| async {
        ToolOutput::from("7").with_warning("from yesterday")
    });
    let result = run(&Pipeline::new(), tool, "{}").await;
    expect![[r#"{"success":true,"result":"7","error":null,"warning":"from yesterday"}"#]]
        .assert_eq(&result.to_json().to_string());
    assert_eq!(result.model_text(), "7\nWarning: from yesterday");

    let failing =
        DynamicTool::new(definition("rate"), |_, _| async { Err::<(), _>(ToolError::failed("no rates")) });
    expect![[r#"{"success":false,"result":null,"error":"no rates","warning":null}"#]]
        .assert_eq(&run(&Pipeline::new(), failing, "{}").await.to_json().to_string());
}

/// The text form of binary data consists of its media type and its size.
#[tokio::test]
async fn blob_has_a_short_description_as_text() {
    let tool = DynamicTool::new(definition("draw"), |_, _| async {
        Content::from_bytes(vec![1_u8; 2048], "image/png")
    });
    let result = run(&Pipeline::new(), tool, "{}").await;
    assert_eq!(result.model_text(), "[image/png, 2048 bytes]");
    assert_eq!(result.output().unwrap().byte_len(), 2048, "the description takes no space in a store");
    let again: ToolResult = serde_json::from_str(&serde_json::to_string(&result).unwrap()).unwrap();
    assert_eq!(again, result);
}

/// A call without the required scope is denied. Every call is recorded with its principal, even if
/// the call is suspended or dropped.
#[tokio::test]
async fn calls_are_denied_without_scope_and_always_recorded() {
    #[derive(Default, Clone)]
    struct Log(Arc<Mutex<Vec<String>>>);
    impl Recorder for Log {
        fn record(&self, record: &CallRecord<'_>) {
            let principal = record.context.principal().map_or("-", |principal| &principal.id);
            let outcome = match record.result().map(|result| result.failure()) {
                None => "pending".to_owned(),
                Some(failure) => format!("{:?}", failure.map(|failure| failure.kind)),
            };
            let tool = if record.definition.is_some() { "known" } else { "unknown" };
            let line = format!("{principal}: {} ({tool}): {outcome}", record.call.name);
            self.0.lock().unwrap().push(line);
        }
    }
    let log = Log::default();
    let policy = ToolPolicy { required_scopes: vec!["files:write".into()], ..ToolPolicy::default() };
    let tool = DynamicTool::new(definition("write").with_policy(policy), |_, _| async { "written" });
    let waits = DynamicTool::new(definition("wait"), |_, _| async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let hangs = DynamicTool::new(definition("hang"), |_, _| std::future::pending::<()>());
    let tools = ToolList::new("test", [tool, waits, hangs]);
    let pipeline = Pipeline::new().with_recorder(log.clone());
    let call = ToolCall::new("1", "write", "{}");
    for (id, scopes) in [("ann", vec![]), ("bob", vec!["files:write".to_owned()])] {
        let principal = Some(Principal { id: id.into(), scopes: scopes.into_iter().collect() });
        let run = Arc::new(RunContext { principal, ..RunContext::default() });
        pipeline.call(&tools, &call, &ToolContext::new(run, "1")).await;
    }
    for name in ["wriet", "wait", "hang"] {
        let (call, cx) = (ToolCall::new("2", name, "{}"), ToolContext::default());
        // `now_or_never` drops a call that is not ready at the first poll.
        let _ = pipeline.call(&tools, &call, &cx).now_or_never();
    }
    expect![[r#"
        [
            "ann: write (known): Some(Denied)",
            "bob: write (known): None",
            "-: wriet (unknown): Some(NotFound)",
            "-: wait (known): pending",
            "-: hang (known): Some(Cancelled)",
        ]
    "#]]
    .assert_debug_eq(&*log.0.lock().unwrap());
}

/// A denied call fails with the reason for the denial. If a call was approved with changed
/// arguments, its result has a warning.
#[tokio::test]
async fn call_is_suspended_until_it_is_approved_or_denied() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tool = add().with_definition(|definition| definition.with_policy(policy));
    let tools = ToolList::new("test", [tool]);
    let call = ToolCall::new("1", "add", r#"{"x": "17", "y": 25}"#);
    let pipeline = Pipeline::new();
    let CallOutcome::Pending(suspended) = pipeline.call(&tools, &call, &ToolContext::default()).await else {
        panic!("the call was not suspended");
    };
    let resume = |decision| {
        let (pipeline, tools, call) = (pipeline.clone(), tools.clone(), call.clone());
        let cx = ToolContext::default().with_resumed(suspended.pending.clone().resume(decision).unwrap());
        async move { pipeline.call(&tools, &call, &cx).await.into_result() }
    };
    assert_eq!(suspended.pending.kind, PendingKind::Approval { arguments: json!({"x": 17, "y": 25}) });
    assert_eq!(suspended.call, call);
    assert_eq!(resume(Decision::approved()).await.model_text(), "42");
    assert_eq!(resume(Decision::denied("too dear")).await.model_text(), "denied: too dear");
    let changed = resume(Decision::approved_with_arguments(json!({"x": 1}))).await.model_text().into_owned();
    assert_eq!(changed, "1\nWarning: it was approved with other arguments: {\"x\":1}");
    let wrong = Decision::approved_with_arguments(json!({"x": "one"}));
    assert_eq!(resume(wrong).await.failure().unwrap().kind, FailureKind::InvalidArguments);
}

/// A tool that handles denials runs after a denial of its input. Another tool does not.
#[tokio::test]
async fn denial_of_input_reaches_a_tool_that_handles_it() {
    for handles_denial in [false, true] {
        let tool = DynamicTool::new(definition("ask"), move |_, cx: ToolContext| async move {
            match cx.decision() {
                Some(Decision::Denied { reason, .. }) => ToolResponse::from(format!("told: {reason}")),
                _ => {
                    let pending = Pending::new(PendingKind::input("Which seat?"));
                    let pending = if handles_denial { pending.with_denial_handling() } else { pending };
                    ToolResponse::Pending(pending)
                }
            }
        });
        let tools = Toolset::new().with_tool(tool);
        let call = ToolCall::new("1", "ask", "{}");
        let CallOutcome::Pending(suspended) = tools.run_with(&call, &ToolContext::default()).await else {
            panic!("the call was not suspended");
        };
        let resumed = suspended.pending.resume(Decision::denied("no")).unwrap();
        let cx = ToolContext::default().with_resumed(resumed);
        let result = tools.run_with(&call, &cx).await.into_result();
        assert_eq!(result.model_text(), if handles_denial { "told: no" } else { "denied: no" });
    }
}

/// A tool can read host state by its type. If there is no value of the type, the call fails with a
/// fatal error that names the type.
#[tokio::test]
async fn tool_gets_the_state_of_its_host() {
    let tool = DynamicTool::new(definition("name"), |_, cx: ToolContext| async move { cx.state::<String>() });
    let with_state = ToolContext::default().with_state("Ann".to_owned());
    assert_eq!(tool.invoke_with(json!({}), &with_state).await.into_result().model_text(), "Ann");
    let without = tool.invoke(json!({})).await;
    assert_eq!(without.failure().unwrap().kind, FailureKind::Fatal);
    assert!(without.model_text().contains("alloc::string::String"));
}

#[tokio::test]
async fn cancellation_aborts_a_running_call() {
    let (began, begins) = tokio::sync::oneshot::channel();
    let began = Mutex::new(Some(began));
    let tool = DynamicTool::new(definition("wait"), move |_, _| {
        let began = began.lock().unwrap().take();
        async move {
            began.unwrap().send(()).unwrap();
            std::future::pending::<()>().await;
        }
    });
    let context = ToolContext::default();
    let cancellation = context.cancellation().clone();
    let call = tokio::spawn(async move { tool.invoke_with(json!({}), &context).await.into_result() });
    begins.await.unwrap();
    cancellation.cancel();
    assert_eq!(call.await.unwrap().failure().unwrap().kind, FailureKind::Cancelled);
}

#[tokio::test]
async fn call_does_not_start_after_cancellation_or_deadline() {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let tool = DynamicTool::new(definition("act"), move |_, _| {
        seen.store(true, Ordering::Relaxed);
        async { "done" }
    });
    let cancelled = ToolContext::default();
    cancelled.cancellation().cancel();
    let late = ToolContext::default().limit_deadline(tokio::time::Instant::now());
    for (cx, kind) in [(cancelled, FailureKind::Cancelled), (late, FailureKind::TimedOut)] {
        assert_eq!(tool.invoke_with(json!({}), &cx).await.into_result().failure().unwrap().kind, kind);
    }
    assert!(!ran.load(Ordering::Relaxed));
}

#[tokio::test]
async fn panicking_recorder_does_not_affect_the_call() {
    struct PanickingRecorder;
    impl Recorder for PanickingRecorder {
        fn record(&self, _: &CallRecord<'_>) {
            panic!("no disk");
        }
    }
    let result = run(&Pipeline::new().with_recorder(PanickingRecorder), add(), r#"{"x": 1}"#).await;
    assert_eq!(result.model_text(), "1");
}

/// A closure over a shared value becomes a tool, and its calls change the value.
#[tokio::test]
async fn closure_over_a_value_is_a_tool() {
    struct Counter(std::sync::atomic::AtomicI64);
    impl Counter {
        fn add(&self, x: i64) -> i64 {
            self.0.fetch_add(x, Ordering::Relaxed) + x
        }
    }
    let counter = Arc::new(Counter(40.into()));
    let shared = counter.clone();
    let tool = tool_fn("count", "Adds to the count.", move |Pair { x, .. }| {
        let counter = shared.clone();
        async move { counter.add(x) }
    });
    assert_eq!(tool.invoke(json!({"x": 1})).await.model_text(), "41");
    assert_eq!(tool.invoke(json!({"x": 1})).await.model_text(), "42");
}

/// Outside a runtime, a tokio timer panics. A tool that is pending after the first poll needs a
/// timer for its timeout, so its call must fail with an error instead. A tool that is ready at the
/// first poll succeeds.
#[test]
fn pending_tool_without_a_runtime_is_a_typed_error() {
    let tool = DynamicTool::new(definition("wait"), |_, _| std::future::pending::<()>());
    let result = futures::executor::block_on(tool.invoke(json!({})));
    assert_eq!(result.failure().unwrap().kind, FailureKind::Fatal);
    assert!(result.model_text().contains("tokio runtime"));
    let at_once = futures::executor::block_on(add().invoke(json!({"x": 3})));
    assert_eq!(at_once.model_text(), "3");
}

/// A tool with an invalid name has a defect. Its definition, `Toolset::check` and a call to the
/// tool report the defect, and a `ToolList` omits the tool.
#[tokio::test]
async fn defect_of_a_definition_is_reported() {
    let tool = tool_fn("get.weather", "", |Pair { x, .. }| async move { x });
    let text =
        r#""get.weather" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#;
    assert_eq!(tool.definition().defect(), Some(text));
    assert!(Toolset::new().with_tool(tool.clone()).check().unwrap_err().to_string().contains(text));
    assert!(ToolList::new("test", [tool.clone()]).is_empty());
    assert_eq!(tool.invoke(json!({"x": 1})).await.failure().unwrap().kind, FailureKind::Fatal);
}

/// A tool can suspend its own call. When the call is resumed, the tool can read the data that it
/// saved and the decision. `invoke` cannot return a suspended call, so it returns a failed result.
#[tokio::test]
async fn tool_can_suspend_its_own_call() {
    let tool = DynamicTool::new(definition("ask"), |_, cx: ToolContext| async move {
        match cx.decision() {
            Some(Decision::Input { value }) => {
                format!("{value} of offer {}", cx.continuation().unwrap()).into()
            }
            _ => ToolResponse::Pending(
                Pending::new(PendingKind::input("Which seat?")).with_continuation(json!("7")),
            ),
        }
    });
    let CallOutcome::Pending(suspended) = tool.invoke_with(json!({}), &ToolContext::default()).await else {
        panic!("the call was not suspended");
    };
    assert_eq!(tool.invoke(json!({})).await.failure().unwrap().kind, FailureKind::Failed);
    let seat = suspended.pending.resume(Decision::Input { value: json!("12A") }).unwrap();
    let answered = ToolContext::default().with_resumed(seat);
    assert_eq!(
        tool.invoke_with(json!({}), &answered).await.into_result().model_text(),
        r#""12A" of offer "7""#
    );
}

/// A call that was approved with changed arguments may be suspended again by its tool. When
/// resumed, it runs with the approved arguments and needs no second approval.
#[tokio::test]
async fn approval_survives_a_second_suspension() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let definition = definition("pay").with_policy(policy);
    let tool = DynamicTool::new(definition, |arguments, cx: ToolContext| async move {
        match cx.decision() {
            Some(Decision::Input { value }) => ToolResponse::from(format!("{arguments} with {value}")),
            _ => ToolResponse::Pending(Pending::new(PendingKind::input("Which card?"))),
        }
    });
    let mut cx = ToolContext::default();
    for decision in
        [Decision::approved_with_arguments(json!({"amount": 5})), Decision::Input { value: json!("visa") }]
    {
        let CallOutcome::Pending(suspended) = tool.invoke_with(json!({"amount": 500}), &cx).await else {
            panic!("the call was not suspended");
        };
        // The call and its decision are saved and restored, as if another process resumed the call.
        let saved = serde_json::to_string(&suspended.pending.resume(decision).unwrap()).unwrap();
        cx = ToolContext::default().with_resumed(serde_json::from_str(&saved).unwrap());
    }
    let result = tool.invoke_with(json!({"amount": 500}), &cx).await.into_result();
    expect![[r#"
        {"amount":5} with "visa"
        Warning: it was approved with other arguments: {"amount":5}"#]]
    .assert_eq(&result.model_text());
}

/// A suspended call rejects a decision of the wrong kind, and an input that violates the requested
/// schema. The same check runs when a resumed call is deserialized.
#[test]
fn decision_must_match_the_pending_kind() {
    let Value::Object(schema) = json!({"type": "integer"}) else { unreachable!() };
    let pending = Pending::new(PendingKind::Input { message: "How many?".to_owned(), schema });
    let input = |value| Decision::Input { value };
    let error = |pending: &Pending, decision| pending.clone().resume(decision).unwrap_err().to_string();

    assert_eq!(pending.clone().resume(input(json!(3))).unwrap().decision(), &input(json!(3)));
    assert!(pending.clone().resume(Decision::denied("no")).is_ok());
    expect![[r#"invalid input: /: expected integer, received string "three""#]]
        .assert_eq(&error(&pending, input(json!("three"))));
    expect!["the call needs the input of a person or a denial"]
        .assert_eq(&error(&pending, Decision::approved()));
    let forged =
        json!({"pending": {"kind": {"type": "approval", "arguments": {}}}, "decision": input(json!(3))});
    assert!(serde_json::from_value::<haft_core::call::ResumedCall>(forged).is_err());
}

/// A nested decision names a suspended call. The error for an unknown id lists the suspended calls.
#[test]
fn decision_about_an_unknown_nested_call_is_rejected() {
    let inner = |id: &str| PendingCall {
        call: ToolCall::new(id, "pay", "{}"),
        pending: Pending::new(PendingKind::Approval { arguments: json!({}) }),
    };
    let pending = Pending::new(PendingKind::Nested { pending: vec![inner("call_1"), inner("call_2")] });
    let resume = |id: &str| {
        let decisions = Decisions::from([(id.to_owned(), Decision::approved())]);
        pending.clone().resume(Decision::Nested { decisions })
    };
    assert!(resume("call_2").is_ok());
    let error = resume("call_3").unwrap_err();
    assert!(matches!(error, DecisionError::UnknownCall { .. }), "{error:?}");
    expect![[r#"no call "call_3" is suspended inside the call; suspended: call_1, call_2"#]]
        .assert_eq(&error.to_string());
}

/// A result with up to 100 levels of nesting can be saved and read again. A call with a deeper
/// result fails, because `serde_json` could not parse the result in a saved run.
#[tokio::test]
async fn result_within_the_depth_limit_can_be_saved_and_read() {
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let returning = |value: Value| {
        DynamicTool::new(definition("deep"), move |_, _| {
            let value = value.clone();
            async move { Json(value) }
        })
    };
    let deepest = run(&Pipeline::new(), returning(nested(99)), "{}").await;
    let saved = serde_json::to_string(&json!([[[[[[[[[[deepest]]]]]]]]]])).unwrap();
    assert!(serde_json::from_str::<Value>(&saved).is_ok());
    let failure = run(&Pipeline::new(), returning(nested(200)), "{}").await;
    assert_eq!(failure.model_text(), "the call did run, but its result is nested more than 100 levels deep");
}

/// In OpenAI's strict mode, every property is required, so a model sends `null` in place of an
/// optional argument. The pipeline must remove the `null`.
#[tokio::test]
async fn null_for_an_optional_argument_is_removed() {
    let schema = Schema::for_arguments(json!({
        "properties": {
            "x": {"type": "integer"},
            "y": {"type": "integer", "default": 7},
            "at": {"type": "object", "properties": {"z": {"enum": ["a"]}, "w": {"type": "array", "items": {"type": "string"}}}},
            "to": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}]},
        },
        "required": ["x", "at"],
    }))
    .unwrap();
    let arguments = json!({"x": 1, "y": null, "at": {"z": null, "w": null}, "to": {"a": null}});
    let wire = schema.for_provider(haft_core::schema::SchemaTarget::OpenAiStrict);
    assert!(wire.is_strict && Schema::new(wire.value).unwrap().is_valid(&arguments));
    let definition = ToolDefinition::new(ToolName::new("show").unwrap(), schema);
    let tools = ToolList::new("test", [DynamicTool::new(definition, |it, _| async move { it.to_string() })]);
    let call = ToolCall::new("call_1", "show", arguments.to_string());
    let result = Pipeline::new().call(&tools, &call, &ToolContext::default()).await.into_result();
    assert_eq!(result.model_text(), r#"{"x":1,"at":{},"to":{}}"#);
}

/// If a tool calls another tool and returns the failure of that call, the kind of the failure must
/// be kept.
#[tokio::test]
async fn nested_failure_keeps_its_kind() {
    let outer = DynamicTool::new(definition("outer"), |_, _| async {
        let denied = DynamicTool::new(definition("inner"), |_, _| async {
            Err::<(), _>(ToolError::Denied("no".into()))
        });
        let output = denied.invoke(json!({})).await.into_output()?;
        Ok::<_, haft_core::call::BoxError>(output)
    });
    let result = outer.invoke(json!({})).await;
    assert_eq!((result.failure().unwrap().kind, &*result.model_text()), (FailureKind::Denied, "denied: no"));
}

/// A number that cannot be held exactly never reaches the tool as another number.
#[tokio::test]
async fn number_that_cannot_be_held_is_a_violation() {
    let numbers = || tool_fn("add", "Adds two integers.", |Pair { x, y }| async move { x + y });
    for (arguments, expected) in [
        (r#"{"x": 1e3}"#, "1000"),
        (r#"{"x": "1e3"}"#, "1000"),
        (r#"{"x": 9007199254740993.0}"#, "9007199254740993"),
        (r#"{"x": 1234567890123456789}"#, "1234567890123456789"),
        (r#"{"x": "9007199254740993"}"#, "9007199254740993"),
    ] {
        assert_eq!(run(&Pipeline::new(), numbers(), arguments).await.model_text(), expected, "{arguments}");
    }
    for (arguments, expected) in [
        (r#"{"x": 123456789012345678901234567890}"#, "/x: integer out of range: 1234567890"),
        (r#"{"x": 1, "y": -9223372036854775809}"#, "/y: integer out of range: -9223372036854775809"),
        (r#"{"arguments": {"x": 1e30}}"#, "integer out of range: 1e+30"),
        (r#"{"x": "1e30"}"#, "/x: "),
        (r#"{"x": 1e400}"#, "/x: number out of range: 1e400"),
        (r#""{\"x\": 18446744073709551616}""#, "/: expected object, received string"),
        (r#"{"x": "123456789012345678901234567890"}"#, "/x: expected integer"),
    ] {
        let result = run(&Pipeline::new(), numbers(), arguments).await;
        let failure = result.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::InvalidArguments, "{arguments}");
        assert!(failure.message.contains(expected), "{arguments}: {}", failure.message);
    }
}

/// Arguments that are not valid JSON are read as in a call that is written as text.
#[tokio::test]
async fn arguments_that_are_not_valid_json_are_read_leniently() {
    for arguments in
        ["{'x': 40, 'y': 2}", r#"{"x": 40, "y": 2,}"#, "{x: 40, y: 2}", " {\"x\": \"40\", 'y': 2}\n"]
    {
        let result = run(&Pipeline::new(), add(), arguments).await;
        assert_eq!(result.model_text(), "42", "{arguments}");
        assert_eq!(result.repairs[0].to_string(), "/: read the arguments, which are not valid JSON");
        let strict = Pipeline::new().with_repair(RepairPolicy::Strict);
        let failure = run(&strict, add(), arguments).await;
        assert_eq!(failure.failure().unwrap().kind, FailureKind::InvalidArguments, "{arguments}");
    }
    for arguments in ["{'x': 40, 'y': 2", "{'x': 40} {'y': 2}", "x=40, y=2", "{'x': 40, 'y': 2}, and", "[1,]"]
    {
        let failure = run(&Pipeline::new(), add(), arguments).await;
        assert_eq!(failure.failure().unwrap().kind, FailureKind::InvalidArguments, "{arguments}");
    }
}
