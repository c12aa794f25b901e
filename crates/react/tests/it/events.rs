//! One stream of events, the same in every dialect.

use std::sync::Arc;

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    Agent as _, Answer, Answers, AssistantMessage, ChatResponse, DynamicTool, Policy, Progress, RunEvent,
    RunInput, RunOutput, Tool as _, ToolCall, ToolExt as _, Toolset, json, testing::ScriptedModel,
};
use haft_react::{Dialect, JsonReact, NativeCalls, ReactAgent, TextReact};

use crate::tools::plain;

fn replies(dialect: &str) -> [ChatResponse; 3] {
    let step = |tool: &str, arguments: serde_json::Value| match dialect {
        "native" => {
            let mut said =
                AssistantMessage { reasoning: Some("So.".to_owned()), ..AssistantMessage::default() };
            match tool {
                "finish" => said.content = vec!["It is done.".into()],
                tool => said.tool_calls = vec![ToolCall::new("", tool, arguments.to_string())],
            }
            ChatResponse::new(said)
        }
        "json" => ChatResponse::new(
            json!({"thought": "So.", "tool_name": tool, "tool_args": arguments}).to_string(),
        ),
        _ => ChatResponse::new(format!("Thought: So.\nAction: {tool}\nArguments: {arguments}")),
    };
    [step("look", json!({})), step("ask", json!({})), step("finish", json!({"answer": "It is done."}))]
}

/// The types of events, those that are repeated once.
async fn types(agent: &ReactAgent, input: RunInput) -> (String, RunOutput) {
    let events: Vec<_> = agent.stream(input).try_collect().await.unwrap();
    let mut types: Vec<_> = events.iter().map(|it| json!(it)["type"].as_str().unwrap().to_owned()).collect();
    types.dedup();
    let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
    (types.join(" "), output.clone())
}

/// BEHAVIOUR C77: thoughts, answers, calls and their progress, what waits and what it cost, in every dialect alike.
#[tokio::test]
async fn one_stream_tells_all_that_happens_in_every_dialect() {
    let dialects: [Arc<dyn Dialect>; 3] =
        [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(TextReact)];
    for dialect in dialects {
        let look = DynamicTool::new(plain("look", || async {}).definition().clone(), |_, cx| async move {
            cx.report(Progress { progress: 0.5, ..Progress::default() });
            "seen"
        });
        let policy = Policy { requires_approval: true, ..Policy::default() };
        let ask = plain("ask", || async { "asked" }).with_definition(|it| it.with_policy(policy));
        let model = replies(dialect.name()).into_iter().fold(ScriptedModel::new(), ScriptedModel::reply);
        let agent = ReactAgent::builder(model).tools(Toolset::new().with(look).with(ask)).dialect(dialect);
        let agent = agent.build().unwrap();

        let (first, output) = types(&agent, "Go.".into()).await;
        expect![[r#"request_started thought_delta request_finished call_started call_progress call_finished request_started thought_delta request_finished call_started call_pending done"#]].assert_eq(&first);
        let Err(parked) = output.into_answer() else { panic!("it waits") };
        let answers = Answers::from([(parked.pending[0].call.id.clone(), Answer::approved())]);
        let (second, output) = types(&agent, RunInput::resume(parked, answers)).await;
        expect![[
            r#"call_started call_finished request_started thought_delta text_delta request_finished done"#
        ]]
        .assert_eq(&second);
        assert_eq!(output.text(), "It is done.");
        assert_eq!(output.results_of("look").count(), 1);
    }
}
