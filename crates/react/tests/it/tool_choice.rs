//! Tests of tool choices and stop tools.

use std::sync::Arc;

use expect_test::expect;
use haft_core::{
    Json, Message, RunInput, RunOutput, Schema, ToolCall, ToolExt as _, ToolName, ToolOutput, Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, StopReason},
    call::{Decision, Decisions},
    export::schemars::{self, JsonSchema},
    message::{AssistantMessage, MessageBody},
    model::{ChatRequest, ChatResponse, ResponseFormat, ToolChoice},
    tool::{DynamicTool, ToolPolicy},
    tool_fn,
};
use haft_react::{Dialect, JsonReact, LimitAction, ReactAgent, TextReact, Trajectory, Verdict};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, failing_tool, tool_without_parameters, with_call_counter},
};

fn add_call() -> [(&'static str, &'static str, &'static str); 1] {
    [("", "add", r#"{"x":1,"y":1}"#)]
}

fn choice_of(name: &str) -> ToolChoice {
    ToolChoice::Tool(ToolName::new(name).unwrap())
}

fn sum() -> Schema {
    Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}))
        .unwrap()
}

fn choices(model: &ScriptedModel) -> Vec<ToolChoice> {
    model.requests().into_iter().map(|request| request.tool_choice).collect()
}

fn last_text(request: &ChatRequest) -> String {
    request.messages.iter().last().unwrap().text()
}

