//! Tests of suspended runs, and of the decisions that resume them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use expect_test::expect;
use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Schema, Tool, ToolDefinition, ToolExt as _, ToolName, ToolOutput, Toolset,
    Transcript,
    agent::{AgentErrorKind, SuspendedRun},
    call::{Decision, Decisions, Pending, PendingKind, ToolResponse},
    tool::{DynamicTool, RunContext, ToolPolicy},
};
use haft_react::{Outcome, ReactAgent, Run, RunConfig};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    effects::apply,
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, tool_without_parameters, with_call_counter},
};

/// Creates the tool `add(x, y)`. Each of its calls requires an approval.
fn approved_add() -> impl Tool + 'static {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    add_tool().with_definition(|it| it.with_policy(policy))
}

/// If a hook fails while a suspended run is resumed, the transcript of the error has a result for
/// each call, so that the conversation can continue. The run itself stays suspended.
#[tokio::test]
async fn failed_resumption_has_a_transcript_that_can_continue() {
    let is_failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&is_failing);
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("Bye.");
    let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(approved_add()));
    let agent = agent.prepare(move |request, _| {
        let prepared = if fails.load(Ordering::Relaxed) { Err("no".into()) } else { Ok(request) };
        async move { prepared }
    });
    let agent = agent.build().unwrap();
    let suspended = suspended(agent.run("1 + 1?").await.unwrap());
    is_failing.store(true, Ordering::Relaxed);
    let decided = decisions([("a", Decision::approved())]);
    let error = agent.run(RunInput::resume(suspended.clone(), decided.clone())).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::HookFailed { .. }), "{error:?}");
    assert_paired(&error.transcript);
    let mut run = Run::new(&RunConfig::default(), RunInput::resume(suspended, decided)).unwrap();
    assert!(agent.drive(&mut run, RunContext::default()).any(|event| async move { event.is_err() }).await);
    assert!(run.interrupted_calls().is_empty() && run.transcript().len() == 2);

    is_failing.store(false, Ordering::Relaxed);
    let output = agent.run(RunInput::new("Go on.").with_history(error.transcript)).await.unwrap();
    assert_eq!(output.text().unwrap(), "Bye.");
}

/// Creates the external tool `draw()`. Its calls are suspended until the host provides the output.
fn external() -> DynamicTool {
    tool_without_parameters("draw", || async { ToolResponse::Pending(Pending::new(PendingKind::External)) })
}

/// Returns the suspended run in `output`, after a round trip through JSON.
fn suspended(output: RunOutput) -> SuspendedRun {
    let suspended = output.into_answer().unwrap_err();
    serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap()
}

fn decisions<const N: usize>(decisions: [(&str, Decision); N]) -> Decisions {
    decisions.map(|(id, answer)| (id.to_owned(), answer)).into()
}

