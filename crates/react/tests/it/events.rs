//! One stream of events, the same in every dialect.

use std::sync::Arc;

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Tool as _, ToolCall, ToolExt as _, Toolset,
    call::{Decision, Decisions},
    message::AssistantMessage,
    model::ChatResponse,
    tool::{DynamicTool, Progress, ToolPolicy},
};
use haft_react::{Dialect, JsonReact, NativeCalls, ReactAgent, TextReact};
use haft_testing::ScriptedModel;
use serde_json::json;

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

/// Behaviour C77: thoughts, answers, calls and their progress, what waits and what it cost, in every dialect alike.
#[tokio::test]
async fn one_stream_tells_all_that_happens_in_every_dialect() {
    let dialects: [Arc<dyn Dialect>; 3] =
        [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(TextReact)];
    for dialect in dialects {
        let look = DynamicTool::new(plain("look", || async {}).definition().clone(), |_, cx| async move {
            cx.report(Progress { progress: 0.5, ..Progress::default() });
            "seen"
        });
        let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
        let ask = plain("ask", || async { "asked" }).with_definition(|it| it.with_policy(policy));
        let model = replies(dialect.name()).into_iter().fold(ScriptedModel::new(), ScriptedModel::reply);
        let agent = ReactAgent::builder(model).tools(Toolset::new().with(look).with(ask)).dialect(dialect);
        let agent = agent.build().unwrap();

        let (first, output) = types(&agent, "Go.".into()).await;
        expect![[r#"request_started reasoning_delta request_finished call_started call_progress call_finished request_started reasoning_delta request_finished call_started call_pending done"#]].assert_eq(&first);
        let Err(suspended) = output.into_answer() else { panic!("it waits") };
        let answers = Decisions::from([(suspended.pending[0].call.id.clone(), Decision::approved())]);
        let (second, output) = types(&agent, RunInput::resume(suspended, answers)).await;
        expect![[
            r#"call_started call_finished request_started reasoning_delta text_delta request_finished done"#
        ]]
        .assert_eq(&second);
        assert_eq!(output.text().unwrap(), "It is done.");
        assert_eq!(output.results_of("look").count(), 1);
    }
}

/// Behaviour C78: what a tool gave can be asked of the output, and each step says how it came to that.
#[tokio::test]
async fn the_steps_of_an_answer_say_what_was_called_and_why() {
    let said = |thought: &str, calls: &[(&str, &str)]| {
        let calls = calls.iter().map(|(tool, arguments)| ToolCall::new("", *tool, *arguments));
        let reasoning = Some(thought.to_owned());
        let tool_calls = calls.collect();
        ChatResponse::new(AssistantMessage { reasoning, tool_calls, ..AssistantMessage::default() })
    };
    let draw = plain("draw", || async { "<svg/>" });
    let fails = plain("fail", || async { Err::<(), _>(haft_core::ToolError::failed("no ink")) });
    let model = ScriptedModel::new()
        .reply(said("Both.", &[("draw", r#"{}"#), ("fail", "{}")]))
        .reply(said("Once more.", &[("draw", "{}")]))
        .text("Drawn.");
    let agent = ReactAgent::new(model, Toolset::new().with(draw).with(fails)).unwrap();
    let output = agent.run("Draw.").await.unwrap();

    let drawn: Vec<_> = output.results_of("draw").map(|it| it.model_text().into_owned()).collect();
    assert_eq!(drawn, ["<svg/>", "<svg/>"]);
    assert_eq!(output.results_of("paint").count(), 0);
    let steps = &output.answer().unwrap().steps;
    let told: Vec<_> = steps
        .iter()
        .map(|it| {
            let (thought, result) = (it.reasoning.clone().unwrap_or_default(), it.result.model_text());
            format!("{} {thought} {}{} -> {result}", it.step_number, it.tool_name, it.tool_args)
        })
        .collect();
    expect![[r#"
        1 Both. draw{} -> <svg/>
        1 Both. fail{} -> no ink
        2 Once more. draw{} -> <svg/>"#]]
    .assert_eq(&told.join("\n"));
}
