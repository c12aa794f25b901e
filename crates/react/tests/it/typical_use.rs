//! Tests of the convenience methods for typical uses: questions, typed outputs, follow-up turns,
//! decisions, and state per run.

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    Agent, RunEvent, RunInput, ToolContext, ToolExt as _, Toolset, Transcript,
    agent::{AgentError, AnswerParseError},
    call::{Decision, Pending, PendingKind, ToolResponse},
    export::schemars::{self, JsonSchema},
    tool,
    tool::{Principal, ToolPolicy},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    HandoffGroup, ReactAgent, Router,
    router::{Route, RouteTable},
};
use haft_testing::ScriptedModel;
use serde::Deserialize;
use serde_json::json;

use crate::tools::tool_without_parameters;

fn plain_agent(model: ScriptedModel) -> ReactAgent {
    ReactAgent::new(model, Toolset::new()).unwrap()
}

fn table() -> RouteTable {
    RouteTable::new([Route::new("cook", "Cooks.").with_keywords(["soup"])])
}

/// This file imports the trait `Agent`. Calls to `run` and `stream` must still resolve to the
/// inherent methods, which also accept text and messages.
#[tokio::test]
async fn agents_take_text_messages_and_inputs() {
    let agent = plain_agent(ScriptedModel::new().reply_text("1").reply_text("2").reply_text("3"));
    assert_eq!(agent.run("Count.").await.unwrap().text().unwrap(), "1");
    assert_eq!(agent.run("Count.".to_owned()).await.unwrap().text().unwrap(), "2");
    let events: Vec<_> = agent.stream(RunInput::new("Count.")).try_collect().await.unwrap();
    assert!(matches!(events.last(), Some(RunEvent::Done { output }) if output.text().unwrap() == "3"));

    let router =
        Router::new(table(), [("cook", plain_agent(ScriptedModel::new().reply_text("Soup.")))]).unwrap();
    assert_eq!(router.run("Make soup.").await.unwrap().text().unwrap(), "Soup.");
    let agents =
        HandoffGroup::new(table(), [("cook", plain_agent(ScriptedModel::new().reply_text("Soup.")))])
            .unwrap();
    assert_eq!(agents.run("Make soup.").await.unwrap().text().unwrap(), "Soup.");
}

#[tokio::test]
async fn generic_code_runs_any_agent() {
    async fn ask(agent: &dyn Agent) -> Result<String, AgentError> {
        Ok(agent.run("Hi".into()).await?.text().unwrap().to_owned())
    }
    assert_eq!(ask(&plain_agent(ScriptedModel::new().reply_text("Hello."))).await.unwrap(), "Hello.");
    let future = plain_agent(ScriptedModel::new().reply_text("Hello."));
    let task = tokio::spawn(async move { future.run("Hi").await.unwrap().text().unwrap().to_owned() });
    assert_eq!(task.await.unwrap(), "Hello.");
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Person {
    name: String,
    age: u8,
}

#[tokio::test]
async fn answer_is_parsed_into_its_type() {
    let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"name":"Ada"}"#)]).reply_calls([(
        "b",
        "finish",
        r#"{"name":"Ada","age":36}"#,
    )]);
    let agent = ReactAgent::builder(model.clone()).output::<Person>().build().unwrap();

    let answer = agent.run("Ada was 36.").await.unwrap().into_answer().unwrap();

    assert_eq!(answer.parse::<Person>().unwrap(), Person { name: "Ada".to_owned(), age: 36 });
    assert_eq!(model.requests().len(), 2, "an answer without `age` must be returned to the model");
}