#[tokio::test]
async fn external_call_suspends_the_run_until_its_output() {
    let model = ScriptedModel::new().reply_calls([("a", "draw", "{}")]).reply_text("A 42.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with_tool(external())).unwrap();

    let suspended = suspended(agent.run("Draw.").await.unwrap());
    assert_eq!((suspended.pending.len(), &*suspended.pending[0].call.name), (1, "draw"));
    let output =
        agent.run(RunInput::resume(suspended, decisions([("a", Decision::output("42"))]))).await.unwrap();

    assert_eq!(output.text().unwrap(), "A 42.");
    expect![[r#"
        user: Draw.
        assistant: a draw{}
        tool: a 42
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

/// The call `a` is approved, `b` is denied, and `c` is approved with other arguments. The first
/// resumption has no decision for `c`, so `c` suspends the run again.
#[tokio::test]
async fn partial_decisions_leave_the_other_calls_suspended() {
    let model = ScriptedModel::new()
        .reply_calls([
            ("a", "add", r#"{"x":"1","y":1}"#),
            ("b", "add", r#"{"x":2,"y":2}"#),
            ("c", "add", r#"{"x":3,"y":3}"#),
        ])
        .reply_text("Done.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with_tool(approved_add())).unwrap();

    let parked_run = suspended(agent.run("Add.").await.unwrap());
    assert_eq!(
        parked_run.pending[0].pending.kind,
        PendingKind::Approval { arguments: json!({"x": 1, "y": 1}) }
    );
    let first = decisions([("b", Decision::denied("too much")), ("a", Decision::approved())]);
    let parked_run = suspended(agent.run(RunInput::resume(parked_run, first)).await.unwrap());
    assert_eq!(parked_run.pending.len(), 1);
    let other = Decision::approved_with_arguments(json!({"x": 30, "y": 3}));
    let output = agent.run(RunInput::resume(parked_run, decisions([("c", other)]))).await.unwrap();

    assert_eq!(output.text().unwrap(), "Done.");
    expect![[r#"
        user: Add.
        assistant: a add{"x":"1","y":1}; b add{"x":2,"y":2}; c add{"x":3,"y":3}
        tool: a 2
        tool: b denied: too much
        tool: c 33
        Warning: it was approved with other arguments: {"x":30,"y":3}
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

/// Creates a toolset with the tool `echo(text)`, which requires an approval. `kind` is the JSON
/// type of the argument `text`, and `description` is the description of the tool.
fn echo(kind: &str, description: &str) -> Toolset {
    let schema = Schema::for_arguments(json!({"properties": {"text": {"type": kind}}})).unwrap();
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let definition = ToolDefinition::new(ToolName::new("echo").unwrap(), schema).with_policy(policy);
    let definition = definition.with_description(description);
    Toolset::new()
        .with_tool(DynamicTool::new(definition, |arguments, _| async move { arguments["text"].to_string() }))
}

/// An approval is valid only for the arguments and the definition that were shown with it. If one
/// of them changes, the call needs a new approval.
#[tokio::test]
async fn approval_is_bound_to_arguments_and_definition() {
    for changed in [echo("string", ""), echo("integer", "Echoes, and deletes the rest.")] {
        let model = ScriptedModel::new().reply_calls([("a", "echo", r#"{"text":"7"}"#)]).reply_text("Done.");
        let original = ReactAgent::new(model.clone(), echo("integer", "")).unwrap();
        let changed = ReactAgent::new(model, changed).unwrap();

        let first = suspended(original.run("Echo.").await.unwrap());
        assert_eq!(first.pending[0].pending.kind, PendingKind::Approval { arguments: json!({"text": 7}) });
        let resume = |suspended| RunInput::resume(suspended, decisions([("a", Decision::approved())]));
        let second = suspended(changed.run(resume(first.clone())).await.unwrap());
        assert_ne!(second.pending[0].pending.definition, first.pending[0].pending.definition);
        let PendingKind::Approval { arguments } = second.pending[0].pending.kind.clone() else { panic!() };
        let output = changed.run(resume(second)).await.unwrap();
        assert_eq!(output.results_of("echo").next().unwrap().model_text(), arguments["text"].to_string());
    }
}

/// A definition that differs only in key order or metadata is equivalent. An approval must stay
/// valid for an equivalent definition.
#[tokio::test]
async fn equivalent_definition_needs_no_second_approval() {
    let tools = |schema: &str, note: &str| {
        let schema = Schema::for_arguments(serde_json::from_str(schema).unwrap()).unwrap();
        let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
        let metadata = serde_json::Map::from_iter([("note".to_owned(), json!(note))]);
        let definition = ToolDefinition::new(ToolName::new("echo").unwrap(), schema).with_policy(policy);
        let definition = definition.with_metadata(metadata);
        Toolset::new()
            .with_tool(DynamicTool::new(definition, |arguments, _| async move { arguments.to_string() }))
    };
    let model = ScriptedModel::new().reply_calls([("a", "echo", r#"{"x":1}"#)]).reply_text("Done.");
    let first_schema = r#"{"type":"object","properties":{"x":{"type":"integer","minimum":0}}}"#;
    let second_schema = r#"{"properties":{"x":{"minimum":0,"type":"integer"}},"type":"object"}"#;
    let suspended = suspended(
        ReactAgent::new(model.clone(), tools(first_schema, "a")).unwrap().run("Go.").await.unwrap(),
    );
    let agent = ReactAgent::new(model, tools(second_schema, "b")).unwrap();
    let output =
        agent.run(RunInput::resume(suspended, decisions([("a", Decision::approved())]))).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
}

/// The arguments of an approval are validated like those of the model. A denial needs no reason.
#[tokio::test]
async fn invalid_approved_arguments_and_a_denial_are_returned_to_the_model() {
    let calls = [("a", "add", r#"{"x":1,"y":1}"#), ("b", "add", r#"{"x":2,"y":2}"#)];
    let model = ScriptedModel::new().reply_calls(calls).reply_text("Done.");
    let (add, count) = with_call_counter(&add_tool());
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tools = Toolset::new().with_tool(add.with_definition(|it| it.with_policy(policy)));
    let agent = ReactAgent::new(model.clone(), tools).unwrap();
    let suspended = suspended(agent.run("Add.").await.unwrap());
    let wrong = Decision::approved_with_arguments(json!({"x": "one"}));
    let decisions = decisions([("a", wrong), ("b", Decision::denied(""))]);
    agent.run(RunInput::resume(suspended, decisions)).await.unwrap();
    expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}; b add{"x":2,"y":2}
        tool: a invalid arguments: /: missing required property "y" (integer)
        /x: expected integer, received string "one"
        tool: b denied
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

/// The output of an external call is validated against the output schema of the tool. A failure
/// that the host reports with `Decision::Failed` becomes a failed call.
#[tokio::test]
async fn output_of_an_external_tool_is_validated() {
    let definition = ToolDefinition::new(ToolName::new("measure").unwrap(), Schema::object());
    let definition = definition.with_output_schema(json!({"type": "object", "required": ["metres"]}));
    let measure = DynamicTool::new(definition, |_, _| async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let calls = [("a", "measure", "{}"), ("b", "measure", r#"{ }"#), ("c", "measure", r#"{  }"#)];
    let model = ScriptedModel::new().reply_calls(calls).reply_text("Done.");
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(measure))
        .max_repeated_calls(None)
        .build()
        .unwrap();
    let suspended = suspended(agent.run("How long?").await.unwrap());
    let output = |value| Decision::output(ToolOutput::structured(value));
    let decisions = decisions([
        ("a", output(json!({"metres": 3}))),
        ("b", output(json!({"feet": 10}))),
        ("c", Decision::Failed { message: "no ruler".to_owned() }),
    ]);
    let answer = agent.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
    let texts: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!((&*texts[0], &*texts[2]), (r#"{"metres":3}"#, "no ruler"));
    assert!(texts[1].contains(r#"missing required property "metres""#), "{}", texts[1]);
    assert_paired(&answer.transcript);
}

/// Input from a person is validated against the schema of the question. The tool then resumes with
/// the state that it saved when it suspended its call.
#[tokio::test]
async fn input_of_a_person_is_validated() {
    let definition = ToolDefinition::new(ToolName::new("seat").unwrap(), Schema::object());
    let seat = || {
        DynamicTool::new(definition.clone(), |_, cx| async move {
            match (cx.decision(), cx.continuation()) {
                (Some(Decision::Input { value }), Some(train)) => {
                    ToolResponse::from(format!("{value} in {train}"))
                }
                _ => {
                    let schema = json!({"type": "integer", "minimum": 1}).as_object().cloned().unwrap();
                    let kind = PendingKind::Input { message: "Which seat?".to_owned(), schema };
                    ToolResponse::Pending(Pending::new(kind).with_continuation(json!(7)))
                }
            }
        })
    };
    let model = ScriptedModel::new().reply_calls([("a", "seat", "{}")]).reply_text("Done.");
    let agent = || ReactAgent::new(model.clone(), Toolset::new().with_tool(seat())).unwrap();
    let suspended = suspended(agent().run("Book.").await.unwrap());
    let with_input =
        |value| RunInput::resume(suspended.clone(), decisions([("a", Decision::Input { value })]));
    let error = agent().run(with_input(json!("window"))).await.unwrap_err().to_string();
    assert!(error.contains("invalid input: /: expected integer"), "{error}");
    let output = agent().run(with_input(json!(12))).await.unwrap();
    assert_eq!(output.results_of("seat").next().unwrap().model_text(), "12 in 7");
}

/// Each suspended call accepts one decision. A second decision is an error.
#[tokio::test]
async fn second_decision_is_an_error() {
    let calls = [("a", "draw", "{}"), ("b", "draw", "{ }")];
    let agent =
        ReactAgent::new(ScriptedModel::new().reply_calls(calls), Toolset::new().with_tool(external()))
            .unwrap();
    let first = suspended(agent.run("Draw.").await.unwrap());
    let mut run = Run::from_suspended(first.clone()).unwrap();
    let mut decide = |output: &str| {
        apply(&mut run, Outcome::Decided { id: "a".to_owned(), decision: Decision::output(output) })
    };
    decide("1").unwrap();
    let error = decide("2").unwrap_err().to_string();
    let problem = r#"there is a decision about the call "a", which does not wait; waiting: b"#;
    assert_eq!(error, format!("the run cannot go on: {problem}"));
    // After the first decision, the agent suspends the run again. It is also an error to resume the
    // new suspended run with a second decision for the call `a`.
    let second = RunInput::resume(first, decisions([("a", Decision::output("1"))]));
    let second = suspended(agent.run(second).await.unwrap());
    let second_error =
        agent.run(RunInput::resume(second, decisions([("a", Decision::output("2"))]))).await.unwrap_err();
    assert!(second_error.to_string().ends_with(problem), "{second_error}");
}

/// A suspended run can be cancelled with and without decisions. Every call then has a result.
#[tokio::test]
async fn suspended_run_can_be_cancelled() {
    let calls = [("a", "draw", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)];
    let model = ScriptedModel::new().reply_calls(calls).reply_text("Fine.");
    let agent = ReactAgent::new(model, calculator().with_tool(external())).unwrap();
    let suspended = suspended(agent.run("Draw.").await.unwrap());
    let mut run = Run::from_suspended(suspended.clone()).unwrap();
    run.cancel();
    assert_paired(run.transcript());
    let texts: Vec<_> = run.transcript().messages().iter().skip(2).map(|message| message.text()).collect();
    assert_eq!(texts, ["cancelled", "2"]);

    let context = RunContext::default();
    context.cancellation.cancel();
    let resume =
        RunInput::resume(suspended, decisions([("a", Decision::output("42"))])).with_context(context);
    let error = agent.run(resume).await.unwrap_err();
    assert_paired(&error.transcript);
    assert_eq!(
        agent.run(RunInput::new("Never mind.").with_history(error.transcript)).await.unwrap().text().unwrap(),
        "Fine."
    );
}

/// The driver stops while calls are in progress. The recovery must repeat only the calls to
/// idempotent tools, because the other calls may already have had an effect.
#[tokio::test]
async fn recovery_repeats_only_idempotent_calls() {
    let idempotent = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let (look, look_count) = with_call_counter(&tool_without_parameters("look", || async { "seen" }));
    let (pay, pay_count) = with_call_counter(&tool_without_parameters("pay", || async { "done" }));
    let tools =
        Toolset::new().with_tool(look.with_definition(|it| it.with_policy(idempotent))).with_tool(pay);
    let model =
        ScriptedModel::new().reply_calls([("a", "look", "{}"), ("b", "pay", "{}")]).reply_text("Done.");
    let agent = ReactAgent::new(model, tools.clone()).unwrap();
    let mut run = agent.create_run("Go.".into()).unwrap();
    let mut events = agent.drive(&mut run, RunContext::default());
    while !matches!(events.next().await.unwrap().unwrap(), RunEvent::CallStarted { .. }) {}
    drop(events);
    let saved = serde_json::to_string(&run).unwrap();

    let mut run: Run = serde_json::from_str(&saved).unwrap();
    let open: Vec<_> = run.interrupted_calls().into_iter().map(|call| call.name).collect();
    assert_eq!(open, ["look", "pay"]);
    run.recover();
    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    let Some(Ok(RunEvent::Done { output })) = events.last() else { panic!("{events:?}") };
    let texts: Vec<_> = output.answer().unwrap().steps.iter().map(|step| step.result.model_text()).collect();
    assert_eq!(texts[0], "seen");
    assert!(texts[1].starts_with("unconfirmed, it may or may not have happened"), "{}", texts[1]);
    let counts = [look_count, pay_count].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [1, 0]);
}

#[tokio::test]
async fn decision_must_fit_its_call() {
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]);
    let agent = ReactAgent::new(model, Toolset::new().with_tool(approved_add())).unwrap();
    let suspended = suspended(agent.run("Add.").await.unwrap());

    let wrong = RunInput::resume(suspended.clone(), decisions([("a", Decision::output("42"))]));
    let error = agent.run(wrong).await.unwrap_err();
    assert_eq!(
        (error.transcript.len(), error.usage.requests),
        (2, 1),
        "the error must have the transcript and the usage"
    );
    let error = error.to_string();
    assert_eq!(
        error,
        r#"the run cannot begin: the decision about the call "a" does not fit: the call needs an approval or a denial"#
    );
    let unknown = RunInput::resume(suspended, decisions([("b", Decision::approved())]));
    let error = agent.run(unknown).await.unwrap_err().to_string();
    assert_eq!(
        error,
        r#"the run cannot begin: there is a decision about the call "b", which does not wait; waiting: a"#
    );
}

/// A new prompt is rejected if calls are open. The error names `RunInput::resume` and `Run::cancel`
/// as the ways to continue the conversation.
#[tokio::test]
async fn new_prompt_while_calls_are_open_is_an_error() {
    let model = ScriptedModel::new().reply_calls([("a", "draw", "{}")]).reply_text("Fine.");
    let agent = ReactAgent::new(model, calculator().with_tool(external())).unwrap();
    let suspended = suspended(agent.run("Draw.").await.unwrap());
    let mut run = Run::from_suspended(suspended).unwrap();

    let open = RunInput::new("Never mind.").with_history(run.transcript().clone());
    let error = agent.run(open).await.unwrap_err().to_string();
    expect![[r#"the run cannot begin: calls of the conversation are still open: "a" (draw); resume the run that waits with `RunInput::resume` and their answers, or close them with `Run::cancel` and go on with the transcript of that run; or repair the conversation with `RunConfig::repair_history`"#]]
        .assert_eq(&error);

    run.cancel();
    assert_paired(run.transcript());
    let closed: Transcript = run.transcript().clone();
    assert_eq!(
        agent.run(RunInput::new("Never mind.").with_history(closed)).await.unwrap().text().unwrap(),
        "Fine."
    );
}

#[tokio::test]
async fn foreign_suspended_run_is_rejected() {
    let agent = ReactAgent::new(ScriptedModel::new(), calculator()).unwrap();
    let foreign = SuspendedRun { pending: Vec::new(), checkpoint: json!({"some": "thing"}) };
    let error = agent.run(RunInput::resume(foreign, Decisions::new())).await.unwrap_err().to_string();
    assert!(error.starts_with("the run cannot begin: the suspended run cannot be read: "), "{error}");
}