#[tokio::test]
async fn tool_choice_applies_until_the_first_call() {
    for choice in [ToolChoice::Required, choice_of("add")] {
        let model = ScriptedModel::new()
            .reply_calls(add_call())
            .reply_calls([("", "add", r#"{"x":2,"y":2}"#)])
            .reply_text("4");
        let agent = ReactAgent::builder(model.clone()).tools(calculator()).tool_choice(choice.clone());
        let output = agent.build().unwrap().run("Add.").await.unwrap();
        assert_eq!(output.text().unwrap(), "4");
        assert_eq!(choices(&model), [choice, ToolChoice::Auto, ToolChoice::Auto]);
    }
}

/// A hook may postpone the required call. A call to another tool does not replace it.
#[tokio::test]
async fn tool_choice_applies_until_the_required_call() {
    let model =
        ScriptedModel::new().reply_calls([("a", "fail", "{}")]).reply_calls(add_call()).reply_text("2");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator().with_tool(failing_tool()))
        .tool_choice(choice_of("add"))
        .prepare(|mut request, cx| async move {
            if cx.step == 0 {
                request.tool_choice = ToolChoice::Auto;
            }
            Ok(request)
        });
    agent.build().unwrap().run("Add.").await.unwrap();
    assert_eq!(choices(&model), [ToolChoice::Auto, choice_of("add"), ToolChoice::Auto]);
}

#[tokio::test]
async fn tool_choice_of_the_run_overrides_the_agent() {
    let model = ScriptedModel::new().reply_text("No.");
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).tool_choice(ToolChoice::Required);
    let input = RunInput::new("Add.").with_tool_choice(ToolChoice::None);
    agent.build().unwrap().run(input).await.unwrap();
    assert_eq!(choices(&model), [ToolChoice::None]);
}

/// Some servers do not enforce `tool_choice`. The run must then reject a reply that does not follow
/// the tool choice.
#[tokio::test]
async fn reply_that_ignores_the_tool_choice_is_rejected() {
    let model = ScriptedModel::new().reply_text("It is 2.").reply_calls(add_call()).reply_text("2");
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).tool_choice(choice_of("add"));
    let answer = agent.build().unwrap().run("1 + 1?").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("2", 1));
    assert_eq!(choices(&model), [choice_of("add"), choice_of("add"), ToolChoice::Auto]);
    assert_eq!(last_text(&model.requests()[1]), r#"Call "add" first: go on when you know what it returns."#);

    let model = ScriptedModel::new().reply_calls(add_call()).reply_calls(add_call()).reply_calls(add_call());
    let (add, ran) = with_call_counter(&add_tool());
    let tools = Toolset::new().with_tool(add);
    let agent = ReactAgent::builder(model.clone()).tools(tools).tool_choice(ToolChoice::None);
    let error = agent.build().unwrap().run("1 + 1?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
    assert_eq!((ran.load(std::sync::atomic::Ordering::Relaxed), choices(&model).len()), (0, 3));
    assert_paired(&error.transcript);
}

#[tokio::test]
async fn unavailable_forced_tool_is_an_error() {
    for (tools, choice, expected) in [
        (calculator(), choice_of("ad"), r#"the model cannot be made to call "ad": on offer: add"#),
        (
            Toolset::new(),
            choice_of("add"),
            r#"the model cannot be made to call "add": no tools are on offer"#,
        ),
        (
            Toolset::new(),
            ToolChoice::Required,
            "the model cannot be made to call a tool: no tools are on offer",
        ),
    ] {
        let model = ScriptedModel::new();
        let agent = ReactAgent::builder(model.clone()).tools(tools).tool_choice(choice).build().unwrap();
        let error = agent.run("Add.").await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(model.requests().is_empty() && error.transcript.len() == 1);
    }
}

/// If a tool call is required, `finish` is not offered, because a call to `finish` would also
/// satisfy the requirement.
#[tokio::test]
async fn finish_is_not_offered_during_a_forced_call() {
    let model = ScriptedModel::new().reply_calls(add_call()).reply_calls([("", "finish", r#"{"sum":2}"#)]);
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .outputs(sum())
        .tool_choice(ToolChoice::Required)
        .build()
        .unwrap();
    agent.run("1 + 1?").await.unwrap();
    let offered = |request: &ChatRequest| request.tools.names().map(ToString::to_string).collect::<Vec<_>>();
    let requests = model.requests();
    assert_eq!(offered(&requests[0]), ["add"]);
    assert_eq!(offered(&requests[1]), ["add", "finish"]);

    let model = ScriptedModel::new().reply_calls([("", "finish", r#"{"sum":2}"#)]);
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).outputs(sum());
    let agent = agent.tool_choice(ToolChoice::None).build().unwrap();
    agent.run("1 + 1?").await.unwrap();
    assert_eq!(offered(&model.requests()[0]), ["finish"]);
}

fn step_names(format: &ResponseFormat) -> String {
    match format {
        ResponseFormat::JsonSchema { schema, .. } => {
            let steps = schema.as_value()["anyOf"].as_array().unwrap().iter();
            steps.map(|step| step["properties"]["tool_name"]["const"].to_string()).collect()
        }
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn text_dialects_force_a_call_by_schema_and_prompt() {
    let steps = [
        r#"{"thought":"","tool_name":"add","tool_args":{"x":1,"y":1}}"#,
        r#"{"thought":"","tool_name":"finish","tool_args":{"answer":"2"}}"#,
    ];
    let dialects: [Arc<dyn Dialect>; 2] = [Arc::new(JsonReact::new()), Arc::new(TextReact)];
    let mut prompts = Vec::new();
    for (dialect, choice) in dialects.iter().flat_map(|dialect| {
        [choice_of("add"), ToolChoice::Required, ToolChoice::None].map(|choice| (Arc::clone(dialect), choice))
    }) {
        let is_none = choice == ToolChoice::None;
        let model = if is_none { ScriptedModel::new() } else { ScriptedModel::new().reply_text(steps[0]) };
        let model = model.reply_text(steps[1]);
        let tools = calculator().with_tool(tool_without_parameters("look", || async {}));
        let agent = ReactAgent::builder(model.clone()).tools(tools).dialect(dialect).tool_choice(choice);
        assert_eq!(agent.build().unwrap().run("1 + 1?").await.unwrap().text().unwrap(), "2");
        let requests = model.requests();
        prompts.push(format!("{}: {}", step_names(&requests[0].response_format), last_text(&requests[0])));
        if !is_none {
            // In later steps, the tool choice is not forced, and the instructions are unchanged.
            let (first, second) = (&requests[0], &requests[1]);
            assert!(second.messages.iter().last().unwrap().text().starts_with("Observation"));
            assert!(Arc::ptr_eq(first.instructions.as_ref().unwrap(), second.instructions.as_ref().unwrap()));
            assert!(!message_lines(second).contains("The next step is"));
        }
    }
    expect![[r#"
        "add": The next step is "add".
        "add""look": The next step is one of the tools, not "finish".
        "finish": No tool can be used now: the next step is "finish".
        Text: The next step is "add".
        Text: The next step is one of the tools, not "finish".
        Text: No tool can be used now: the next step is "finish"."#]]
    .assert_eq(&prompts.join("\n"));
}

/// The final request after a limit has no tools, even if the tool choice forces a call.
#[tokio::test]
async fn last_request_overrides_a_forced_call() {
    let model = ScriptedModel::new().reply_text("About 2.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .tool_choice(choice_of("add"))
        .limits(RunLimits { requests: Some(0), ..RunLimits::default() })
        .limit_action(LimitAction::Answer)
        .build()
        .unwrap();
    assert_eq!(agent.run("1 + 1?").await.unwrap().text().unwrap(), "About 2.");
    assert_eq!(choices(&model), [ToolChoice::None]);
}

#[derive(serde::Deserialize, JsonSchema)]
struct Question {
    n: i64,
}

#[derive(serde::Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

/// Creates the tool `total(n)`, which returns `n` as a structured sum.
fn total_tool() -> DynamicTool {
    tool_fn("total", "Sums.", |Question { n }| async move { Json(Sum { sum: n }) })
}

#[tokio::test]
async fn result_of_a_stop_tool_is_the_answer() {
    let model =
        ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "total", r#"{"n":2}"#)]);
    let (add, ran) = with_call_counter(&add_tool());
    let tools = Toolset::new().with_tool(total_tool()).with_tool(add);
    let agent = ReactAgent::builder(model).tools(tools).outputs(sum()).stop_on(["total"]).build().unwrap();

    let answer = agent.run("Sum.").await.unwrap().into_answer().unwrap();

    assert_eq!((answer.stop_reason, &*answer.text), (StopReason::Tool, r#"{"sum":2}"#));
    assert_eq!(answer.outputs["sum"], 2);
    // The other call in the same reply is executed as well.
    assert_eq!((answer.steps.len(), ran.load(std::sync::atomic::Ordering::Relaxed)), (2, 1));
    assert_paired(&answer.transcript);
    assert_eq!(Trajectory::from_transcript(&answer.transcript).steps.len(), 2);
    let saved = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<haft_core::agent::RunAnswer>(&saved).unwrap(), answer);
}

#[tokio::test]
async fn result_of_a_stop_tool_becomes_outputs_if_valid() {
    let other = Schema::new(json!({"properties": {"total": {"type": "integer"}}, "required": ["total"]}));
    for (outputs, expected) in [(Some(other.unwrap()), json!({})), (None, json!({"sum": 2}))] {
        let model = ScriptedModel::new().reply_calls([("a", "total", r#"{"n":2}"#)]);
        let agent =
            ReactAgent::builder(model).tools(Toolset::new().with_tool(total_tool())).stop_on(["total"]);
        let agent = if let Some(outputs) = outputs { agent.outputs(outputs) } else { agent };
        let answer = agent.build().unwrap().run("Sum.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, json!(answer.outputs)), (r#"{"sum":2}"#, expected));
    }
}

#[tokio::test]
async fn failed_stop_tool_does_not_end_the_run() {
    let model = ScriptedModel::new().reply_calls([("a", "fail", "{}")]).reply_text("It failed.");
    let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(failing_tool())).stop_on(["fail"]);
    let answer = agent.build().unwrap().run("Try.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("It failed.", StopReason::Finished));
}

#[tokio::test]
async fn stop_tools_of_the_run_override_the_agent() {
    let model = ScriptedModel::new().reply_calls(add_call());
    let agent = ReactAgent::builder(model).tools(calculator().with_tool(total_tool())).stop_on(["total"]);
    let input = RunInput::new("1 + 1?").with_stop_on(["add"]);
    let answer = agent.build().unwrap().run(input).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("2", StopReason::Tool));
    // A conversation that ends with a tool result must still accept a new question.
    let history = answer.transcript;
    assert!(matches!(history.messages().last().map(|it| it.body()), Some(MessageBody::Tool(_))));
    let agent = ReactAgent::new(ScriptedModel::new().reply_text("Yes."), calculator()).unwrap();
    assert_eq!(
        agent.run(RunInput::new("Really?").with_history(history)).await.unwrap().text().unwrap(),
        "Yes."
    );
}

#[tokio::test]
async fn suspended_stop_tool_ends_the_run_after_its_approval() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let add_with_approval = add_tool().with_definition(|it| it.with_policy(policy));
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]);
    let agent =
        ReactAgent::builder(model).tools(Toolset::new().with_tool(add_with_approval)).stop_on(["add"]);
    let agent = agent.build().unwrap();
    let RunOutput::Suspended(suspended) = agent.run("1 + 1?").await.unwrap() else {
        panic!("the run is not suspended")
    };
    let answers = Decisions::from([("a".to_owned(), Decision::approved())]);
    let answer = agent.run(RunInput::resume(suspended, answers)).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("2", StopReason::Tool));
}

/// An output validator checks the result of a stop tool. Repeated rejections must reach the limit
/// and end the run.
#[tokio::test]
async fn result_of_a_stop_tool_is_validated() {
    let total = |n: i64| {
        let call = ToolCall::new("", "total", json!({"n": n}).to_string());
        ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() })
    };
    let agent = |model| {
        ReactAgent::builder(model)
            .tools(Toolset::new().with_tool(total_tool()))
            .stop_on(["total"])
            .output_validator(|mut output, _| async move {
                if output.outputs["sum"] != 4 {
                    return Ok(Verdict::retry("it is more"));
                }
                output.outputs.insert("unit".to_owned(), json!("apples"));
                Ok(Verdict::Replace(output))
            })
            .build()
            .unwrap()
    };
    let model = ScriptedModel::new().reply(total(3)).reply(total(4));
    let answer = agent(model.clone()).run("Sum.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs["unit"], "apples");
    assert!(last_text(&model.requests()[1]).contains("it is more"));
    assert_paired(&answer.transcript);

    let model = ScriptedModel::new().reply(total(1)).reply(total(2)).reply(total(3));
    let error = agent(model).run("Sum.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
}

/// The answer must be the content of the tool result, without the warnings of the tool.
#[tokio::test]
async fn answer_excludes_warnings_of_a_stop_tool() {
    let rounds = tool_without_parameters("round", || async { ToolOutput::from("2").with_warning("rounded") });
    let model = ScriptedModel::new().reply_calls([("a", "round", "{}")]);
    let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(rounds)).stop_on(["round"]);
    let answer = agent.build().unwrap().run("Round.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "2");
    let texts: Vec<_> = answer.transcript.messages().iter().map(|it: &Arc<Message>| it.text()).collect();
    assert_eq!(texts.last().unwrap(), "2\nWarning: rounded");
}
