//! Runs that wait for somebody.

use expect_test::expect;
use haft_core::{
    Agent as _, Answer, Answers, DynamicTool, Parked, Pending, PendingKind, Policy, RunInput, RunOutput,
    Tool, ToolExt as _, ToolOutcome, Toolset, Transcript, json, testing::ScriptedModel,
};
use haft_react::{ReactAgent, Run};

use crate::{
    pairing::{assert_paired, lines},
    tools::{add, calculator, plain},
};

/// `add`, which a person must approve.
fn approved_add() -> impl Tool + 'static {
    let policy = Policy { requires_approval: true, ..Policy::default() };
    add().with_definition(|it| it.with_policy(policy))
}

/// `draw()`, which the host program does itself.
fn external() -> DynamicTool {
    plain("draw", || async { ToolOutcome::Pending(Pending::new(PendingKind::External)) })
}

/// What is parked, after a trip through JSON, as to another process.
fn parked(output: RunOutput) -> Parked {
    let parked = output.into_answer().unwrap_err();
    serde_json::from_str(&serde_json::to_string(&parked).unwrap()).unwrap()
}

fn answers<const N: usize>(answers: [(&str, Answer); N]) -> Answers {
    answers.map(|(id, answer)| (id.to_owned(), answer)).into()
}

/// BEHAVIOUR D34, in one process.
#[tokio::test]
async fn an_external_call_parks_the_run_and_its_output_goes_on() {
    let model = ScriptedModel::new().calls([("a", "draw", "{}")]).text("A 42.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with(external())).unwrap();

    let parked = parked(agent.run("Draw.".into()).await.unwrap());
    assert_eq!((parked.pending.len(), &*parked.pending[0].call.name), (1, "draw"));
    let output = agent.run(RunInput::resume(parked, answers([("a", Answer::output("42"))]))).await.unwrap();

    assert_eq!(output.text(), "A 42.");
    expect![[r#"
        user: Draw.
        assistant: a draw{}
        tool: a 42
    "#]]
    .assert_eq(&lines(&model.requests()[1]));
}

/// BEHAVIOUR D35 and D36: denied, approved, approved with other arguments, and in parts.
#[tokio::test]
async fn answers_come_in_parts_and_the_rest_waits_on() {
    let model = ScriptedModel::new()
        .calls([
            ("a", "add", r#"{"x":"1","y":1}"#),
            ("b", "add", r#"{"x":2,"y":2}"#),
            ("c", "add", r#"{"x":3,"y":3}"#),
        ])
        .text("Done.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with(approved_add())).unwrap();

    let parked_run = parked(agent.run("Add.".into()).await.unwrap());
    assert_eq!(
        parked_run.pending[0].pending.kind,
        PendingKind::Approval { arguments: json!({"x": 1, "y": 1}) }
    );
    let first = answers([("b", Answer::denied("too much")), ("a", Answer::approved())]);
    let parked_run = parked(agent.run(RunInput::resume(parked_run, first)).await.unwrap());
    assert_eq!(parked_run.pending.len(), 1);
    let other = Answer::approved_with(json!({"x": 30, "y": 3}));
    let output = agent.run(RunInput::resume(parked_run, answers([("c", other)]))).await.unwrap();

    assert_eq!(output.text(), "Done.");
    expect![[r#"
        user: Add.
        assistant: a add{"x":"1","y":1}; b add{"x":2,"y":2}; c add{"x":3,"y":3}
        tool: a 2
        tool: b denied: too much
        tool: c 33
        Warning: it was approved with other arguments: {"x":30,"y":3}
    "#]]
    .assert_eq(&lines(&model.requests()[1]));
}

/// BEHAVIOUR D35: an approval is bound to the arguments that were shown, also when the tool reads them anew.
#[tokio::test]
async fn what_was_shown_is_what_runs() {
    let model = ScriptedModel::new().calls([("a", "echo", r#"{"text":"7"}"#)]).text("Done.");
    let echo = |kind: &str| {
        let schema = haft_core::Schema::arguments(json!({"properties": {"text": {"type": kind}}})).unwrap();
        let name = haft_core::ToolName::new("echo").unwrap();
        let policy = Policy { requires_approval: true, ..Policy::default() };
        let definition = haft_core::ToolDefinition::new(name, schema).with_policy(policy);
        DynamicTool::new(definition, |arguments, _| async move { arguments["text"].to_string() })
    };
    let shown = ReactAgent::new(model.clone(), Toolset::new().with(echo("integer"))).unwrap();
    let changed = ReactAgent::new(model, Toolset::new().with(echo("string"))).unwrap();

    let parked = parked(shown.run("Echo.".into()).await.unwrap());
    assert_eq!(parked.pending[0].pending.kind, PendingKind::Approval { arguments: json!({"text": 7}) });
    let output = changed.run(RunInput::resume(parked, answers([("a", Answer::approved())]))).await.unwrap();

    let told = output.results_of("echo").next().unwrap().model_text();
    assert!(told.contains("/text: expected string, received integer 7"), "{told}");
}

#[tokio::test]
async fn an_answer_must_be_one() {
    let model = ScriptedModel::new().calls([("a", "add", r#"{"x":1,"y":1}"#)]);
    let agent = ReactAgent::new(model, Toolset::new().with(approved_add())).unwrap();
    let parked = parked(agent.run("Add.".into()).await.unwrap());

    let wrong = RunInput::resume(parked.clone(), answers([("a", Answer::output("42"))]));
    let error = agent.run(wrong).await.unwrap_err();
    assert_eq!((error.transcript.len(), error.usage.requests), (2, 1), "the conversation is lost");
    let error = error.to_string();
    assert_eq!(
        error,
        r#"the run cannot begin: the answer for the call "a" does not fit: it waits for an approval or a denial, which this answer is not"#
    );
    let unknown = RunInput::resume(parked, answers([("b", Answer::approved())]));
    let error = agent.run(unknown).await.unwrap_err().to_string();
    assert_eq!(
        error,
        r#"the run cannot begin: there is an answer for the call "b", which does not wait; waiting: a"#
    );
}

/// BEHAVIOUR D36: a new prompt while calls are open.
#[tokio::test]
async fn a_new_prompt_while_calls_are_open_names_the_ways_out() {
    let model = ScriptedModel::new().calls([("a", "draw", "{}")]).text("Fine.");
    let agent = ReactAgent::new(model, calculator().with(external())).unwrap();
    let parked = parked(agent.run("Draw.".into()).await.unwrap());
    let mut run = Run::unpark(parked).unwrap();

    let open = RunInput::following(run.transcript().clone(), "Never mind.");
    let error = agent.run(open).await.unwrap_err().to_string();
    expect![[r#"the run cannot begin: calls of the conversation are still open: "a" (draw); resume the run that waits with `RunInput::resume` and their answers, or close them with `Run::cancel` and go on with the transcript of that run"#]]
        .assert_eq(&error);

    run.cancel();
    assert_paired(run.transcript());
    let closed: Transcript = run.transcript().clone();
    assert_eq!(agent.run(RunInput::following(closed, "Never mind.")).await.unwrap().text(), "Fine.");
}

#[tokio::test]
async fn what_another_agent_parked_is_refused() {
    let agent = ReactAgent::new(ScriptedModel::new(), calculator()).unwrap();
    let foreign = Parked { pending: Vec::new(), state: json!({"some": "thing"}) };
    let error = agent.run(RunInput::resume(foreign, Answers::new())).await.unwrap_err().to_string();
    assert!(error.starts_with("the run cannot begin: the parked run cannot be read: "), "{error}");
}
