//! Tests of typed outputs, and of the trajectories of runs with typed outputs.

use expect_test::expect;
use haft_core::{
    Schema, ToolName,
    agent::{AgentErrorKind, Limit},
    model::ToolChoice,
};
use haft_react::{JsonReact, NativeCalls, ReactAgent, Trajectory, transcript::is_hint};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, tool_without_parameters},
};

fn sum() -> Schema {
    Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}))
        .unwrap()
}

/// In the JSON dialect, the trajectory of a run ends with a `finish` step, and the outputs are
/// typed.
#[tokio::test]
async fn trajectory_ends_with_finish_and_outputs_are_typed() {
    let model = ScriptedModel::new()
        .reply_text(r#"{"thought":"I add them.","tool_name":"add","tool_args":{"x":17,"y":25}}"#)
        .reply_text(r#"{"thought":"That is it.","tool_name":"finish","tool_args":{"sum":42}}"#);
    let agent = ReactAgent::builder(model)
        .tools(calculator())
        .dialect(JsonReact::new())
        .outputs(sum())
        .build()
        .unwrap();

    let answer = agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();

    assert_eq!(answer.outputs["sum"], 42);
    assert_eq!(answer.text, r#"{"sum":42}"#);
    expect![[r#"
        {
          "thought_0": "I add them.",
          "tool_name_0": "add",
          "tool_args_0": {
            "x": 17,
            "y": 25
          },
          "observation_0": "42",
          "thought_1": "That is it.",
          "tool_name_1": "finish",
          "tool_args_1": {
            "sum": 42
          },
          "observation_1": "Completed."
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&Trajectory::from_transcript(&answer.transcript)).unwrap());
}

#[tokio::test]
async fn native_outputs_are_a_call_of_finish() {
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":17,"y":25}"#)]).reply_calls([(
        "c",
        "finish",
        r#"{"sum":42}"#,
    )]);
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).outputs(sum()).build().unwrap();

    let answer = agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();

    assert_eq!(answer.outputs["sum"], 42);
    assert_paired(&answer.transcript);
    let first = &model.requests()[0];
    assert_eq!(first.tool_choice, ToolChoice::Required);
    assert_eq!(first.tools.names().map(ToolName::as_str).collect::<Vec<_>>(), ["add", "finish"]);
    let trajectory = Trajectory::from_transcript(&answer.transcript);
    assert_eq!(trajectory.steps.len(), 2);
    assert_eq!(trajectory.steps[1].tool_args, json!({"sum": 42}));
}

/// The model receives a hint after each of two invalid outputs. The third output contains `"3"`
/// instead of `3` and is repaired.
#[tokio::test]
async fn invalid_outputs_are_repaired_or_returned_to_the_model() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "finish", r#"{"sum":"x"}"#)])
        .reply_text("It is three.")
        .reply_calls([("b", "finish", r#"{"sum":"3"}"#)]);
    let agent = ReactAgent::builder(model.clone()).outputs(sum()).build().unwrap();

    let answer = agent.run("What is 1 plus 2?").await.unwrap().into_answer().unwrap();

    assert_eq!(answer.outputs["sum"], 3);
    expect![[r#"
        user: What is 1 plus 2?
        assistant: {"sum":"x"}
        user: The answer does not have the form that it must have:
        /sum: expected integer, received string "x"
        Give it again.
        assistant: It is three.
        user: The answer must be one JSON object of this schema: {"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false}
    "#]]
    .assert_eq(&message_lines(&model.requests()[2]));
    let hints = answer.transcript.messages().iter().filter(|message| is_hint(message)).count();
    assert_eq!(hints, 2);
}

#[tokio::test]
async fn outputs_that_stay_invalid_are_an_error() {
    let model = ScriptedModel::new().reply_text("1").reply_text("2").reply_text("3");
    let agent = ReactAgent::builder(model).outputs(sum()).build().unwrap();
    let error = agent.run("Sum?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
}

/// `finish` is a reserved name in the JSON dialect. With native calls, it is reserved only if
/// outputs are declared.
#[test]
fn tool_named_finish_is_an_error_at_construction() {
    let tools = || calculator().with_tool(tool_without_parameters("finish", || async {}));
    let json = ReactAgent::builder(ScriptedModel::new()).tools(tools()).dialect(JsonReact::new()).build();
    let native =
        ReactAgent::builder(ScriptedModel::new()).tools(tools()).dialect(NativeCalls).outputs(sum()).build();
    assert_eq!(
        json.err().unwrap().to_string(),
        r#"no tool can be named "finish": the dialect json ends a run by this name; rename or prefix the tool"#
    );
    assert!(native.is_err());
    // Native calls without outputs do not reserve `finish`, so the tool is accepted.
    assert!(ReactAgent::new(ScriptedModel::new(), tools()).is_ok());
}

#[test]
fn duplicate_tool_names_are_an_error_at_construction() {
    let twice = calculator().with_tool(add_tool());
    let error = ReactAgent::new(ScriptedModel::new(), twice).err().unwrap().to_string();
    assert!(error.starts_with(r#"two tools are named "add""#), "{error}");
}
