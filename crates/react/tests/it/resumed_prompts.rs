//! Tests of suspended runs that are resumed with decisions and a new prompt.

use expect_test::expect;
use haft_core::{
    Message, RunInput, Tool, ToolExt as _, Toolset,
    agent::{AgentErrorKind, RunStart},
    call::Decision,
    content::Content,
    message::AssistantMessage,
    tool::ToolPolicy,
};
use haft_middleware::AgentExt as _;
use haft_react::ReactAgent;
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    dialect_scripts::{SCRIPTS, Script, reloaded, run_or_stream},
    pairing::{assert_request_paired, message_lines},
    tools::add_tool,
};

/// Creates the tool `add(x, y)`. Each of its calls requires an approval.
fn approved_add() -> impl Tool + 'static {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    add_tool().with_definition(|it| it.with_policy(policy))
}

fn agent(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::new(model.clone(), Toolset::new().with_tool(approved_add())).unwrap()
}

/// The model receives a new prompt after the results of the decided calls.
#[tokio::test]
async fn prompt_follows_the_results() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "add", r#"{"x":2,"y":2}"#)])
        .reply_text("Done.");
    let agent = agent(&model);
    let suspended = reloaded(agent.run("Add.").await.unwrap());
    let input = suspended
        .resume([("a", Decision::approved())])
        .deny_rest("the user moved on")
        .with_prompt("Never mind the second sum.")
        .with_messages([Message::user("Answer in German.")]);
    assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "Done.");
    assert_request_paired(&model.requests()[1]);
    expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}; b add{"x":2,"y":2}
        tool: a 2
        tool: b denied: the user moved on
        user: Never mind the second sum.
        user: Answer in German.
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

/// The same holds in each dialect, with `run` and with `stream`.
#[tokio::test]
async fn prompt_is_delivered_in_all_dialects() {
    for (script, streamed) in SCRIPTS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let model = script.replies(&[("a", "add", r#"{"x":1,"y":1}"#)], "Done.");
        let agent = agent(&model);
        let suspended = reloaded(run_or_stream(&agent, "Add.", streamed).await.unwrap());
        let input = suspended.approve_all().with_prompt("And be brief.");
        let output = run_or_stream(&agent, input, streamed).await.unwrap();
        assert_eq!(output.text().unwrap(), "Done.", "{script:?}");
        let lines = message_lines(&model.requests()[1]);
        let [result, prompt] = ["2", "And be brief."].map(|text| lines.rfind(text).unwrap());
        assert!(result < prompt, "{script:?}: {lines}");
    }
}

/// A prompt without decisions about all calls is an error that names the calls and the ways out.
/// The suspended run can be resumed again.
#[tokio::test]
async fn prompt_without_all_decisions_is_an_error() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "add", r#"{"x":2,"y":2}"#)])
        .reply_text("Done.");
    let agent = agent(&model);
    let suspended = reloaded(agent.run("Add.").await.unwrap());
    let input = suspended.clone().resume([("a", Decision::approved())]).with_prompt("Go on.");
    let error = agent.run(input).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error:?}");
    expect![[r#"the run cannot begin: a new prompt needs decisions about all suspended calls, and these have none: "b" (add); decide about them, deny them with `RunInput::deny_rest`, or resume the run without the prompt and send it later"#]]
        .assert_eq(&error.to_string());
    let input = suspended.resume([("a", Decision::approved())]).deny_rest("no").with_prompt("Go on.");
    assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "Done.");
}

/// A remembered decision counts as a decision about the other calls.
#[tokio::test]
async fn remembered_decision_allows_a_prompt() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "add", r#"{"x":2,"y":2}"#)])
        .reply_text("Done.");
    let agent = agent(&model);
    let suspended = reloaded(agent.run("Add.").await.unwrap());
    let input = suspended.resume([("a", Decision::approved().for_tool())]).with_prompt("Go on.");
    assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "Done.");
}

