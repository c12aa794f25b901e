//! Tests of `prepare` hooks that select the model and the dialect of a single step.

use haft_core::{
    RunInput, RunOutput, ToolExt as _, Toolset,
    agent::{AgentErrorKind, SuspendedRun},
    call::{Decision, Decisions},
    model::{ChatResponse, ModelProfile},
    tool::ToolPolicy,
    usage::{Cost, Price, Prices, Usage},
};
use haft_react::{JsonReact, ReactAgent, ReactAgentBuilder, TextReact};
use haft_testing::ScriptedModel;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, tool_without_parameters},
};

const ADD: [(&str, &str, &str); 1] = [("a", "add", r#"{"x":1,"y":1}"#)];

/// Creates a model without native calls and structured output. Its default dialect is the text
/// dialect.
fn text_model(name: &str) -> ScriptedModel {
    let profile = ModelProfile::new(name);
    ScriptedModel::new().with_profile(ModelProfile {
        supports_native_tools: false,
        supports_json_schema: false,
        ..profile
    })
}

/// Adds a hook that selects `model` for the step with the index `step`. Other steps use the model
/// of the agent.
fn with_model(agent: ReactAgentBuilder, step: u32, model: &ScriptedModel) -> ReactAgentBuilder {
    let model = model.clone();
    agent.prepare(move |mut request, cx| {
        if cx.step == step {
            request.use_model(model.clone());
        }
        async move { Ok(request) }
    })
}

#[tokio::test]
async fn step_can_use_another_model_in_its_own_dialect() {
    let main = ScriptedModel::new().reply_calls(ADD).reply_text("It is 2.");
    let other = text_model("other").reply_text("Thought: Again.\nAction: add\nArguments: {\"x\":2,\"y\":2}");
    let agent = ReactAgent::builder(main.clone()).tools(calculator());
    let agent = with_model(agent, 1, &other).build().unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("It is 2.", 2));
    assert_eq!((main.requests().len(), other.requests().len()), (2, 1));
    assert!(other.requests()[0].tools.is_empty(), "the other model must use the text dialect");
    assert_eq!(main.requests()[1].tools.len(), 1);
    // The transcript contains native calls, although the other model used the text dialect.
    expect_test::expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}
        tool: a 2
        assistant: call_2 add{"x":2,"y":2}
        tool: call_2 4
    "#]]
    .assert_eq(&message_lines(&main.requests()[1]));
    assert_paired(&answer.transcript);
}

#[tokio::test]
async fn step_has_the_price_of_its_model() {
    let reply =
        |text: &str| ChatResponse { usage: Usage::one_request(1_000_000, 0), ..ChatResponse::new(text) };
    let main = ScriptedModel::new().with_profile(ModelProfile::new("large"));
    let other = text_model("small").reply(reply("Answer: Done."));
    let prices =
        Prices::new().with_price("large", Price::new(10.0, 10.0)).with_price("small", Price::new(1.0, 1.0));
    let agent = with_model(ReactAgent::builder(main).prices(prices), 0, &other).build().unwrap();
    let answer = agent.run("Go.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.usage.cost), ("Done.", Cost::new(1.0)));
}

/// If a run is suspended in a step with another model, the run must resume with the model of the
/// agent.
#[tokio::test]
async fn suspended_run_does_not_depend_on_the_model() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tools = || Toolset::new().with_tool(add_tool().with_definition(|it| it.with_policy(policy.clone())));
    let main = ScriptedModel::new().reply_text("It is 2.");
    let other = text_model("other").reply_text("Thought: So.\nAction: add\nArguments: {\"x\":1,\"y\":1}");
    let agent = || with_model(ReactAgent::builder(main.clone()).tools(tools()), 0, &other).build().unwrap();
    let RunOutput::Suspended(suspended) = agent().run("Add.").await.unwrap() else {
        panic!("the run is not suspended")
    };
    let suspended: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let id = suspended.pending[0].call.id.clone();
    let decisions = Decisions::from([(id, Decision::approved())]);
    let answer = agent().run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "It is 2.");
    assert_paired(&answer.transcript);
}

#[tokio::test]
async fn step_can_use_another_dialect() {
    let model = ScriptedModel::new().reply_text("Answer: Two.");
    let agent = ReactAgent::builder(model.clone()).prepare(|mut request, _| async move {
        request.use_dialect(TextReact);
        Ok(request)
    });
    assert_eq!(agent.build().unwrap().run("Add.").await.unwrap().text().unwrap(), "Two.");
}

/// The JSON dialect reserves the tool name `finish`. If a hook selects this dialect for an agent
/// with such a tool, the run ends with an error, because the conflict was not visible when the
/// agent was built.
#[tokio::test]
async fn dialect_with_a_reserved_tool_name_ends_the_run() {
    let tools = Toolset::new().with_tool(tool_without_parameters("finish", || async {}));
    let agent = ReactAgent::builder(ScriptedModel::new()).tools(tools).prepare(|mut request, _| async move {
        request.use_dialect(JsonReact::new());
        Ok(request)
    });
    let error = agent.build().unwrap().run("Go.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::HookFailed { hook: "request hook", .. }), "{error:?}");
}
