//! Tests of runs in the text dialect, for models without native calls and structured output.

use expect_test::expect;
use haft_core::{
    agent::{AgentErrorKind, Limit},
    model::{ChatResponse, FinishReason, ModelProfile},
};
use haft_react::{ReactAgent, Trajectory};
use haft_testing::ScriptedModel;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::calculator,
};

const ADD: &str = "Thought: I add them.\nAction: add\nArguments: {\"x\": 17, \"y\": 25}\n";
const FINISH: &str = "Thought: Known.\nAction: finish\nArguments: {\"answer\": \"It is 42.\"}";

/// Returns the profile of a model without native calls and structured output.
fn text_only_profile() -> ModelProfile {
    ModelProfile { supports_native_tools: false, supports_json_schema: false, ..ModelProfile::new("plain") }
}

fn agent(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::builder(model.clone()).tools(calculator()).instructions("Be brief.").build().unwrap()
}

/// A run in the text dialect has the expected prompt, observations and trajectory.
#[tokio::test]
async fn text_dialect_runs_a_tool_and_finishes() {
    let model = ScriptedModel::new().with_profile(text_only_profile()).reply_text(ADD).reply_text(FINISH);

    let answer = agent(&model).run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();

    assert_eq!(answer.text, "It is 42.");
    assert_paired(&answer.transcript);
    let requests = model.requests();
    expect![[r#"
        Be brief.

        You work in steps. Each of your replies is one step, written as three lines, of which the last is one JSON object:
        Thought: what to do next, and why
        Action: one of the tools below
        Arguments: {its arguments, as JSON}
        After each step you are told the observation: what the tool returned. When the observations answer the question, the next step is "finish".

        Tools:
        1. add: Adds two integers. Arguments: {"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x","y"]}
        2. finish: Gives the final answer and ends. Use it as soon as the observations answer the question. Arguments: {"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],"additionalProperties":false}

        Examples with other tools. The question "How many people live in Japan?" takes two steps:
        Thought: I need the population of Japan.
        Action: get_population
        Arguments: {"country":"Japan"}
        Observation from get_population: 123000000
        Thought: The observation answers the question.
        Action: finish
        Arguments: {"answer":"About 123 million people live in Japan."}
        The question "What does piedra mean, and how many people live in Chile?" takes three:
        Thought: I look up piedra first.
        Action: look_up_word
        Arguments: {"word":"piedra"}
        Observation from look_up_word: stone
        Thought: Now I need the population of Chile.
        Action: get_population
        Arguments: {"country":"Chile"}
        Observation from get_population: 19600000
        Thought: The observations answer both parts.
        Action: finish
        Arguments: {"answer":"Piedra means stone, and about 19.6 million people live in Chile."}
        The question "Who painted the Mona Lisa?" takes one:
        Thought: I know this without a tool.
        Action: finish
        Arguments: {"answer":"Leonardo da Vinci painted the Mona Lisa."}"#]].assert_eq(&requests[0].instructions.as_ref().unwrap().text());
    assert_eq!(requests[0].settings.stop, ["\nObservation from", "\nObservation:"]);
    assert!(requests.iter().all(|request| request.tools.is_empty()));
    expect![[r#"
        user: What is 17 plus 25?
        assistant: Thought: I add them.
        Action: add
        Arguments: {"x":17,"y":25}
        user: Observation from add: 42
    "#]]
    .assert_eq(&message_lines(&requests[1]));
    expect![[r#"
        thought_0: I add them.
        tool_name_0: add
        tool_args_0: {"x":17,"y":25}
        observation_0: 42
        thought_1: Known.
        tool_name_1: finish
        tool_args_1: {"answer":"It is 42."}
        observation_1: Completed.
    "#]]
    .assert_eq(&Trajectory::from_transcript(&answer.transcript).to_string());
}

#[tokio::test]
async fn unreadable_reply_is_returned_to_the_model_within_a_limit() {
    let model = ScriptedModel::new()
        .with_profile(text_only_profile())
        .reply_text("I think it is 42.")
        .reply_text(FINISH);
    assert_eq!(agent(&model).run("17 + 25?").await.unwrap().text().unwrap(), "It is 42.");
    expect![[r#"
        user: 17 + 25?
        assistant: I think it is 42.
        user: Your reply cannot be read. Write three lines, of which the last is one JSON object:
        Thought: why
        Action: a tool, or finish
        Arguments: {its arguments, as JSON}
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));

    let model = ScriptedModel::new()
        .with_profile(text_only_profile())
        .reply_text("No.")
        .reply_text("No!")
        .reply_text("Thought: no");
    let error = agent(&model).run("17 + 25?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
}

/// If the arguments of a call are truncated, the tool must not run. The model receives the parse
/// error.
#[tokio::test]
async fn truncated_arguments_never_run() {
    let cut = "Thought: I add.\nAction: add\nArguments: {\"x\": 17, \"y\": \"2";
    let model = ScriptedModel::new()
        .with_profile(text_only_profile())
        .reply_text(cut)
        .reply_text(ADD)
        .reply_text(FINISH);
    let answer = agent(&model).run("17 + 25?").await.unwrap().into_answer().unwrap();
    assert!(answer.steps[0].result.failure().is_some() && answer.steps[1].result.failure().is_none());
    expect![[r#"
        user: 17 + 25?
        assistant: Thought: I add.
        Action: add
        Arguments: "{\"x\": 17, \"y\": \"2"
        user: Observation from add: invalid arguments: not JSON: EOF while parsing a string at line 1 column 17; write one JSON object
    "#]].assert_eq(&message_lines(&model.requests()[1]));
}

/// A reply with an unknown finish reason may be truncated, so a call with unclosed arguments does
/// not run.
#[tokio::test]
async fn call_of_an_aborted_reply_never_runs() {
    let cut = ChatResponse {
        finish_reason: FinishReason::Other("abort".to_owned()),
        ..ChatResponse::new("Thought: I add.\nAction: add\nArguments: {\"x\": 17, \"y\": 25\n")
    };
    let model =
        ScriptedModel::new().with_profile(text_only_profile()).reply(cut).reply_text(ADD).reply_text(FINISH);
    let answer = agent(&model).run("17 + 25?").await.unwrap().into_answer().unwrap();
    assert!(answer.steps[0].result.failure().is_some() && answer.steps[1].result.failure().is_none());
}

/// An array of argument objects is an error. The tool must not run with the first object of the
/// array.
#[tokio::test]
async fn list_of_arguments_is_rejected() {
    let list = "Action: add\nArguments: [{\"x\": 1, \"y\": 2}, {\"x\": 17, \"y\": 25}]";
    let model = ScriptedModel::new()
        .with_profile(text_only_profile())
        .reply_text(list)
        .reply_text(ADD)
        .reply_text(FINISH);
    let answer = agent(&model).run("17 + 25?").await.unwrap().into_answer().unwrap();
    assert!(answer.steps[0].result.failure().is_some() && answer.steps[1].result.failure().is_none());
}