#[tokio::test]
async fn parse_error_names_the_field() {
    #[derive(Debug, Deserialize)]
    struct Crowd {
        #[serde(rename = "name")]
        _name: Vec<String>,
    }
    let model =
        ScriptedModel::new().reply_calls([("a", "finish", r#"{"name":"Ada","age":36}"#)]).reply_text("Hi.");
    let agent = ReactAgent::builder(model.clone()).output::<Person>().build().unwrap();
    let answer = agent.run("Ada was 36.").await.unwrap().into_answer().unwrap();
    let error: AnswerParseError = answer.parse::<Crowd>().unwrap_err();
    assert_eq!(error.field, "name");
    expect!["the answer is no Crowd: `name`: invalid type: string \"Ada\", expected a sequence"]
        .assert_eq(&error.to_string());

    let answer = plain_agent(model).run("Hi").await.unwrap().into_answer().unwrap();
    expect!["the answer is no Person: missing field `name`"]
        .assert_eq(&answer.parse::<Person>().unwrap_err().to_string());
}

#[tokio::test]
async fn transcript_is_the_history_of_the_next_run() {
    let model =
        ScriptedModel::new().reply_text("Paris.").reply_text("Two million.").reply_text("2.1 million.");
    let agent = plain_agent(model.clone());
    let first = agent.run("The capital of France?").await.unwrap();
    let next = RunInput::new("Its people?").with_history(first.transcript().unwrap());
    let second = agent.run(next).await.unwrap();
    let transcript: Transcript = second.transcript().unwrap().clone();
    agent.run(RunInput::new("Exactly?").with_history(transcript)).await.unwrap();
    let lengths: Vec<_> = model.requests().iter().map(|request| request.messages.len()).collect();
    assert_eq!(lengths, [1, 3, 5]);
}

/// Creates a toolset with two tools. Calls to `pay` require an approval, and calls to `ship`
/// require an output from the host.
fn shop() -> Toolset {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay =
        tool_without_parameters("pay", || async { "paid" }).with_definition(|it| it.with_policy(policy));
    let ship = tool_without_parameters("ship", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    Toolset::new().with_tool(pay).with_tool(ship)
}

/// Creates an agent that calls `pay` twice, and delegates to a child agent that calls `pay` once.
fn buyer() -> ReactAgent {
    let child = ScriptedModel::new().reply_calls([("1", "pay", "{}")]).reply_text("Paid inside.");
    let child = ReactAgent::new(child, shop()).unwrap().into_tool("buy", "Buys.");
    let calls = [("1", "pay", "{}"), ("2", "pay", "{ }"), ("3", "buy", r#"{"task":"Pay."}"#)];
    ReactAgent::new(ScriptedModel::new().reply_calls(calls).reply_text("Done."), shop().with_tool(child))
        .unwrap()
}

#[tokio::test]
async fn text_of_a_suspended_run_is_an_error_with_its_calls() {
    let agent = buyer();
    let output = agent.run("Buy.").await.unwrap();
    expect![[r#"the run is suspended, and needs decisions: an approval or a denial for call "1" of tool "pay", an approval or a denial for call "2" of tool "pay", an approval or a denial for call "3/1" of tool "pay""#]]
        .assert_eq(&output.text().unwrap_err().to_string());
    assert!(output.transcript().is_err() && output.answer().is_none());
    let suspended = output.into_answer().unwrap_err();
    assert_eq!(agent.run(suspended.approve_all()).await.unwrap().text().unwrap(), "Done.");
}

#[tokio::test]
async fn approve_all_reaches_nested_calls() {
    let agent = buyer();
    let suspended = agent.run("Buy.").await.unwrap().into_answer().unwrap_err();
    let output = agent.run(suspended.approve_all()).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
    let results: Vec<_> = output.results_of("pay").map(|result| result.model_text().into_owned()).collect();
    assert_eq!(results, ["paid", "paid"]);
    assert_eq!(output.results_of("buy").next().unwrap().model_text(), "Paid inside.");
}

#[tokio::test]
async fn approve_all_leaves_external_calls_open() {
    let model =
        ScriptedModel::new().reply_calls([("1", "pay", "{}"), ("2", "ship", "{}")]).reply_text("Done.");
    let agent = ReactAgent::new(model, shop()).unwrap();
    let suspended = agent.run("Go.").await.unwrap().into_answer().unwrap_err();
    let suspended = agent.run(suspended.approve_all()).await.unwrap().into_answer().unwrap_err();
    let open: Vec<_> = suspended.undecided_calls().iter().map(|request| &*request.call.id).collect();
    assert_eq!(open, ["2"]);
    let output = agent.run(suspended.resume([("2", Decision::output("shipped"))])).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
}

#[tokio::test]
async fn each_request_has_its_own_decision() {
    let agent = buyer();
    let suspended = agent.run("Buy.").await.unwrap().into_answer().unwrap_err();
    let decisions = [
        ("1", Decision::approved()),
        ("2", Decision::denied("once is enough")),
        ("3/1", Decision::denied("too expensive")),
    ];
    let output = agent.run(suspended.resume(decisions)).await.unwrap();
    let results: Vec<_> = output.results_of("pay").map(|result| result.model_text().into_owned()).collect();
    assert_eq!(results, ["paid", "denied: once is enough"]);

    let agent = buyer();
    let suspended = agent.run("Buy.").await.unwrap().into_answer().unwrap_err();
    let input = suspended.decide(|request| (request.call.id != "1").then(|| Decision::denied("no")));
    let suspended = agent.run(input).await.unwrap().into_answer().unwrap_err();
    assert_eq!(suspended.undecided_calls()[0].call.id, "1");

    let error = agent.run(suspended.clone().resume([("7", Decision::approved())])).await.unwrap_err();
    expect![[
        r#"the run cannot begin: there is a decision about the call "7", which does not wait; waiting: 1"#
    ]]
    .assert_eq(&error.to_string());
    assert_eq!(agent.run(suspended.approve_all()).await.unwrap().text().unwrap(), "Done.");
}

/// Returns the user and the number.
#[tool]
fn who(#[tool(context)] cx: &ToolContext, #[tool(state)] number: u32) -> String {
    format!("{} {number}", cx.principal().map_or("", |principal| &principal.id))
}

#[tokio::test]
async fn run_has_its_own_state_and_principal() {
    let model = ScriptedModel::new().reply_calls([("1", "who", "{}")]).reply_text("Ann.");
    let builder = ReactAgent::builder(model).tools(Toolset::new().with_tool(Who)).state_per_run::<u32>();
    let agent = builder.build().unwrap();
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let output = agent.run(RunInput::new("Who am I?").with_principal(ann).with_state(7_u32)).await.unwrap();
    assert_eq!(output.results_of("who").next().unwrap().model_text(), "ann 7");
}

#[tokio::test]
async fn tool_is_tested_with_its_own_context() {
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let cx = ToolContext::default().with_call_id("call_1").with_principal(ann).with_state(7_u32);
    assert_eq!(cx.call_id(), "call_1");
    assert_eq!(Who.invoke_with(json!({}), &cx).await.into_result().model_text(), "ann 7");
    let other = cx.clone().with_state(8_u32);
    assert_eq!(Who.invoke_with(json!({}), &other).await.into_result().model_text(), "ann 8");
    assert_eq!(cx.state::<u32>().unwrap(), 7, "a clone must have its own state");
}
