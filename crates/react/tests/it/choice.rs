//! What a model is made to call, and tools that end a run.

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
use haft_react::{AtLimit, Dialect, JsonReact, OutputError, ReactAgent, TextReact, Trajectory};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, lines},
    tools::{add, calculator, counted, fails, plain},
};

fn add_1() -> [(&'static str, &'static str, &'static str); 1] {
    [("", "add", r#"{"x":1,"y":1}"#)]
}

fn named(name: &str) -> ToolChoice {
    ToolChoice::Tool(ToolName::new(name).unwrap())
}

fn sum() -> Schema {
    Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}))
        .unwrap()
}

fn choices(model: &ScriptedModel) -> Vec<ToolChoice> {
    model.requests().into_iter().map(|request| request.tool_choice).collect()
}

fn last(request: &ChatRequest) -> String {
    request.messages.iter().last().unwrap().text()
}

#[tokio::test]
async fn a_forced_call_is_forced_once() {
    for choice in [ToolChoice::Required, named("add")] {
        let model = ScriptedModel::new().calls(add_1()).calls([("", "add", r#"{"x":2,"y":2}"#)]).text("4");
        let agent = ReactAgent::builder(model.clone()).tools(calculator()).tool_choice(choice.clone());
        let output = agent.build().unwrap().run("Add.").await.unwrap();
        assert_eq!(output.text().unwrap(), "4");
        assert_eq!(choices(&model), [choice, ToolChoice::Auto, ToolChoice::Auto]);
    }
}

#[tokio::test]
async fn what_a_run_says_is_before_what_the_agent_says() {
    let model = ScriptedModel::new().text("No.");
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).tool_choice(ToolChoice::Required);
    let input = RunInput::new("Add.").with_tool_choice(ToolChoice::None);
    agent.build().unwrap().run(input).await.unwrap();
    assert_eq!(choices(&model), [ToolChoice::None]);
}

/// Not every server holds a model to it.
#[tokio::test]
async fn a_reply_that_does_not_do_it_is_told_so_and_it_is_asked_for_again() {
    let model = ScriptedModel::new().text("It is 2.").calls(add_1()).text("2");
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).tool_choice(named("add"));
    let answer = agent.build().unwrap().run("1 + 1?").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("2", 1));
    assert_eq!(choices(&model), [named("add"), named("add"), ToolChoice::Auto]);
    assert_eq!(last(&model.requests()[1]), r#"Call "add" first: go on when you know what it returns."#);

    let model = ScriptedModel::new().calls(add_1()).calls(add_1()).calls(add_1());
    let (add, ran) = counted(&add());
    let tools = Toolset::new().with(add);
    let agent = ReactAgent::builder(model.clone()).tools(tools).tool_choice(ToolChoice::None);
    let error = agent.build().unwrap().run("1 + 1?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
    assert_eq!((ran.load(std::sync::atomic::Ordering::Relaxed), choices(&model).len()), (0, 3));
    assert_paired(&error.transcript);
}

#[tokio::test]
async fn what_is_not_on_offer_cannot_be_called() {
    for (tools, choice, expected) in [
        (calculator(), named("ad"), r#"the model cannot be made to call "ad": on offer: add"#),
        (Toolset::new(), named("add"), r#"the model cannot be made to call "add": no tools are on offer"#),
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

/// Beside declared outputs, to end is a call as well, and not the one that is wanted.
#[tokio::test]
async fn with_outputs_the_end_is_not_on_offer_while_a_call_is_wanted() {
    let model = ScriptedModel::new().calls(add_1()).calls([("", "finish", r#"{"sum":2}"#)]);
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

    let model = ScriptedModel::new().calls([("", "finish", r#"{"sum":2}"#)]);
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
async fn written_steps_are_held_to_it_by_their_form_and_in_words() {
    let steps = [
        r#"{"thought":"","tool_name":"add","tool_args":{"x":1,"y":1}}"#,
        r#"{"thought":"","tool_name":"finish","tool_args":{"answer":"2"}}"#,
    ];
    let dialects: [Arc<dyn Dialect>; 2] = [Arc::new(JsonReact::new()), Arc::new(TextReact)];
    let mut told = Vec::new();
    for (dialect, choice) in dialects.iter().flat_map(|dialect| {
        [named("add"), ToolChoice::Required, ToolChoice::None].map(|choice| (Arc::clone(dialect), choice))
    }) {
        let is_none = choice == ToolChoice::None;
        let model = if is_none { ScriptedModel::new() } else { ScriptedModel::new().text(steps[0]) };
        let model = model.text(steps[1]);
        let tools = calculator().with(plain("look", || async {}));
        let agent = ReactAgent::builder(model.clone()).tools(tools).dialect(dialect).tool_choice(choice);
        assert_eq!(agent.build().unwrap().run("1 + 1?").await.unwrap().text().unwrap(), "2");
        let requests = model.requests();
        told.push(format!("{}: {}", step_names(&requests[0].response_format), last(&requests[0])));
        if !is_none {
            // Then it decides by itself, and what came before is the same.
            let (first, second) = (&requests[0], &requests[1]);
            assert!(second.messages.iter().last().unwrap().text().starts_with("Observation"));
            assert!(Arc::ptr_eq(first.instructions.as_ref().unwrap(), second.instructions.as_ref().unwrap()));
            assert!(!lines(second).contains("The next step is"));
        }
    }
    expect![[r#"
        "add": The next step is "add".
        "add""look": The next step is one of the tools, not "finish".
        "finish": No tool can be used now: the next step is "finish".
        Text: The next step is "add".
        Text: The next step is one of the tools, not "finish".
        Text: No tool can be used now: the next step is "finish"."#]]
    .assert_eq(&told.join("\n"));
}

/// Behaviour C30: who must answer is not made to call.
#[tokio::test]
async fn the_last_request_goes_before_a_forced_call() {
    let model = ScriptedModel::new().text("About 2.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .tool_choice(named("add"))
        .limits(RunLimits { requests: Some(0), ..RunLimits::default() })
        .at_limit(AtLimit::Answer)
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

/// `total(n)`: a structured sum.
fn total() -> DynamicTool {
    tool_fn("total", "Sums.", |Question { n }| async move { Json(Sum { sum: n }) })
}

#[tokio::test]
async fn a_tool_that_was_done_may_be_the_end() {
    let model = ScriptedModel::new().calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "total", r#"{"n":2}"#)]);
    let (add, ran) = counted(&add());
    let tools = Toolset::new().with(total()).with(add);
    let agent = ReactAgent::builder(model).tools(tools).outputs(sum()).stop_on(["total"]).build().unwrap();

    let answer = agent.run("Sum.").await.unwrap().into_answer().unwrap();

    assert_eq!((answer.stop_reason, &*answer.text), (StopReason::Tool, r#"{"sum":2}"#));
    assert_eq!(answer.outputs["sum"], 2);
    // Calls beside it are made.
    assert_eq!((answer.steps.len(), ran.load(std::sync::atomic::Ordering::Relaxed)), (2, 1));
    assert_paired(&answer.transcript);
    assert_eq!(Trajectory::of(&answer.transcript).steps.len(), 2);
    let again = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<haft_core::agent::RunAnswer>(&again).unwrap(), answer);
}

#[tokio::test]
async fn outputs_are_those_of_the_tool_only_where_they_fit() {
    let other = Schema::new(json!({"properties": {"total": {"type": "integer"}}, "required": ["total"]}));
    for (outputs, expected) in [(Some(other.unwrap()), json!({})), (None, json!({"sum": 2}))] {
        let model = ScriptedModel::new().calls([("a", "total", r#"{"n":2}"#)]);
        let agent = ReactAgent::builder(model).tools(Toolset::new().with(total())).stop_on(["total"]);
        let agent = if let Some(outputs) = outputs { agent.outputs(outputs) } else { agent };
        let answer = agent.build().unwrap().run("Sum.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, json!(answer.outputs)), (r#"{"sum":2}"#, expected));
    }
}

#[tokio::test]
async fn one_that_fails_ends_nothing() {
    let model = ScriptedModel::new().calls([("a", "fail", "{}")]).text("It failed.");
    let agent = ReactAgent::builder(model).tools(Toolset::new().with(fails())).stop_on(["fail"]);
    let answer = agent.build().unwrap().run("Try.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("It failed.", StopReason::Finished));
}

#[tokio::test]
async fn a_run_names_its_own() {
    let model = ScriptedModel::new().calls(add_1());
    let agent = ReactAgent::builder(model).tools(calculator().with(total())).stop_on(["total"]);
    let input = RunInput::new("1 + 1?").with_stop_on(["add"]);
    let answer = agent.build().unwrap().run(input).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("2", StopReason::Tool));
    // The next question can be asked.
    let said = answer.transcript;
    assert!(matches!(said.messages().last().map(|it| it.body()), Some(MessageBody::Tool(_))));
    let agent = ReactAgent::new(ScriptedModel::new().text("Yes."), calculator()).unwrap();
    assert_eq!(agent.run(RunInput::new("Really?").with_history(said)).await.unwrap().text().unwrap(), "Yes.");
}

#[tokio::test]
async fn one_that_waited_ends_the_run_when_it_is_done() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let careful = add().with_definition(|it| it.with_policy(policy));
    let model = ScriptedModel::new().calls([("a", "add", r#"{"x":1,"y":1}"#)]);
    let agent = ReactAgent::builder(model).tools(Toolset::new().with(careful)).stop_on(["add"]);
    let agent = agent.build().unwrap();
    let RunOutput::Suspended(suspended) = agent.run("1 + 1?").await.unwrap() else { panic!("it waits") };
    let answers = Decisions::from([("a".to_owned(), Decision::approved())]);
    let answer = agent.run(RunInput::resume(suspended, answers)).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("2", StopReason::Tool));
}

/// It is checked like any answer, and one that calls it for ever is stopped.
#[tokio::test]
async fn what_it_gives_is_checked() {
    let total = |n: i64| {
        let call = ToolCall::new("", "total", json!({"n": n}).to_string());
        ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() })
    };
    let agent = |model| {
        ReactAgent::builder(model)
            .tools(Toolset::new().with(self::total()))
            .stop_on(["total"])
            .output_validator(|mut output, _| async move {
                if output.outputs["sum"] != 4 {
                    return Err(OutputError::retry("it is more"));
                }
                output.outputs.insert("unit".to_owned(), json!("apples"));
                Ok(output)
            })
            .build()
            .unwrap()
    };
    let model = ScriptedModel::new().reply(total(3)).reply(total(4));
    let answer = agent(model.clone()).run("Sum.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs["unit"], "apples");
    assert!(last(&model.requests()[1]).contains("it is more"));
    assert_paired(&answer.transcript);

    let model = ScriptedModel::new().reply(total(1)).reply(total(2)).reply(total(3));
    let error = agent(model).run("Sum.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
}

/// What the tool says for people is not what it warns of.
#[tokio::test]
async fn the_answer_is_the_output_without_its_warnings() {
    let rounds = plain("round", || async { ToolOutput::from("2").with_warning("rounded") });
    let model = ScriptedModel::new().calls([("a", "round", "{}")]);
    let agent = ReactAgent::builder(model).tools(Toolset::new().with(rounds)).stop_on(["round"]);
    let answer = agent.build().unwrap().run("Round.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "2");
    let told: Vec<_> = answer.transcript.messages().iter().map(|it: &Arc<Message>| it.text()).collect();
    assert_eq!(told.last().unwrap(), "2\nWarning: rounded");
}
