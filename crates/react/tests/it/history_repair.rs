//! Calls and results of an earlier conversation that are not paired are an error, or are repaired
//! in the requests.

use expect_test::{Expect, expect};
use haft_core::{
    Message, RunInput, ToolCall, ToolOutput, ToolResult, Toolset, Transcript, agent::AgentErrorKind,
    message::AssistantMessage,
};
use haft_react::{JsonReact, ReactAgent, ReactAgentBuilder, Run, RunConfig, TextReact, run::ContextConfig};
use haft_testing::ScriptedModel;

use crate::{
    pairing::{assert_request_paired, message_lines},
    tools::calculator,
};

fn calls<const N: usize>(ids: [&str; N]) -> Message {
    let calls = ids.map(|id| ToolCall::new(id, "add", r#"{"x":1,"y":1}"#));
    Message::assistant(AssistantMessage { tool_calls: calls.to_vec(), ..AssistantMessage::default() })
}

fn result(id: &str, text: &str) -> Message {
    Message::tool(ToolResult::done(id, "add", ToolOutput::from(text)))
}

fn user(text: &str) -> Message {
    Message::user(text)
}

fn answer(text: &str) -> Message {
    Message::assistant(AssistantMessage::from(text))
}

fn run_with(config: &RunConfig, history: &Transcript) -> Result<Run, haft_core::agent::AgentError> {
    Run::new(config, RunInput::new("Go on.").with_history(history))
}

/// Compares the error of a run that continues `history` with `error`, and the messages of the first
/// request of a run that repairs it with `repaired`.
async fn check<const N: usize>(history: [Message; N], error: Expect, repaired: Expect) {
    let history = Transcript::from_iter(history);
    let failure = run_with(&RunConfig::default(), &history).unwrap_err();
    assert!(matches!(*failure.kind, AgentErrorKind::InvalidInput(_)), "{failure:?}");
    assert_eq!(failure.transcript, history);
    error.assert_eq(&failure.to_string());

    let model = ScriptedModel::new().reply_text("Yes.");
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).repair_history().build().unwrap();
    let output = agent.run(RunInput::new("Go on.").with_history(&history)).await.unwrap();
    let request = &model.requests()[0];
    repaired.assert_eq(&message_lines(request));
    // The transcript keeps every message.
    let transcript = output.transcript().unwrap();
    assert_eq!(transcript.messages()[..history.len()], *history.messages());
    assert_eq!(transcript.len(), history.len() + 2);
}

/// A result without its call, for example because the messages before it were cut off, is an error
/// with the id of the call and the index of the message, or is not sent.
#[tokio::test]
async fn result_without_its_call() {
    check(
        [result("a", "2"), answer("It is 2.")],
        expect![[r#"the run cannot begin: the result of "a" (add) in message 0 has no open call before it; or repair the conversation with `RunConfig::repair_history`"#]],
        expect![[r#"
            assistant: It is 2.
            user: Go on.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn call_without_a_result() {
    check(
        [user("Add."), calls(["a", "b"]), result("a", "2"), user("Hello?"), answer("Yes.")],
        expect![[r#"the run cannot begin: calls of the conversation are still open: "b" (add); resume the run that waits with `RunInput::resume` and their answers, or close them with `Run::cancel` and go on with the transcript of that run; or repair the conversation with `RunConfig::repair_history`"#]],
        expect![[r#"
            user: Add.
            assistant: a add{"x":1,"y":1}; b add{"x":1,"y":1}
            tool: a 2
            tool: b no result: the call was interrupted, and it may or may not have happened
            user: Hello?
            assistant: Yes.
            user: Go on.
        "#]],
    )
    .await;
}

/// A result before its call is no result of the call.
#[tokio::test]
async fn result_before_its_call() {
    check([user("Add."), result("a", "2"), calls(["a"])], expect![[r#"the run cannot begin: calls of the conversation are still open: "a" (add); resume the run that waits with `RunInput::resume` and their answers, or close them with `Run::cancel` and go on with the transcript of that run; the result of "a" (add) in message 1 has no open call before it; or repair the conversation with `RunConfig::repair_history`"#]], expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}
        tool: a no result: the call was interrupted, and it may or may not have happened
        user: Go on.
    "#]]).await;
}

/// A result behind another message is moved to its call.
#[tokio::test]
async fn result_separated_from_its_call() {
    check(
        [
            user("Add."),
            calls(["a", "b"]),
            result("a", "2"),
            user("Wait."),
            result("b", "3"),
            answer("2 and 3."),
        ],
        expect![[r#"the run cannot begin: the result of "b" (add) in message 4 does not directly follow its call; or repair the conversation with `RunConfig::repair_history`"#]],
        expect![[r#"
            user: Add.
            assistant: a add{"x":1,"y":1}; b add{"x":1,"y":1}
            tool: a 2
            tool: b 3
            user: Wait.
            assistant: 2 and 3.
            user: Go on.
        "#]],
    )
    .await;
}

/// A second result of a call, also between other results, is not sent.
#[tokio::test]
async fn second_result_of_a_call() {
    check(
        [
            user("Add."),
            calls(["a", "b"]),
            result("a", "2"),
            result("a", "9"),
            result("b", "3"),
            answer("So."),
        ],
        expect![[r#"the run cannot begin: the result of "a" (add) in message 3 has no open call before it; or repair the conversation with `RunConfig::repair_history`"#]],
        expect![[r#"
            user: Add.
            assistant: a add{"x":1,"y":1}; b add{"x":1,"y":1}
            tool: a 2
            tool: b 3
            assistant: So.
            user: Go on.
        "#]],
    )
    .await;
}

/// A later reply can use the id of an earlier call again. A result belongs to the latest call with
/// its id.
#[tokio::test]
async fn reused_id_does_not_hide_an_open_call() {
    check(
        [user("Add."), calls(["a"]), answer("Once more."), calls(["a"]), result("a", "2"), answer("2.")],
        expect![[r#"the run cannot begin: calls of the conversation are still open: "a" (add); resume the run that waits with `RunInput::resume` and their answers, or close them with `Run::cancel` and go on with the transcript of that run; or repair the conversation with `RunConfig::repair_history`"#]],
        expect![[r#"
            user: Add.
            assistant: a add{"x":1,"y":1}
            tool: a no result: the call was interrupted, and it may or may not have happened
            assistant: Once more.
            assistant: a add{"x":1,"y":1}
            tool: a 2
            assistant: 2.
            user: Go on.
        "#]],
    )
    .await;
}

/// Ids that are used again are not an error if every call has its result.
#[tokio::test]
async fn answered_calls_with_the_same_id_are_valid() {
    let history =
        [user("Add."), calls(["a"]), result("a", "2"), calls(["a"]), result("a", "3"), answer("3.")];
    run_with(&RunConfig::default(), &Transcript::from_iter(history)).unwrap();
}

/// All defects of a conversation are repaired together. A repaired run is equal after a round trip
/// through JSON.
#[tokio::test]
async fn several_defects_are_repaired_together() {
    let history = [result("x", "0"), user("Add."), calls(["a"]), user("Stop."), calls(["b"]), answer("Hm.")];
    check(history.clone(), expect![[r#"the run cannot begin: calls of the conversation are still open: "a" (add), "b" (add); resume the run that waits with `RunInput::resume` and their answers, or close them with `Run::cancel` and go on with the transcript of that run; the result of "x" (add) in message 0 has no open call before it; or repair the conversation with `RunConfig::repair_history`"#]], expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}
        tool: a no result: the call was interrupted, and it may or may not have happened
        user: Stop.
        assistant: b add{"x":1,"y":1}
        tool: b no result: the call was interrupted, and it may or may not have happened
        assistant: Hm.
        user: Go on.
    "#]]).await;
    let config = RunConfig { repair_history: true, ..RunConfig::default() };
    let run = run_with(&config, &Transcript::from_iter(history)).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&serde_json::to_string(&run).unwrap()).unwrap(), run);
}

/// A conversation of only an unpaired result leaves the new message.
#[tokio::test]
async fn only_an_unpaired_result() {
    check([result("a", "2")], expect![[r#"the run cannot begin: the result of "a" (add) in message 0 has no open call before it; or repair the conversation with `RunConfig::repair_history`"#]], expect![[r#"
        user: Go on.
    "#]]).await;
}

/// Written dialects write the repaired conversation as text.
#[tokio::test]
async fn repaired_history_in_written_dialects() {
    let history = Transcript::from_iter([result("x", "0"), user("Add."), calls(["a"]), user("Stop.")]);
    let build = |builder: ReactAgentBuilder| builder.tools(Toolset::new()).repair_history().build().unwrap();
    let reply = r#"{"thought":"","tool_name":"finish","tool_args":{"answer":"Yes."}}"#;
    let json = ScriptedModel::new().reply_text(reply);
    let text = ScriptedModel::new().reply_text("Thought: Done.\nAnswer: Yes.");
    for (model, agent) in [
        (&json, build(ReactAgent::builder(json.clone()).dialect(JsonReact::new()))),
        (&text, build(ReactAgent::builder(text.clone()).dialect(TextReact))),
    ] {
        agent.run(RunInput::new("Go on.").with_history(&history)).await.unwrap();
        let lines = message_lines(&model.requests()[0]);
        assert!(lines.contains("no result: the call was interrupted") && !lines.contains("x 0"), "{lines}");
    }
}

/// A request with the latest turns only contains their repairs, and not those of other turns.
#[tokio::test]
async fn repairs_follow_the_selection_of_turns() {
    let history = [user("One."), calls(["a"]), user("Two."), answer("Two."), user("Three."), calls(["b"])];
    let model = ScriptedModel::new().reply_text("Yes.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .repair_history()
        .context(ContextConfig { latest: Some(2), ..ContextConfig::default() })
        .build()
        .unwrap();
    agent.run(RunInput::new("Go on.").with_history(Transcript::from_iter(history))).await.unwrap();
    assert_request_paired(&model.requests()[0]);
    expect![[r#"
        user: Two.
        assistant: Two.
        user: Three.
        assistant: b add{"x":1,"y":1}
        tool: b no result: the call was interrupted, and it may or may not have happened
        user: Go on.
    "#]]
    .assert_eq(&message_lines(&model.requests()[0]));
}
