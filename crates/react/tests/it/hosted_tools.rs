//! Hosted tools of an agent: requests, events and errors.

use futures::TryStreamExt as _;
use haft_core::{
    RunEvent,
    agent::AgentErrorKind,
    message::{AssistantMessage, HostedCall},
    model::{ChatResponse, HostedTool, HostedToolKind, ModelError, ModelProfile},
};
use haft_react::ReactAgent;
use haft_testing::ScriptedModel;
use serde_json::json;

fn call() -> HostedCall {
    HostedCall { output: json!("2"), ..HostedCall::new("ci_1", "code_execution") }
}

fn model() -> ScriptedModel {
    let profile =
        ModelProfile { hosted_tools: vec![HostedToolKind::CodeExecution], ..ModelProfile::new("scripted") };
    let message = AssistantMessage { hosted_calls: vec![call()], ..AssistantMessage::from("It is 2.") };
    ScriptedModel::new().with_profile(profile).reply(ChatResponse::new(message))
}

#[tokio::test]
async fn stream_has_the_calls_of_hosted_tools() {
    let model = model();
    let agent = ReactAgent::builder(model.clone()).hosted_tool(HostedTool::CodeExecution).build().unwrap();
    let events: Vec<_> = agent.stream("What is 1 + 1?").try_collect().await.unwrap();
    let hosted: Vec<_> = events
        .iter()
        .filter(|event| {
            matches!(event, RunEvent::HostedCallStarted { .. } | RunEvent::HostedCallFinished { .. })
        })
        .cloned()
        .collect();
    let started = RunEvent::HostedCallStarted { id: "ci_1".to_owned(), tool: "code_execution".to_owned() };
    assert_eq!(hosted, [started, RunEvent::HostedCallFinished { call: call() }]);
    assert_eq!(*model.requests()[0].hosted_tools, [HostedTool::CodeExecution]);
    let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
    let transcript = output.transcript().unwrap();
    let last = transcript.messages().last().unwrap();
    assert_eq!(json!(last.body())["hosted_calls"], json!([call()]));
}

#[tokio::test]
async fn model_without_the_hosted_tool_fails_the_run() {
    let model = ScriptedModel::new();
    let agent = ReactAgent::builder(model.clone()).hosted_tool(HostedTool::CodeExecution).build().unwrap();
    let error = agent.run("What is 1 + 1?").await.unwrap_err();
    assert!(matches!(&*error.kind, AgentErrorKind::Model(ModelError::Unsupported(_))), "{error}");
    assert!(model.requests().is_empty());
}
