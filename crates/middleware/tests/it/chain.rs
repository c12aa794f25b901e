//! Behaviour A69: several tools as one.

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
    call::{BoxError, Decision, Decisions, FailureKind, Pending, PendingCall, PendingKind, ToolOutcome},
    export::schemars::{self, JsonSchema},
    pipeline::CallOutcome,
    tool,
    tool::{
        Access, Annotations, DynamicTool, Policy, Principal, Progress, ProgressSink, RunContext, StateType,
        Touch,
    },
    toolset::ToolList,
};
use haft_middleware::{Audit, AuditLog, Chain, chain};
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

/// Tells the time.
#[tool]
fn now() -> &'static str {
    "noon"
}

fn named(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

/// A tool that gives what it is given to give.
fn gives(value: Value) -> DynamicTool {
    DynamicTool::new(named("gives"), move |_, _| {
        let output = ToolOutput::structured(value.clone());
        async move { output }
    })
}

async fn said(tool: &impl Tool, arguments: Value) -> String {
    tool.invoke(arguments).await.model_text().into_owned()
}

#[tokio::test]
async fn the_result_of_each_is_the_arguments_of_the_next() {
    let ann = || json!({"name": "Ann"});
    // An object is the arguments, or the one that must be given; a value and a text are the one argument.
    assert_eq!(said(&chain("a_b", (FindUser, Greet)).unwrap(), ann()).await, "Hello Ann, number 7");
    assert_eq!(said(&chain("a_b", (FindUser, Mark)).unwrap(), ann()).await, "Ann has 1");
    let all = chain("all", (FindUser, Greet, Count, Double)).unwrap();
    assert_eq!(said(&all, ann()).await, "38");
    // What an object as text says is read; a tool without arguments is given none.
    let text = DynamicTool::new(named("text"), |_, _| async { r#"{"id": 1, "name": "Bob"}"# });
    assert_eq!(said(&chain("a_b", (text, Greet)).unwrap(), json!({})).await, "Hello Bob, number 1");
    assert_eq!(said(&chain("a_b", (Greet, Now)).unwrap(), json!({"id": 1, "name": "x"})).await, "noon");
    // What nobody declared is repaired, or explained.
    assert_eq!(said(&chain("a_b", [gives(json!("21")), gives(json!(1))]).unwrap(), json!({})).await, "1");
    assert_eq!(said(&chain("a_b", (gives(json!("21")), Double)).unwrap(), json!({})).await, "42");
    expect![[
        r#"double: invalid arguments: /n: expected integer, received string "x" (before it ran: gives)"#
    ]]
    .assert_eq(&said(&chain("a_b", (gives(json!("x")), Double)).unwrap(), json!({})).await);
    expect!["greet: invalid arguments: /: expected object, received array [1] (before it ran: gives)"]
        .assert_eq(&said(&chain("a_b", (gives(json!([1])), Greet)).unwrap(), json!({})).await);
    expect![[r#"
        invalid arguments: /: unknown property "nmae", did you mean "name"? known properties: "name"
        /: missing required property "name" (string)"#]]
    .assert_eq(&said(&chain("a_b", (FindUser, Greet)).unwrap(), json!({"nmae": "Ann"})).await);
}

/// The members of an object need not be listed, such as by a server.
#[tokio::test]
async fn what_is_given_beyond_the_schema_is_taken() {
    let user = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]});
    let found = gives(json!({"id": 7, "name": "Ann"})).with_definition(|it| it.with_output_schema(user));
    assert_eq!(said(&chain("a_b", (found, Greet)).unwrap(), json!({})).await, "Hello Ann, number 7");
}

/// What one gives the next is never shortened.
#[tokio::test]
async fn what_is_passed_on_is_whole() {
    let long = DynamicTool::new(named("long"), |_, _| async { "x".repeat(1 << 20) });
    let tools = Toolset::new().with(chain("a_b", (long, Count)).unwrap());
    assert_eq!(tools.call("a_b", json!({})).await.model_text(), "1048576");
}

#[tokio::test]
async fn one_tool_and_chains_in_chains() {
    let one = chain("one", [FindUser]).unwrap();
    assert!(said(&one, json!({"name": "Ann"})).await.contains("Ann"));
    let inner = chain("inner", (FindUser, Greet)).unwrap();
    let outer = chain("outer", (inner, chain("rest", (Count, Double)).unwrap())).unwrap();
    assert_eq!(said(&outer, json!({"name": "Ann"})).await, "38");
}

fn error(chained: Result<Chain, haft_middleware::ChainError>, text: Expect) {
    text.assert_eq(&chained.err().map_or_else(|| "fits".to_owned(), |error| error.to_string()));
}

fn fit(given: Value, asked: Value, text: Expect) {
    let before = gives(json!(1)).with_definition(|it| it.with_output_schema(given));
    let after = gives(json!(1)).with_definition(|it| it.with_name("takes").with_input_schema(asked));
    error(chain("a_b", (before, after)), text);
}

#[test]
fn what_cannot_be_chained_is_told() {
    error(chain("none", Vec::<DynamicTool>::new()), expect!["a chain needs at least one tool"]);
    error(
        chain("a then b", [Now]),
        expect![[
            r#""a then b" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#
        ]],
    );
    error(
        chain("a_b", [Now.with_definition(|it| it.with_name("not a name"))]),
        expect![[
            r#"tool "now" cannot be used: "not a name" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#
        ]],
    );
    error(
        chain("a_b", (Count, Greet)),
        expect![[r#"what "count" gives does not fit "greet": /: expected object, produced integer"#]],
    );
    error(
        chain("a_b", (FindUser, Double)),
        expect![[r#"what "find_user" gives does not fit "double": /n: required, but never produced"#]],
    );
    error(
        chain("a_b", (Double, Count)),
        expect![[r#"what "double" gives does not fit "count": /text: expected string, produced integer"#]],
    );
    error(
        chain("a_b", (Greet, Count, Count)),
        expect![[r#"what "count" gives does not fit "count": /text: expected string, produced integer"#]],
    );
}

#[test]
fn what_never_fits_is_told_with_its_place() {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let id = |kind: &str| object(json!({"id": {"type": kind}, "at": {}}), json!(["id", "at"]));
    fit(
        id("string"),
        id("integer"),
        expect![[r#"what "gives" gives does not fit "takes": /id: expected integer, produced string"#]],
    );
    fit(id("number"), id("integer"), expect!["fits"]);
    // An object may have members that its schema does not list, unless that says that it has none.
    let mut less = object(json!({"id": {}}), json!(["id"]));
    fit(less.clone(), id("integer"), expect!["fits"]);
    less["additionalProperties"] = json!(true);
    fit(less.clone(), id("integer"), expect!["fits"]);
    less["additionalProperties"] = json!(false);
    fit(
        less,
        id("integer"),
        expect![[r#"what "gives" gives does not fit "takes": /at: required, but never produced"#]],
    );
    let deep = |kind: &str| {
        object(json!({"users": {"type": "array", "items": id(kind)}, "n": {}}), json!(["users", "n"]))
    };
    fit(
        deep("string"),
        deep("integer"),
        expect![[
            r#"what "gives" gives does not fit "takes": /users/0/id: expected integer, produced string"#
        ]],
    );
    let mut closed = object(json!({"id": {"type": "integer"}, "x": {}}), json!(["id", "x"]));
    closed["additionalProperties"] = json!(false);
    let more = json!({"id": {}, "x": {}, "y": {}});
    fit(
        object(more.clone(), json!(["id", "y"])),
        closed.clone(),
        expect![[r#"what "gives" gives does not fit "takes": /y: always produced, but not accepted"#]],
    );
    fit(object(more, json!(["id"])), closed.clone(), expect!["fits"]);
    let one_of = |values: Value| object(json!({"kind": {"enum": values}, "n": {}}), json!(["kind", "n"]));
    fit(
        one_of(json!(["a", "b"])),
        one_of(json!(["c", 1])),
        expect![[
            r#"what "gives" gives does not fit "takes": /kind: expected one of "c", 1, produced "a", "b""#
        ]],
    );
    fit(one_of(json!(["a", "b"])), one_of(json!(["b"])), expect!["fits"]);
    // References and alternatives are followed; all must fail for the whole to.
    let mut referred = object(json!({"id": {"$ref": "#/$defs/id"}, "at": {}}), json!(["id", "at"]));
    referred["$defs"] = json!({"id": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}});
    fit(
        referred.clone(),
        id("integer"),
        expect![[r#"what "gives" gives does not fit "takes": /id: expected integer, produced boolean"#]],
    );
    fit(
        id("integer"),
        referred.clone(),
        expect![[r#"what "gives" gives does not fit "takes": /id: expected boolean, produced integer"#]],
    );
    referred["$defs"]["id"]["anyOf"][1]["type"] = json!("integer");
    fit(referred.clone(), id("integer"), expect!["fits"]);
    fit(id("integer"), referred, expect!["fits"]);
    let parts = json!({"type": "object", "allOf": [object(json!({"id": {"type": "integer"}}), json!(["id"])), object(json!({"at": {}}), json!(["at"]))]});
    fit(parts.clone(), id("integer"), expect!["fits"]);
    fit(
        parts,
        id("string"),
        expect![[r#"what "gives" gives does not fit "takes": /id: expected string, produced integer"#]],
    );
    // What may be there, or be nothing, is found out when it is called.
    fit(
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        id("integer"),
        expect!["fits"],
    );
    closed["required"] = json!([]);
    fit(object(json!({"id": {"type": "string"}, "y": {}}), json!([])), closed, expect!["fits"]);
    fit(json!({"type": ["object", "null"]}), id("integer"), expect!["fits"]);
    fit(json!(true), id("integer"), expect!["fits"]);
    // A schema that refers to itself ends.
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}}});
    fit(tree.clone(), tree, expect!["fits"]);
}

/// The whole says of itself what its parts are.
#[test]
fn the_definition_comes_from_the_parts() {
    let part = |name: &str, policy: Policy, annotations: Annotations| {
        gives(json!(1)).with_definition(|it| {
            it.with_name(name)
                .with_description(format!("Does {name}."))
                .with_policy(policy)
                .with_annotations(annotations)
        })
    };
    let hints = |read_only, destructive| Annotations { read_only, destructive, ..Annotations::default() };
    let first = Policy {
        timeout: Duration::from_secs(1),
        required_scopes: vec!["a".into(), "b".into()],
        idempotent: true,
        retries: 3,
        ..Policy::default()
    };
    let second = Policy {
        timeout: Duration::from_secs(2),
        required_scopes: vec!["b".into(), "c".into()],
        sequential: true,
        requires_approval: true,
        output_limit: 9,
        ..Policy::default()
    };
    let a = part("a", first.clone(), hints(Some(true), Some(false))).with_definition(|it| {
        it.with_state(StateType::of::<u8>()).with_input_schema(json!({"properties": {"x": {}}}))
    });
    let b = part("b", second, hints(Some(false), None)).with_definition(|it| {
        it.with_state(StateType::of::<u8>()).with_output_schema(json!({"type": "string"}))
    });
    let both = chain("a_then_b", (a.clone(), b)).unwrap();
    let policy = both.definition().policy();
    assert_eq!((policy.timeout, policy.retries, policy.output_limit), (Duration::from_secs(3), 1, 9));
    assert_eq!((policy.sequential, policy.idempotent, policy.requires_approval), (true, false, false));
    assert_eq!(policy.required_scopes, ["a", "b", "c"]);
    assert_eq!(both.definition().state(), [StateType::of::<u8>()]);
    expect![[r#"{"name":"a_then_b","description":"Does a. Then: Does b.","input_schema":{"type":"object","properties":{"x":{}}},"output_schema":{"type":"string"},"annotations":{"read_only":false}}"#]].assert_eq(&serde_json::to_string(both.definition()).unwrap());
    assert!(chain("a", [a]).unwrap().definition().policy().idempotent);
    let touches = Some(Access::new(|_| vec![Touch::read("x")]));
    let reads = part("c", Policy { touches, ..Policy::default() }, hints(None, None));
    let whole = chain("c_whole", [reads]).unwrap();
    let policy = whole.definition().policy();
    assert_eq!(
        (policy.sequential, &policy.touches),
        (true, &None),
        "the arguments are those of the first part"
    );
}

/// A tool that fails, behind one that did run.
fn failing(fail: fn() -> ToolError, first: Policy) -> Chain {
    let fails = DynamicTool::new(named("second"), move |_, _| async move { Err::<(), _>(fail()) });
    let first = Now.with_definition(|it| it.with_policy(first));
    chain("both", (first, fails, Now)).unwrap()
}

#[tokio::test]
async fn the_first_failure_is_that_of_the_whole() {
    let check = async |fail: fn() -> ToolError, first: Policy, kind, text: Expect| {
        let result = failing(fail, first).invoke(json!({})).await;
        assert_eq!(result.failure().unwrap().kind, kind);
        text.assert_eq(&result.model_text());
    };
    let (once, idempotent) = (Policy::default(), Policy { idempotent: true, ..Policy::default() });
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
    // Another try would do again what the first has done.
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
    // What was wrong with these arguments is no mistake of the model.
    check(
        || ToolError::InvalidArguments("/x".into()),
        once,
        FailureKind::Failed,
        expect!["second: invalid arguments: /x (before it ran: now)"],
    )
    .await;
    let panics = DynamicTool::new(named("first"), |_, _| async {
        if true {
            panic!("oh")
        }
    });
    expect!["first: the tool panicked; it may have done a part of its work"]
        .assert_eq(&said(&chain("both", (panics, Now)).unwrap(), json!({})).await);
}

#[tokio::test(start_paused = true)]
async fn each_has_its_time_and_the_whole_has_that_of_all() {
    let slow = |name: &str, takes: u64, timeout: u64| {
        let policy = Policy { timeout: Duration::from_secs(timeout), ..Policy::default() };
        DynamicTool::new(named(name).with_policy(policy), move |_, _| async move {
            sleep(Duration::from_secs(takes)).await;
            "done"
        })
    };
    let fine = chain("both", [slow("a", 9, 10), slow("b", 9, 10)]).unwrap();
    assert_eq!(said(&fine, json!({})).await, "done");
    let late = chain("both", [slow("a", 1, 10), slow("b", 9, 5)]).unwrap().invoke(json!({})).await;
    assert_eq!(late.failure().unwrap().kind, FailureKind::TimedOut);
    assert_eq!(late.model_text(), "b: timed out after 5000 ms (before it ran: a)");
    // Given less for the whole, that holds.
    let hurried = fine.with_definition(|it| {
        it.with_policy(Policy { timeout: Duration::from_secs(12), ..Policy::default() })
    });
    let late = hurried.invoke(json!({})).await;
    assert!(
        late.model_text().contains("timed out after 12000 ms") || late.model_text().contains("after 3000 ms"),
        "{late:?}"
    );
    assert_eq!(late.failure().unwrap().kind, FailureKind::TimedOut);
}

#[tokio::test]
async fn a_cancelled_chain_does_not_go_on() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let stop =
        DynamicTool::new(named("stop"), |_, cx: ToolContext| async move { cx.cancellation().cancel() });
    let after = DynamicTool::new(named("after"), move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    let result = chain("both", (stop, after)).unwrap().invoke(json!({})).await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::Cancelled);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

type Entries = Arc<Mutex<Vec<Audit>>>;

fn audited() -> (Pipeline, Entries) {
    let entries = Entries::default();
    let log = Arc::clone(&entries);
    let pipeline = Pipeline::new().with_recorder(AuditLog::new(move |entry| log.lock().unwrap().push(entry)));
    (pipeline, entries)
}

fn lines(entries: &Entries) -> String {
    let entries = entries.lock().unwrap();
    let line = |it: &Audit| format!("{} {} {} {:?}", it.call_id, it.tool, it.arguments, it.outcome);
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn cx(scopes: &[&str]) -> ToolContext {
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
async fn every_call_inside_is_on_record_and_a_scope_of_one_is_that_of_the_whole() {
    let scope = Policy { required_scopes: vec!["greet".into()], ..Policy::default() };
    let guarded = chain("both", (FindUser, Greet.with_definition(|it| it.with_policy(scope)))).unwrap();
    let (pipeline, entries) = audited();
    for scopes in [&[][..], &["greet"]] {
        call(&pipeline, guarded.clone(), r#"{"name": "Ann"}"#, &cx(scopes)).await;
    }
    expect![[r#"
        call_1 both {"name":"Ann"} Failed { kind: Denied }
        call_1/1 find_user {"name":"Ann"} Done
        call_1/2 greet {"id":7,"name":"Ann"} Done
        call_1 both {"name":"Ann"} Done"#]]
    .assert_eq(&lines(&entries));
}

/// As another process would load it.
fn reloaded(waits: PendingCall) -> PendingCall {
    serde_json::from_str(&serde_json::to_string(&waits).unwrap()).unwrap()
}

async fn answer(
    pipeline: &Pipeline,
    tool: &Chain,
    waits: &PendingCall,
    answers: impl IntoIterator<Item = (&'static str, Decision)>,
) -> CallOutcome {
    let answers: Decisions = answers.into_iter().map(|(id, answer)| (id.to_owned(), answer)).collect();
    let resumed = waits.pending.clone().decided(Decision::Nested { decisions: answers }).unwrap();
    call(pipeline, tool.clone(), &waits.call.arguments, &cx(&[]).with_resumed(resumed)).await
}

/// What waits inside is asked with its own arguments, and the chain goes on there: what ran before does not run again.
#[tokio::test]
async fn a_chain_waits_and_goes_on_at_its_place() {
    let approval = Policy { requires_approval: true, ..Policy::default() };
    let warns = FindUser.with_definition(|it| it);
    let greet = Greet.with_definition(|it| it.with_policy(approval));
    let greeting = chain("greeting", (warns, greet, Count)).unwrap();
    let (pipeline, entries) = audited();
    let CallOutcome::Pending(waits) = call(&pipeline, greeting.clone(), r#"{"name": "Ann"}"#, &cx(&[])).await
    else {
        panic!()
    };
    let waits = reloaded(waits);
    let [leaf] = waits.leaves()[..] else { panic!() };
    assert_eq!(leaf.call.id, "call_1/2");
    assert_eq!(leaf.pending.kind, PendingKind::Approval { arguments: json!({"id": 7, "name": "Ann"}) });

    let done = answer(&pipeline, &greeting, &waits, [("call_1/2", Decision::approved())]).await.into_result();
    assert_eq!(done.model_text(), "19");
    let others = Decision::approved_with(json!({"id": 1, "name": "B"}));
    let done = answer(&pipeline, &greeting, &waits, [("call_1/2", others)]).await.into_result();
    expect![[r#"
        17
        Warning: it was approved with other arguments: {"id":1,"name":"B"}"#]]
    .assert_eq(&done.model_text());
    let denied = answer(&pipeline, &greeting, &waits, [("call_1/2", Decision::denied("too loud"))])
        .await
        .into_result();
    assert_eq!(denied.failure().unwrap().kind, FailureKind::Denied);
    expect!["greet: denied: too loud (before it ran: find_user)"].assert_eq(&denied.model_text());
    let refused = waits.pending.clone().decided(Decision::denied("not at all")).unwrap();
    let refused = call(&pipeline, greeting.clone(), "{}", &cx(&[]).with_resumed(refused)).await.into_result();
    assert_eq!(refused.failure().unwrap().kind, FailureKind::InvalidArguments);
    expect![[r#"
        call_1/1 find_user {"name":"Ann"} Done
        call_1/2 greet {"id":7,"name":"Ann"} Pending { waits_for: Approval }
        call_1 greeting {"name":"Ann"} Pending { waits_for: Nested }
        call_1/2 greet {"id":7,"name":"Ann"} Done
        call_1/3 count {"text":"Hello Ann, number 7"} Done
        call_1 greeting {"name":"Ann"} Done
        call_1/2 greet {"id":1,"name":"B"} Done
        call_1/3 count {"text":"Hello B, number 1"} Done
        call_1 greeting {"name":"Ann"} Done
        call_1/2 greet {"id":7,"name":"Ann"} Failed { kind: Denied }
        call_1 greeting {"name":"Ann"} Failed { kind: Denied }
        call_1 greeting {} Failed { kind: InvalidArguments }"#]]
    .assert_eq(&lines(&entries));
}

/// Behaviour D36: a call inside a chain inside a chain is answered by its id, and may wait more than once.
#[tokio::test]
async fn an_answer_finds_its_way_down() {
    let ask = DynamicTool::new(named("ask"), |_, cx: ToolContext| async move {
        match (cx.decision(), cx.pending_state()) {
            (None, _) => {
                ToolOutcome::Pending(Pending::new(PendingKind::input("Which?")).with_state(json!(1)))
            }
            (Some(Decision::Input { value }), Some(state)) if *state == json!(1) => {
                ToolOutcome::Pending(Pending::new(PendingKind::input("Sure?")).with_state(json!([2, value])))
            }
            (Some(Decision::Input { value }), Some(state)) => format!("{value} after {state}").into(),
            _ => ToolOutcome::from("?"),
        }
    });
    let inner = chain("inner", (Now, ask)).unwrap();
    let outer = chain("outer", (Now, inner, Count)).unwrap();
    let (pipeline, _) = audited();
    let CallOutcome::Pending(waits) = call(&pipeline, outer.clone(), "{}", &cx(&[])).await else { panic!() };
    let waits = reloaded(waits);
    assert_eq!(waits.leaves()[0].call.id, "call_1/2/2");
    let said = |value| Decision::Input { value: json!(value) };
    let CallOutcome::Pending(waits) = answer(&pipeline, &outer, &waits, [("call_1/2/2", said("this"))]).await
    else {
        panic!()
    };
    let waits = reloaded(waits);
    assert_eq!(waits.leaves()[0].pending.kind, PendingKind::input("Sure?"));
    let done = answer(&pipeline, &outer, &waits, [("call_1/2/2", said("yes"))]).await.into_result();
    assert_eq!(done.model_text(), "\"yes\" after [2,\"this\"]".len().to_string());
    // Another program's chain of that name is not called in the place of this one.
    let other = chain("outer", (Now, Greet, Count)).unwrap();
    let lost = answer(&pipeline, &other, &waits, [("call_1/2/2", said("yes"))]).await.into_result();
    assert_eq!(lost.model_text(), "the chain waited at a tool that it no longer has there");
    // Nothing was said yet: it still waits.
    let CallOutcome::Pending(again) = answer(&pipeline, &outer, &waits, []).await else { panic!() };
    assert_eq!(again.leaves()[0].call.id, "call_1/2/2");
}

/// What is under way inside is progress of the whole, and warnings of each are the whole's.
#[tokio::test]
async fn progress_and_warnings_are_those_of_the_whole() {
    #[derive(Default)]
    struct Sink(Mutex<Vec<(String, f64)>>);
    impl ProgressSink for Sink {
        fn report(&self, call_id: &str, progress: Progress) {
            self.0.lock().unwrap().push((call_id.to_owned(), progress.progress));
        }
    }
    let part = |progress: f64| {
        DynamicTool::new(named("part"), move |_, cx: ToolContext| async move {
            cx.report(Progress { progress, ..Progress::default() });
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

/// A tool that calls another one may fail as that did.
#[tokio::test]
async fn a_failure_of_another_call_keeps_its_meaning() {
    let outer = DynamicTool::new(named("outer"), |_, _| async {
        let denied =
            DynamicTool::new(named("inner"), |_, _| async { Err::<(), _>(ToolError::Denied("no".into())) });
        let output = denied.invoke(json!({})).await.into_output()?;
        Ok::<_, BoxError>(output)
    });
    let result = outer.invoke(json!({})).await;
    assert_eq!((result.failure().unwrap().kind, &*result.model_text()), (FailureKind::Denied, "denied: no"));
}