/// The calls of a child agent need decisions, too, and `deny_rest` denies them.
#[tokio::test]
async fn deny_rest_denies_calls_of_a_child_agent() {
    let child = ScriptedModel::new()
        .reply_calls([("1", "add", r#"{"x":1,"y":1}"#), ("2", "add", r#"{"x":2,"y":2}"#)])
        .reply_text("I could not.");
    let child = agent(&child).into_tool("helper", "Adds.");
    let model = Script::Native.replies(&[("a", "helper", r#"{"task":"Add."}"#)], "Bye.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with_tool(child)).unwrap();
    let suspended = reloaded(agent.run("Add.").await.unwrap());
    let partly = suspended.clone().resume([("a/1", Decision::approved())]).with_prompt("Stop.");
    let error = agent.run(partly).await.unwrap_err().to_string();
    assert!(error.contains(r#""a/2" (add)"#) && !error.contains(r#""a/1""#), "{error}");
    // The decisions about nested calls can also be given with the id of the outer call.
    let inner = Decision::Nested { decisions: [("a/1".to_owned(), Decision::approved())].into() };
    for decision in [("a", inner), ("a/1", Decision::approved())] {
        let input = suspended.clone().resume([decision]).deny_rest("the user moved on");
        let RunStart::Resume { decisions, .. } = &input.start else { panic!("{input:?}") };
        let leaves = match &decisions.get("a") {
            Some(Decision::Nested { decisions }) => decisions,
            _ => decisions,
        };
        let denied = Decision::denied("the user moved on");
        assert_eq!((leaves.get("a/1"), leaves.get("a/2")), (Some(&Decision::approved()), Some(&denied)));
    }
    let none: [(&str, Decision); 0] = [];
    let input = suspended.resume(none).deny_rest("the user moved on").with_prompt("Stop.");
    assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "Bye.");
    expect![[r#"
        user: Add.
        assistant: a helper{"task":"Add."}
        tool: a I could not.
        user: Stop.
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

/// If a decided call suspends the run again, the prompt is saved with the run.
#[tokio::test]
async fn prompt_waits_while_a_decided_call_is_suspended_again() {
    let toolset = |description: &str| {
        let description = description.to_owned();
        Toolset::new().with_tool(approved_add().with_definition(move |it| it.with_description(description)))
    };
    let model = Script::Native.replies(&[("a", "add", r#"{"x":1,"y":1}"#)], "Done.");
    let original = ReactAgent::new(model.clone(), toolset("Adds.")).unwrap();
    let changed = ReactAgent::new(model.clone(), toolset("Adds, and sends the result.")).unwrap();
    let suspended = reloaded(original.run("Add.").await.unwrap());
    let input = suspended.approve_all().with_prompt("Be brief.");
    let suspended = reloaded(changed.run(input).await.unwrap());
    assert_eq!(changed.run(suspended.approve_all()).await.unwrap().text().unwrap(), "Done.");
    assert!(message_lines(&model.requests()[1]).ends_with("tool: a 2\nuser: Be brief.\n"));
}

/// A prompt also continues a run whose stop tool succeeded.
#[tokio::test]
async fn prompt_continues_a_run_after_a_stop_tool() {
    let model = Script::Native.replies(&[("a", "add", r#"{"x":1,"y":1}"#)], "Done.");
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(approved_add()))
        .stop_on(["add"])
        .build()
        .unwrap();
    let suspended = reloaded(agent.run("Add.").await.unwrap());
    let output = agent.run(suspended.approve_all().with_prompt("And?")).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
}

/// The messages of a prompt come from a user or the system, as for enqueued messages.
#[tokio::test]
async fn prompt_of_the_assistant_is_an_error() {
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]);
    let agent = agent(&model);
    let suspended = reloaded(agent.run("Add.").await.unwrap());
    let reply = Message::assistant(AssistantMessage::from("Yes."));
    let error = agent.run(suspended.approve_all().with_prompt(reply)).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error:?}");
}

/// In a new run, `with_prompt` adds a message, and `deny_rest` has no effect.
#[tokio::test]
async fn new_run_can_have_several_messages() {
    let model = ScriptedModel::new().reply_text("Done.");
    let input = RunInput::new("Read this.").deny_rest("no");
    let input = input.with_prompt(Content::json(json!({"a": 1})));
    agent(&model).run(input).await.unwrap();
    expect![[r#"
        user: Read this.
        user: {"a":1}
    "#]]
    .assert_eq(&message_lines(&model.requests()[0]));
}
