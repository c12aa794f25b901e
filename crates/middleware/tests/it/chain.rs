//! `chain` combines several tools into one tool.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::{Expect, expect};
use haft_core::{
    Json, Pipeline, Schema, Tool, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExt, ToolName,
    ToolOutput, ToolResult, Toolset,
    call::{BoxError, Decision, Decisions, FailureKind, Pending, PendingCall, PendingKind, ToolResponse},
    export::schemars::{self, JsonSchema},
    pipeline::CallOutcome,
    tool,
    tool::{
        Annotations, DynamicTool, Principal, Progress, ProgressSink, RunContext, StateType, ToolPolicy,
        Touch, TouchFn,
    },
    toolset::ToolList,
};
use haft_middleware::{AuditEntry, AuditLog, Chain, chain};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

#[derive(Serialize, Deserialize, JsonSchema)]
struct User {
    id: u32,
    name: String,
}

/// Finds a user.
#[tool]
fn find_user(name: String) -> Json<User> {
    Json(User { id: 7, name })
}

/// Greets a user.
#[tool]
fn greet(id: u32, name: String) -> String {
    format!("Hello {name}, number {id}")
}

/// Marks a user.
#[tool]
fn mark(user: User, #[tool(default = 1)] stars: u32) -> String {
    format!("{} has {stars}", user.name)
}

/// Counts the letters of a text.
#[tool]
fn count(text: String) -> Json<usize> {
    Json(text.len())
}

/// Doubles a number.
#[tool]
fn double(n: u64) -> Json<u64> {
    Json(2 * n)
}

/// Returns the time.
#[tool]
fn now() -> &'static str {
    "noon"
}

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

/// Creates a tool that always returns `value`.
fn constant(value: Value) -> DynamicTool {
    DynamicTool::new(definition("constant"), move |_, _| {
        let output = ToolOutput::structured(value.clone());
        async move { output }
    })
}

async fn call_text(tool: &impl Tool, arguments: Value) -> String {
    tool.invoke(arguments).await.model_text().into_owned()
}

