//! Requests, calls, tokens and cost of nested runs count towards the limits of the runs that
//! enclose them, while they run.

use std::sync::Arc;

use haft_core::{
    Agent, Message, RunInput, Schema, Tool, ToolDefinition, ToolError, ToolName, Toolset,
    agent::{AgentError, AgentErrorKind, Limit, RunLimits, StopReason},
    message::MessageBody,
    model::{ChatModelExt as _, ChatResponse},
    tool::{DynamicTool, OnCancel, RunContext},
    usage::{Cost, Price, Prices, Usage},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    HandoffGroup, JsonReact, LimitAction, ReactAgent, Router,
    router::{Route, RouteTable},
};
use haft_testing::ScriptedModel;

use crate::{
    pairing::assert_paired,
    tools::{add_tool, calculator},
};

/// Returns limits with `requests` as the maximum number of model requests.
fn max_requests(requests: u32) -> RunLimits {
    RunLimits { requests: Some(requests), ..RunLimits::default() }
}

fn max_tool_calls(calls: u32) -> RunLimits {
    RunLimits { tool_calls: Some(calls), ..RunLimits::default() }
}

/// A model that calls `add` in `steps` replies, with different arguments.
fn adds(steps: u32) -> ScriptedModel {
    (0..steps).fold(ScriptedModel::new(), |model, step| {
        model.reply_calls([("", "add", &*format!(r#"{{"x":{step},"y":1}}"#))])
    })
}

/// A model that calls `add` in `steps` replies, and then answers.
fn adding(steps: u32) -> ScriptedModel {
    adds(steps).reply_text("Added.")
}

fn child(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::new(model.clone(), calculator()).unwrap()
}

/// A model that calls `buy`.
fn buys() -> ScriptedModel {
    ScriptedModel::new().reply_calls([("", "buy", r#"{"task":"A pen."}"#)])
}

/// A model that calls `buy`, and then answers.
fn buying() -> ScriptedModel {
    buys().reply_text("Bought.")
}

/// Creates an agent with `limits` that can call `child` as the tool `buy`.
fn parent(model: &ScriptedModel, child: impl Agent + 'static, limits: RunLimits) -> ReactAgent {
    parent_with(model, child.into_tool("buy", "Buys something."), limits, LimitAction::Fail)
}

fn parent_with(
    model: &ScriptedModel,
    tool: impl Tool + 'static,
    limits: RunLimits,
    action: LimitAction,
) -> ReactAgent {
    let tools = calculator().with_tool(tool);
    ReactAgent::builder(model.clone()).tools(tools).limits(limits).limit_action(action).build().unwrap()
}

#[track_caller]
fn assert_limit(error: &AgentError, expected: Limit) {
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(limit) if limit == expected), "{error:?}");
    assert_paired(&error.transcript);
}

/// Returns the texts of the tool results in `messages`.
fn results(messages: &[Arc<Message>]) -> Vec<String> {
    let results = messages.iter().filter(|message| matches!(message.body(), MessageBody::Tool(_)));
    results.map(|message| message.text()).collect()
}

/// The parent makes one request, and its child two. With a limit of three, the parent cannot make a
/// fourth request.
#[tokio::test]
async fn requests_of_a_child_count() {
    let (model, inner) = (buys(), adding(1));
    let error = parent(&model, child(&inner), max_requests(3)).run("Buy a pen.").await.unwrap_err();
    assert_limit(&error, Limit::Requests(3));
    assert_eq!((model.requests().len(), inner.requests().len(), error.usage.requests), (1, 2, 3));
    assert_eq!(results(error.transcript.messages()), ["Added."]);

    let answer = parent(&buying(), child(&adding(1)), max_requests(4)).run("Buy a pen.").await.unwrap();
    assert_eq!(answer.into_answer().unwrap().usage.requests, 4);
}

/// A child is stopped before the request that its parent does not permit. The error in the result
/// of the call contains the limit of the parent.
#[tokio::test]
async fn child_is_stopped_before_its_next_request() {
    let (model, inner) = (buys(), adds(2));
    let error = parent(&model, child(&inner), max_requests(3)).run("Buy a pen.").await.unwrap_err();
    assert_limit(&error, Limit::Requests(3));
    assert_eq!((model.requests().len(), inner.requests().len(), error.usage.requests), (1, 2, 3));
    assert_eq!(
        results(error.transcript.messages()),
        ["the agent did not finish: the limit of 3 model requests is reached"]
    );
}

/// The answer request of [`LimitAction::Answer`] is permitted for the parent. Its child has no
/// answer request, because the budget of the parent is used up.
#[tokio::test]
async fn parent_answers_after_its_child_was_stopped() {
    let (model, inner) = (buying(), adds(1));
    let inner_agent =
        ReactAgent::builder(inner.clone()).tools(calculator()).limit_action(LimitAction::Answer);
    let tool = inner_agent.build().unwrap().into_tool("buy", "");
    let agent = parent_with(&model, tool, max_requests(2), LimitAction::Answer);
    let answer = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("Bought.", StopReason::LimitReached));
    assert_eq!((model.requests().len(), inner.requests().len(), answer.usage.requests), (2, 1, 3));
}

/// The smaller limit applies. A child that reaches its own limit leaves the rest of the budget to
/// its parent.
#[tokio::test]
async fn own_limit_of_a_child_applies_if_it_is_smaller() {
    let (model, inner) = (buying(), adds(1));
    let inner_agent = ReactAgent::builder(inner.clone()).tools(calculator()).limits(max_requests(1));
    let agent = parent(&model, inner_agent.build().unwrap(), max_requests(3));
    let answer = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.usage.requests), ("Bought.", 3));
    assert_eq!(
        results(answer.transcript.messages()),
        ["the agent did not finish: the limit of 1 model requests is reached"]
    );
}

/// Parallel children share the budget of their parent. Together, they make no request too many.
#[tokio::test]
async fn parallel_children_share_the_budget() {
    for limit in 2..8 {
        let model = ScriptedModel::new().reply_calls([
            ("1", "buy", r#"{"task":"A pen."}"#),
            ("2", "sell", r#"{"task":"A pen."}"#),
            ("3", "rent", r#"{"task":"A pen."}"#),
        ]);
        // The children share a script, and none of them ends by itself.
        let inner = adds(limit - 1);
        let tools = ["buy", "sell", "rent"]
            .into_iter()
            .fold(Toolset::new(), |tools, name| tools.with_tool(child(&inner).into_tool(name, "")));
        let agent =
            ReactAgent::builder(model.clone()).tools(tools).limits(max_requests(limit)).build().unwrap();
        let error = agent.run("Trade.").await.unwrap_err();
        assert_limit(&error, Limit::Requests(limit));
        let made = u64::try_from(inner.requests().len() + model.requests().len()).unwrap();
        assert_eq!((made, error.usage.requests), (u64::from(limit), u64::from(limit)));
    }
}

#[tokio::test]
async fn grandchild_is_stopped_by_the_limit_of_the_outermost_run() {
    let (model, middle, inner) = (buys(), buys(), adds(2));
    let middle_agent = parent(&middle, child(&inner), RunLimits::NONE);
    let error = parent(&model, middle_agent, max_requests(4)).run("Buy a pen.").await.unwrap_err();
    assert_limit(&error, Limit::Requests(4));
    let made = [&model, &middle, &inner].map(|model| model.requests().len());
    assert_eq!((made, error.usage.requests), ([1, 1, 2], 4));
}

/// The calls of a child count before they run. A forbidden call of the child gets a result, and the
/// parent ends with its own limit.
#[tokio::test]
async fn calls_of_a_child_count() {
    let (model, inner) = (buys(), adds(3));
    let error = parent(&model, child(&inner), max_tool_calls(3)).run("Buy a pen.").await.unwrap_err();
    assert_limit(&error, Limit::ToolCalls(3));
    assert_eq!((model.requests().len(), inner.requests().len()), (1, 3));
    assert_eq!(
        results(error.transcript.messages()),
        ["the agent did not finish: the limit of 3 tool calls is reached"]
    );
    let answer = parent(&buying(), child(&adding(3)), max_tool_calls(4)).run("Buy a pen.").await.unwrap();
    assert_eq!(answer.text().unwrap(), "Bought.");
}

/// At the limit of calls, a child with [`LimitAction::Answer`] answers, and so does its parent.
#[tokio::test]
async fn child_answers_at_the_call_limit_of_its_parent() {
    let (model, inner) = (buying(), adding(2));
    let inner_agent =
        ReactAgent::builder(inner.clone()).tools(calculator()).limit_action(LimitAction::Answer);
    let tool = inner_agent.build().unwrap().into_tool("buy", "");
    let agent = parent_with(&model, tool, max_tool_calls(2), LimitAction::Answer);
    let answer = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("Bought.", StopReason::LimitReached));
    assert_eq!((model.requests().len(), inner.requests().len()), (2, 3));
    assert_eq!(
        results(answer.transcript.messages()),
        ["Added.\nWarning: the agent reached a limit and answered early"]
    );
}

fn reply_of(calls: [(&str, &str, &str); 1], usage: Usage) -> ChatResponse {
    let calls = calls.map(|(id, name, arguments)| haft_core::ToolCall::new(id, name, arguments));
    let message = haft_core::message::AssistantMessage { tool_calls: calls.to_vec(), ..Default::default() };
    ChatResponse { usage, ..ChatResponse::new(message) }
}

#[tokio::test]
async fn tokens_and_cost_of_a_child_count_while_it_runs() {
    let table = || Prices::new().with_price("scripted", Price::new(1.0, 1.0));
    let limits = [
        (RunLimits { total_tokens: Some(100), ..RunLimits::NONE }, Limit::TotalTokens(100)),
        (RunLimits { cost: Some(Cost::new(0.0001)), ..RunLimits::NONE }, Limit::Cost(Cost::new(0.0001))),
    ];
    for (limits, expected) in limits {
        let inner = ScriptedModel::new()
            .reply(reply_of([("1", "add", r#"{"x":1,"y":1}"#)], Usage::one_request(80, 20)));
        let priced = ReactAgent::new(inner.clone().priced(table()), calculator()).unwrap();
        let model = ScriptedModel::new()
            .reply(reply_of([("1", "buy", r#"{"task":"A pen."}"#)], Usage::one_request(1, 1)));
        let agent = ReactAgent::builder(model.clone().priced(table()))
            .tools(Toolset::new().with_tool(priced.into_tool("buy", "")))
            .limits(limits)
            .build()
            .unwrap();
        let error = agent.run("Buy a pen.").await.unwrap_err();
        assert_limit(&error, expected);
        assert_eq!((model.requests().len(), inner.requests().len(), error.usage.total_tokens()), (1, 1, 102));
    }
}

/// Creates the tool `buy()`, which runs `agent` with the context of the call.
fn by_hand(agent: impl Agent + 'static) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::new("buy").unwrap(), Schema::object())
        .map_policy(|policy| policy.with_on_cancel(OnCancel::Subtasks));
    let agent = Arc::new(agent);
    DynamicTool::new(definition, move |_, cx: haft_core::ToolContext| {
        let agent = Arc::clone(&agent);
        async move {
            let input = RunInput::new("Buy a pen.").with_context(cx.run_context().clone());
            let output = agent.run(input).await.map_err(|error| ToolError::failed(error.to_string()))?;
            Ok::<_, ToolError>(output.text().unwrap().to_owned())
        }
    })
}

/// An agent that a tool runs by hand, a router and a hand-off group count like an agent used as a
/// tool.
#[tokio::test]
async fn every_kind_of_nested_run_counts() {
    let route = || Route::new("shop", "Buys things.").with_keywords(["pen"]);
    let tool = |kind: &str, inner: &ScriptedModel| -> Arc<dyn Tool> {
        let agents = [("shop", child(inner))];
        match kind {
            "agent" => Arc::new(child(inner).into_tool("buy", "")),
            "by hand" => Arc::new(by_hand(child(inner))),
            "router" => {
                Arc::new(Router::new(RouteTable::new([route()]), agents).unwrap().into_tool("buy", ""))
            }
            _ => {
                let (bank, other) = (Route::new("bank", "Pays."), child(&ScriptedModel::new()));
                let agents = agents.into_iter().chain([("bank", other)]);
                let group = HandoffGroup::new(RouteTable::new([route(), bank]), agents).unwrap();
                Arc::new(group.into_tool("buy", ""))
            }
        }
    };
    for kind in ["agent", "by hand", "router", "group"] {
        for (limit, made) in [(2, 1), (3, 2)] {
            let inner = if made == 1 { adds(1) } else { adding(1) };
            let model = buys();
            let tools = tool(kind, &inner);
            let agent = ReactAgent::builder(model.clone())
                .tools(Toolset::new().with_tools([tools]))
                .limits(max_requests(limit))
                .build()
                .unwrap();
            let error = agent.run("Buy a pen.").await.unwrap_err();
            assert_limit(&error, Limit::Requests(limit));
            let requests = (model.requests().len(), inner.requests().len(), error.usage.requests);
            assert_eq!(requests, (1, made, u64::from(limit)), "{kind}");
        }
    }
}

/// The requests and calls of a suspended child count once, also after it was resumed.
#[tokio::test]
async fn suspended_child_counts_once() {
    for (limit, ends) in [(3, false), (4, true)] {
        let paying = haft_core::tool::ToolPolicy { requires_approval: true, ..Default::default() };
        let pay = haft_core::ToolExt::with_definition(add_tool(), |it| it.with_policy(paying));
        let inner = adding(1);
        let inner_agent = ReactAgent::new(inner.clone(), Toolset::new().with_tool(pay)).unwrap();
        let model = if ends { buying() } else { buys() };
        let agent = parent(&model, inner_agent, RunLimits { tool_calls: Some(2), ..max_requests(limit) });
        let suspended = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap_err();
        let suspended: haft_core::agent::SuspendedRun =
            serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
        let output = agent.run(suspended.approve_all()).await;
        assert_eq!(inner.requests().len(), 2);
        match output {
            Ok(output) => {
                assert!(ends);
                assert_eq!(output.into_answer().unwrap().usage.requests, 4);
            }
            Err(error) => {
                assert!(!ends, "{error}");
                assert_limit(&error, Limit::Requests(3));
                assert_eq!(error.usage.requests, 3);
            }
        }
    }
}

/// A run that ended because of the calls of its child continues after its limit was raised.
#[tokio::test]
async fn raised_limit_continues_the_run() {
    use futures::StreamExt as _;
    let (model, inner) = (buying(), adds(2));
    let agent = parent(&model, child(&inner), max_tool_calls(2));
    let mut run = agent.create_run("Buy a pen.".into()).unwrap();
    let mut events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert_limit(&events.pop().unwrap().unwrap_err(), Limit::ToolCalls(2));
    run.set_limits(max_tool_calls(3));
    let mut events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(matches!(events.pop().unwrap().unwrap(), haft_core::RunEvent::Done { .. }));
}

/// The limits also apply to calls written as text.
#[tokio::test]
async fn limits_count_children_in_a_written_dialect() {
    let step = |tool: &str, arguments: &str| {
        format!(r#"{{"thought":"","tool_name":"{tool}","tool_args":{arguments}}}"#)
    };
    let model = ScriptedModel::new().reply_text(step("buy", r#"{"task":"A pen."}"#));
    let inner = ScriptedModel::new().reply_text(step("add", r#"{"x":1,"y":1}"#));
    let build = |model: &ScriptedModel, tools, limits| {
        ReactAgent::builder(model.clone())
            .tools(tools)
            .dialect(JsonReact::new())
            .limits(limits)
            .build()
            .unwrap()
    };
    let inner_agent = build(&inner, calculator(), RunLimits::NONE);
    let tools = Toolset::new().with_tool(inner_agent.into_tool("buy", ""));
    let error = build(&model, tools, max_requests(2)).run("Buy a pen.").await.unwrap_err();
    assert_limit(&error, Limit::Requests(2));
    assert_eq!((model.requests().len(), inner.requests().len()), (1, 1));
}