#[tokio::test]
async fn each_result_becomes_the_arguments_of_the_next_tool() {
    let ann = || json!({"name": "Ann"});
    // An object becomes the arguments of the next tool, or the value of its only required argument.
    // Any other result, for example a text, becomes the value of its only argument.
    assert_eq!(call_text(&chain("a_b", (FindUser, Greet)).unwrap(), ann()).await, "Hello Ann, number 7");
    assert_eq!(call_text(&chain("a_b", (FindUser, Mark)).unwrap(), ann()).await, "Ann has 1");
    let all = chain("all", (FindUser, Greet, Count, Double)).unwrap();
    assert_eq!(call_text(&all, ann()).await, "38");
    // Text that contains a JSON object is parsed. A tool without parameters is called without
    // arguments.
    let text = DynamicTool::new(definition("text"), |_, _| async { r#"{"id": 1, "name": "Bob"}"# });
    assert_eq!(call_text(&chain("a_b", (text, Greet)).unwrap(), json!({})).await, "Hello Bob, number 1");
    assert_eq!(call_text(&chain("a_b", (Greet, Now)).unwrap(), json!({"id": 1, "name": "x"})).await, "noon");
    // If a tool has no output schema, mismatches are found only when the chain runs. The pipeline
    // repairs the arguments or returns an error that describes the mismatch.
    assert_eq!(
        call_text(&chain("a_b", [constant(json!("21")), constant(json!(1))]).unwrap(), json!({})).await,
        "1"
    );
    assert_eq!(call_text(&chain("a_b", (constant(json!("21")), Double)).unwrap(), json!({})).await, "42");
    expect![[
        r#"double: invalid arguments: /n: expected integer, received string "x" (before it ran: constant)"#
    ]]
    .assert_eq(&call_text(&chain("a_b", (constant(json!("x")), Double)).unwrap(), json!({})).await);
    expect!["greet: invalid arguments: /: expected object, received array [1] (before it ran: constant)"]
        .assert_eq(&call_text(&chain("a_b", (constant(json!([1])), Greet)).unwrap(), json!({})).await);
    expect![[r#"
        invalid arguments: /: unknown property "nmae", did you mean "name"? known properties: "name"
        /: missing required property "name" (string)"#]]
    .assert_eq(&call_text(&chain("a_b", (FindUser, Greet)).unwrap(), json!({"nmae": "Ann"})).await);
}

/// A tool may return an object with members that its output schema does not list. The next tool
/// must receive these members too.
#[tokio::test]
async fn members_beyond_the_output_schema_are_passed_on() {
    let user = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]});
    let found = constant(json!({"id": 7, "name": "Ann"})).with_definition(|it| it.with_output_schema(user));
    assert_eq!(call_text(&chain("a_b", (found, Greet)).unwrap(), json!({})).await, "Hello Ann, number 7");
}

/// A result of 1 MiB must reach the next tool without truncation.
#[tokio::test]
async fn results_are_passed_on_untruncated() {
    let long = DynamicTool::new(definition("long"), |_, _| async { "x".repeat(1 << 20) });
    let tools = Toolset::new().with_tool(chain("a_b", (long, Count)).unwrap());
    assert_eq!(tools.call("a_b", json!({})).await.model_text(), "1048576");
}

#[tokio::test]
async fn chains_of_one_tool_and_nested_chains_run() {
    let one = chain("one", [FindUser]).unwrap();
    assert!(call_text(&one, json!({"name": "Ann"})).await.contains("Ann"));
    let inner = chain("inner", (FindUser, Greet)).unwrap();
    let outer = chain("outer", (inner, chain("rest", (Count, Double)).unwrap())).unwrap();
    assert_eq!(call_text(&outer, json!({"name": "Ann"})).await, "38");
}

fn check_error(result: Result<Chain, haft_middleware::ChainError>, text: Expect) {
    text.assert_eq(&result.err().map_or_else(|| "fits".to_owned(), |error| error.to_string()));
}

fn check_fit(output: Value, input: Value, text: Expect) {
    let before = constant(json!(1)).with_definition(|it| it.with_output_schema(output));
    let after = constant(json!(1)).with_definition(|it| it.with_name("takes").with_input_schema(input));
    check_error(chain("a_b", (before, after)), text);
}

#[test]
fn invalid_chains_are_rejected() {
    check_error(chain("none", Vec::<DynamicTool>::new()), expect!["a chain needs at least one tool"]);
    check_error(
        chain("a then b", [Now]),
        expect![[
            r#""a then b" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#
        ]],
    );
    check_error(
        chain("a_b", [Now.with_definition(|it| it.with_name("not a name"))]),
        expect![[
            r#"tool "now" cannot be used: "not a name" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#
        ]],
    );
    check_error(
        chain("a_b", (Count, Greet)),
        expect![[r#"the output of "count" does not fit "greet": /: expected object, produced integer"#]],
    );
    check_error(
        chain("a_b", (FindUser, Double)),
        expect![[r#"the output of "find_user" does not fit "double": /n: required, but never produced"#]],
    );
    check_error(
        chain("a_b", (Double, Count)),
        expect![[r#"the output of "double" does not fit "count": /text: expected string, produced integer"#]],
    );
    check_error(
        chain("a_b", (Greet, Count, Count)),
        expect![[r#"the output of "count" does not fit "count": /text: expected string, produced integer"#]],
    );
}

#[test]
fn incompatible_schemas_are_rejected_with_a_pointer() {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let id = |kind: &str| object(json!({"id": {"type": kind}, "at": {}}), json!(["id", "at"]));
    check_fit(
        id("string"),
        id("integer"),
        expect![[r#"the output of "constant" does not fit "takes": /id: expected integer, produced string"#]],
    );
    check_fit(id("number"), id("integer"), expect!["fits"]);
    // Unless `additionalProperties` is `false`, an object may have members that its schema does not
    // list. An output schema therefore fits even if it does not list a member that the next tool
    // requires.
    let mut less = object(json!({"id": {}}), json!(["id"]));
    check_fit(less.clone(), id("integer"), expect!["fits"]);
    less["additionalProperties"] = json!(true);
    check_fit(less.clone(), id("integer"), expect!["fits"]);
    less["additionalProperties"] = json!(false);
    check_fit(
        less,
        id("integer"),
        expect![[r#"the output of "constant" does not fit "takes": /at: required, but never produced"#]],
    );
    let deep = |kind: &str| {
        object(json!({"users": {"type": "array", "items": id(kind)}, "n": {}}), json!(["users", "n"]))
    };
    check_fit(
        deep("string"),
        deep("integer"),
        expect![[
            r#"the output of "constant" does not fit "takes": /users/0/id: expected integer, produced string"#
        ]],
    );
    let mut closed = object(json!({"id": {"type": "integer"}, "x": {}}), json!(["id", "x"]));
    closed["additionalProperties"] = json!(false);
    let more = json!({"id": {}, "x": {}, "y": {}});
    check_fit(
        object(more.clone(), json!(["id", "y"])),
        closed.clone(),
        expect![[r#"the output of "constant" does not fit "takes": /y: always produced, but not accepted"#]],
    );
    check_fit(object(more, json!(["id"])), closed.clone(), expect!["fits"]);
    let one_of = |values: Value| object(json!({"kind": {"enum": values}, "n": {}}), json!(["kind", "n"]));
    check_fit(
        one_of(json!(["a", "b"])),
        one_of(json!(["c", 1])),
        expect![[
            r#"the output of "constant" does not fit "takes": /kind: expected one of "c", 1, produced "a", "b""#
        ]],
    );
    check_fit(one_of(json!(["a", "b"])), one_of(json!(["b"])), expect!["fits"]);
    // References are resolved. An `anyOf` is a mismatch only if each of its alternatives is a
    // mismatch.
    let mut referred = object(json!({"id": {"$ref": "#/$defs/id"}, "at": {}}), json!(["id", "at"]));
    referred["$defs"] = json!({"id": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}});
    check_fit(
        referred.clone(),
        id("integer"),
        expect![[
            r#"the output of "constant" does not fit "takes": /id: expected integer, produced boolean"#
        ]],
    );
    check_fit(
        id("integer"),
        referred.clone(),
        expect![[
            r#"the output of "constant" does not fit "takes": /id: expected boolean, produced integer"#
        ]],
    );
    referred["$defs"]["id"]["anyOf"][1]["type"] = json!("integer");
    check_fit(referred.clone(), id("integer"), expect!["fits"]);
    check_fit(id("integer"), referred, expect!["fits"]);
    let parts = json!({"type": "object", "allOf": [object(json!({"id": {"type": "integer"}}), json!(["id"])), object(json!({"at": {}}), json!(["at"]))]});
    check_fit(parts.clone(), id("integer"), expect!["fits"]);
    check_fit(
        parts,
        id("string"),
        expect![[r#"the output of "constant" does not fit "takes": /id: expected string, produced integer"#]],
    );
    // Optional and nullable values may be valid for the next tool, so they are checked only when
    // the chain is called.
    check_fit(
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        id("integer"),
        expect!["fits"],
    );
    closed["required"] = json!([]);
    check_fit(object(json!({"id": {"type": "string"}, "y": {}}), json!([])), closed, expect!["fits"]);
    check_fit(json!({"type": ["object", "null"]}), id("integer"), expect!["fits"]);
    check_fit(json!(true), id("integer"), expect!["fits"]);
    // The comparison of recursive schemas terminates.
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}}});
    check_fit(tree.clone(), tree, expect!["fits"]);
}

/// The policy, the annotations and the description of a chain are derived from the definitions of
/// its tools.
#[test]
fn definition_is_derived_from_the_parts() {
    let part = |name: &str, policy: ToolPolicy, annotations: Annotations| {
        constant(json!(1)).with_definition(|it| {
            it.with_name(name)
                .with_description(format!("Does {name}."))
                .with_policy(policy)
                .with_annotations(annotations)
        })
    };
    let hints = |read_only, destructive| Annotations { read_only, destructive, ..Annotations::default() };
    let first = ToolPolicy {
        timeout: Some(Duration::from_secs(1)),
        required_scopes: vec!["a".into(), "b".into()],
        idempotent: true,
        retries: 3,
        ..ToolPolicy::default()
    };
    let second = ToolPolicy {
        timeout: Some(Duration::from_secs(2)),
        required_scopes: vec!["b".into(), "c".into()],
        sequential: true,
        requires_approval: true,
        output_limit: 9,
        ..ToolPolicy::default()
    };
    let a = part("a", first.clone(), hints(Some(true), Some(false))).with_definition(|it| {
        it.with_state_type(StateType::of::<u8>()).with_input_schema(json!({"properties": {"x": {}}}))
    });
    let b = part("b", second, hints(Some(false), None)).with_definition(|it| {
        it.with_state_type(StateType::of::<u8>()).with_output_schema(json!({"type": "string"}))
    });
    let both = chain("a_then_b", (a.clone(), b)).unwrap();
    let policy = both.definition().policy();
    assert_eq!((policy.timeout, policy.retries, policy.output_limit), (Some(Duration::from_secs(3)), 1, 9));
    assert_eq!((policy.sequential, policy.idempotent, policy.requires_approval), (true, false, false));
    assert_eq!(policy.required_scopes, ["a", "b", "c"]);
    assert_eq!(both.definition().state_types(), [StateType::of::<u8>()]);
    expect![[r#"{"name":"a_then_b","description":"Does a. Then: Does b.","input_schema":{"type":"object","properties":{"x":{}}},"output_schema":{"type":"string"},"annotations":{"read_only":false}}"#]].assert_eq(&serde_json::to_string(both.definition()).unwrap());
    assert!(chain("a", [a]).unwrap().definition().policy().idempotent);
    let touches = Some(TouchFn::new(|_| vec![Touch::read("x")]));
    let reads = part("c", ToolPolicy { touches, ..ToolPolicy::default() }, hints(None, None));
    let whole = chain("c_whole", [reads]).unwrap();
    let policy = whole.definition().policy();
    assert_eq!(
        (policy.sequential, &policy.touches),
        (true, &None),
        "`touches` needs the arguments of each part"
    );
}

/// Creates a chain of three tools. The first tool has the policy `first`, and the second tool fails
/// with the error that `fail` returns.
fn failing_chain(fail: fn() -> ToolError, first: ToolPolicy) -> Chain {
    let fails = DynamicTool::new(definition("second"), move |_, _| async move { Err::<(), _>(fail()) });
    let first = Now.with_definition(|it| it.with_policy(first));
    chain("both", (first, fails, Now)).unwrap()
}

#[tokio::test]
async fn first_failure_ends_the_chain() {
    let check = async |fail: fn() -> ToolError, first: ToolPolicy, kind, text: Expect| {
        let result = failing_chain(fail, first).invoke(json!({})).await;
        assert_eq!(result.failure().unwrap().kind, kind);
        text.assert_eq(&result.model_text());
    };
    let (once, idempotent) =
        (ToolPolicy::default(), ToolPolicy { idempotent: true, ..ToolPolicy::default() });
    check(
        || ToolError::failed("no disk"),
        once.clone(),
        FailureKind::Failed,
        expect!["second: no disk (before it ran: now)"],
    )
    .await;
    check(
        || ToolError::TimedOut { after: Duration::from_secs(7) },
        once.clone(),
        FailureKind::TimedOut,
        expect!["second: timed out after 7000 ms (before it ran: now)"],
    )
    .await;
    check(
        || ToolError::Unconfirmed("lost".into()),
        once.clone(),
        FailureKind::Unconfirmed,
        expect!["second: unconfirmed, it may or may not have happened: lost (before it ran: now)"],
    )
    .await;
    check(
        || ToolError::Fatal("stop".into()),
        once.clone(),
        FailureKind::Fatal,
        expect!["second: stop (before it ran: now)"],
    )
    .await;
    // A retry of the chain would repeat the call to the first tool, so the failure kind `Retry`
    // becomes `Failed` unless the first tool is idempotent.
    check(
        || ToolError::retry("another"),
        once.clone(),
        FailureKind::Failed,
        expect!["second: another (before it ran: now)"],
    )
    .await;
    check(
        || ToolError::retry("another"),
        idempotent,
        FailureKind::Retry,
        expect!["second: another (before it ran: now)"],
    )
    .await;
    // The arguments of the second tool are the output of the first tool, so the model cannot
    // correct them.
    check(
        || ToolError::InvalidArguments("/x".into()),
        once,
        FailureKind::Failed,
        expect!["second: invalid arguments: /x (before it ran: now)"],
    )
    .await;
    let panics = DynamicTool::new(definition("first"), |_, _| async {
        if true {
            panic!("oh")
        }
    });
    expect!["first: the tool panicked; it may have done a part of its work"]
        .assert_eq(&call_text(&chain("both", (panics, Now)).unwrap(), json!({})).await);
}

#[tokio::test(start_paused = true)]
async fn timeouts_apply_per_tool_and_add_up() {
    let slow = |name: &str, takes: u64, timeout: u64| {
        let policy = ToolPolicy { timeout: Some(Duration::from_secs(timeout)), ..ToolPolicy::default() };
        DynamicTool::new(definition(name).with_policy(policy), move |_, _| async move {
            sleep(Duration::from_secs(takes)).await;
            "done"
        })
    };
    let fine = chain("both", [slow("a", 9, 10), slow("b", 9, 10)]).unwrap();
    assert_eq!(call_text(&fine, json!({})).await, "done");
    let late = chain("both", [slow("a", 1, 10), slow("b", 9, 5)]).unwrap().invoke(json!({})).await;
    assert_eq!(late.failure().unwrap().kind, FailureKind::TimedOut);
    assert_eq!(late.model_text(), "b: timed out after 5000 ms (before it ran: a)");
    // The chain ends at its own timeout, even if no single tool exceeds its timeout.
    let hurried = fine.with_definition(|it| {
        it.with_policy(ToolPolicy { timeout: Some(Duration::from_secs(12)), ..ToolPolicy::default() })
    });
    let late = hurried.invoke(json!({})).await;
    assert!(
        late.model_text().contains("timed out after 12000 ms") || late.model_text().contains("after 3000 ms"),
        "{late:?}"
    );
    assert_eq!(late.failure().unwrap().kind, FailureKind::TimedOut);
}

#[tokio::test]
async fn cancelled_chain_stops() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let stop =
        DynamicTool::new(definition("stop"), |_, cx: ToolContext| async move { cx.cancellation().cancel() });
    let after = DynamicTool::new(definition("after"), move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    let result = chain("both", (stop, after)).unwrap().invoke(json!({})).await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::Cancelled);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

type Entries = Arc<Mutex<Vec<AuditEntry>>>;

fn audited_pipeline() -> (Pipeline, Entries) {
    let entries = Entries::default();
    let log = Arc::clone(&entries);
    let pipeline = Pipeline::new().with_recorder(AuditLog::new(move |entry| log.lock().unwrap().push(entry)));
    (pipeline, entries)
}

fn audit_lines(entries: &Entries) -> String {
    let entries = entries.lock().unwrap();
    let line = |it: &AuditEntry| format!("{} {} {} {:?}", it.call_id, it.tool, it.arguments, it.outcome);
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn context(scopes: &[&str]) -> ToolContext {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let principal = Some(Principal { id: "ann".into(), scopes });
    ToolContext::new(Arc::new(RunContext { principal, ..RunContext::default() }), "call_1")
}

async fn call(
    pipeline: &Pipeline,
    tool: impl Tool + 'static,
    arguments: &str,
    cx: &ToolContext,
) -> CallOutcome {
    let call = ToolCall::new(cx.call_id(), tool.definition().name().as_str(), arguments);
    pipeline.call(&ToolList::new("test", [tool]), &call, cx).await
}

#[tokio::test]
async fn inner_calls_are_recorded_and_scopes_apply_to_the_chain() {
    let scope = ToolPolicy { required_scopes: vec!["greet".into()], ..ToolPolicy::default() };
    let guarded = chain("both", (FindUser, Greet.with_definition(|it| it.with_policy(scope)))).unwrap();
    let (pipeline, entries) = audited_pipeline();
    for scopes in [&[][..], &["greet"]] {
        call(&pipeline, guarded.clone(), r#"{"name": "Ann"}"#, &context(scopes)).await;
    }
    expect![[r#"
        call_1 both {"name":"Ann"} Failed { kind: Denied }
        call_1/1 find_user {"name":"Ann"} Done
        call_1/2 greet {"id":7,"name":"Ann"} Done
        call_1 both {"name":"Ann"} Done"#]]
    .assert_eq(&audit_lines(&entries));
}

/// Serializes `suspended` and deserializes it again, as if another process resumed the call.
fn reload(suspended: PendingCall) -> PendingCall {
    serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap()
}

async fn resume_with(
    pipeline: &Pipeline,
    tool: &Chain,
    suspended: &PendingCall,
    decisions: impl IntoIterator<Item = (&'static str, Decision)>,
) -> CallOutcome {
    let decisions: Decisions =
        decisions.into_iter().map(|(id, decision)| (id.to_owned(), decision)).collect();
    let resumed = suspended.pending.clone().resume(Decision::Nested { decisions }).unwrap();
    call(pipeline, tool.clone(), &suspended.call.arguments, &context(&[]).with_resumed(resumed)).await
}

/// The approval of an inner call must show its actual arguments. After the decision, the chain must
/// resume at the suspended call and must not repeat earlier calls.
#[tokio::test]
async fn suspended_chain_resumes_at_the_same_call() {
    let approval = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let greet = Greet.with_definition(|it| it.with_policy(approval));
    let greeting = chain("greeting", (FindUser, greet, Count)).unwrap();
    let (pipeline, entries) = audited_pipeline();
    let CallOutcome::Pending(suspended) =
        call(&pipeline, greeting.clone(), r#"{"name": "Ann"}"#, &context(&[])).await
    else {
        panic!()
    };
    let suspended = reload(suspended);
    let [leaf] = suspended.innermost_calls()[..] else { panic!() };
    assert_eq!(leaf.call.id, "call_1/2");
    assert_eq!(leaf.pending.kind, PendingKind::Approval { arguments: json!({"id": 7, "name": "Ann"}) });

    let done = resume_with(&pipeline, &greeting, &suspended, [("call_1/2", Decision::approved())])
        .await
        .into_result();
    assert_eq!(done.model_text(), "19");
    let others = Decision::approved_with_arguments(json!({"id": 1, "name": "B"}));
    let done = resume_with(&pipeline, &greeting, &suspended, [("call_1/2", others)]).await.into_result();
    expect![[r#"
        17
        Warning: it was approved with other arguments: {"id":1,"name":"B"}"#]]
    .assert_eq(&done.model_text());
    let denied = resume_with(&pipeline, &greeting, &suspended, [("call_1/2", Decision::denied("too loud"))])
        .await
        .into_result();
    assert_eq!(denied.failure().unwrap().kind, FailureKind::Denied);
    expect!["greet: denied: too loud (before it ran: find_user)"].assert_eq(&denied.model_text());
    let refused = suspended.pending.clone().resume(Decision::denied("not at all")).unwrap();
    let refused =
        call(&pipeline, greeting.clone(), "{}", &context(&[]).with_resumed(refused)).await.into_result();
    assert_eq!(refused.failure().unwrap().kind, FailureKind::InvalidArguments);
    expect![[r#"
        call_1/1 find_user {"name":"Ann"} Done
        call_1/2 greet {"id":7,"name":"Ann"} Pending { reason: Approval }
        call_1 greeting {"name":"Ann"} Pending { reason: Nested }
        call_1/2 greet {"id":7,"name":"Ann"} Done
        call_1/3 count {"text":"Hello Ann, number 7"} Done
        call_1 greeting {"name":"Ann"} Done
        call_1/2 greet {"id":1,"name":"B"} Done
        call_1/3 count {"text":"Hello B, number 1"} Done
        call_1 greeting {"name":"Ann"} Done
        call_1/2 greet {"id":7,"name":"Ann"} Failed { kind: Denied }
        call_1 greeting {"name":"Ann"} Failed { kind: Denied }
        call_1 greeting {} Failed { kind: InvalidArguments }"#]]
    .assert_eq(&audit_lines(&entries));
}

/// A decision reaches the call with its id, even if this call is in a nested chain and is suspended
/// several times in a row.
#[tokio::test]
async fn decision_reaches_a_nested_chain() {
    let ask = DynamicTool::new(definition("ask"), |_, cx: ToolContext| async move {
        match (cx.decision(), cx.continuation()) {
            (None, _) => {
                ToolResponse::Pending(Pending::new(PendingKind::input("Which?")).with_continuation(json!(1)))
            }
            (Some(Decision::Input { value }), Some(state)) if *state == json!(1) => ToolResponse::Pending(
                Pending::new(PendingKind::input("Sure?")).with_continuation(json!([2, value])),
            ),
            (Some(Decision::Input { value }), Some(state)) => format!("{value} after {state}").into(),
            _ => ToolResponse::from("?"),
        }
    });
    let inner = chain("inner", (Now, ask)).unwrap();
    let outer = chain("outer", (Now, inner, Count)).unwrap();
    let (pipeline, _) = audited_pipeline();
    let CallOutcome::Pending(suspended) = call(&pipeline, outer.clone(), "{}", &context(&[])).await else {
        panic!()
    };
    let suspended = reload(suspended);
    assert_eq!(suspended.innermost_calls()[0].call.id, "call_1/2/2");
    let input = |value| Decision::Input { value: json!(value) };
    let CallOutcome::Pending(suspended) =
        resume_with(&pipeline, &outer, &suspended, [("call_1/2/2", input("this"))]).await
    else {
        panic!()
    };
    let suspended = reload(suspended);
    assert_eq!(suspended.innermost_calls()[0].pending.kind, PendingKind::input("Sure?"));
    let done = resume_with(&pipeline, &outer, &suspended, [("call_1/2/2", input("yes"))]).await.into_result();
    assert_eq!(done.model_text(), "\"yes\" after [2,\"this\"]".len().to_string());
    // A different chain with the same name must not resume a suspended call.
    let other = chain("outer", (Now, Greet, Count)).unwrap();
    let lost = resume_with(&pipeline, &other, &suspended, [("call_1/2/2", input("yes"))]).await.into_result();
    assert_eq!(lost.model_text(), "the chain has changed since it was suspended");
    // Without a decision for its pending call, the chain stays suspended.
    let CallOutcome::Pending(again) = resume_with(&pipeline, &outer, &suspended, []).await else { panic!() };
    assert_eq!(again.innermost_calls()[0].call.id, "call_1/2/2");
}

/// The progress and the warnings of inner calls must be reported as progress and warnings of the
/// chain.
#[tokio::test]
async fn progress_and_warnings_are_forwarded() {
    #[derive(Default)]
    struct Sink(Mutex<Vec<(String, f64)>>);
    impl ProgressSink for Sink {
        fn report(&self, call_id: &str, progress: Progress) {
            self.0.lock().unwrap().push((call_id.to_owned(), progress.progress));
        }
    }
    let part = |progress: f64| {
        DynamicTool::new(definition("part"), move |_, cx: ToolContext| async move {
            cx.report_progress(Progress { progress, ..Progress::default() });
            ToolOutput::structured(json!({})).with_warning(format!("half {progress}"))
        })
    };
    let sink = Arc::new(Sink::default());
    let run =
        RunContext { progress: Some(Arc::clone(&sink) as Arc<dyn ProgressSink>), ..RunContext::default() };
    let cx = ToolContext::new(Arc::new(run), "call_1");
    let result: ToolResult =
        chain("both", [part(1.0), part(2.0)]).unwrap().invoke_with(json!({}), &cx).await.into_result();
    assert_eq!(result.warnings, ["half 1", "half 2"]);
    assert_eq!(*sink.0.lock().unwrap(), [("call_1".to_owned(), 1.0), ("call_1".to_owned(), 2.0)]);
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
        Ok::<_, BoxError>(output)
    });
    let result = outer.invoke(json!({})).await;
    assert_eq!((result.failure().unwrap().kind, &*result.model_text()), (FailureKind::Denied, "denied: no"));
}
