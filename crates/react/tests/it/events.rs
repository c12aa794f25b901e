//! Tests of the event stream of a run.

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
use haft_react::{Dialect, Extension, JsonReact, NativeCalls, ReactAgent, TextReact, Verdict};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::tools::tool_without_parameters;

/// Returns three replies in the format of `dialect`: a call to `look`, a call to `ask`, and the
/// answer.
fn replies(dialect: &str) -> [ChatResponse; 3] {
    let step = |tool: &str, arguments: serde_json::Value| match dialect {
        "native" => {
            let mut message =
                AssistantMessage { reasoning: Some("So.".to_owned()), ..AssistantMessage::default() };
            match tool {
                "finish" => message.content = vec!["It is done.".into()],
                tool => message.tool_calls = vec![ToolCall::new("", tool, arguments.to_string())],
            }
            ChatResponse::new(message)
        }
        "json" => ChatResponse::new(
            json!({"thought": "So.", "tool_name": tool, "tool_args": arguments}).to_string(),
        ),
        _ => ChatResponse::new(format!("Thought: So.\nAction: {tool}\nArguments: {arguments}")),
    };
    [step("look", json!({})), step("ask", json!({})), step("finish", json!({"answer": "It is done."}))]
}

/// Runs `agent` on `input`. Returns the types of the emitted events, without consecutive
/// duplicates, and the output of the run.
async fn event_types(agent: &ReactAgent, input: RunInput) -> (String, RunOutput) {
    let events: Vec<_> = agent.stream(input).try_collect().await.unwrap();
    let mut types: Vec<_> = events.iter().map(|it| json!(it)["type"].as_str().unwrap().to_owned()).collect();
    types.dedup();
    let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
    (types.join(" "), output.clone())
}

/// Every dialect emits the same events for thoughts, text, calls, progress and suspensions.
#[tokio::test]
async fn events_are_the_same_in_every_dialect() {
    let dialects: [Arc<dyn Dialect>; 3] =
        [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(TextReact)];
    for dialect in dialects {
        let look = DynamicTool::new(
            tool_without_parameters("look", || async {}).definition().clone(),
            |_, cx| async move {
                cx.report_progress(Progress { progress: 0.5, ..Progress::default() });
                "seen"
            },
        );
        let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
        let ask =
            tool_without_parameters("ask", || async { "asked" }).with_definition(|it| it.with_policy(policy));
        let model = replies(dialect.name()).into_iter().fold(ScriptedModel::new(), ScriptedModel::reply);
        let agent =
            ReactAgent::builder(model).tools(Toolset::new().with_tool(look).with_tool(ask)).dialect(dialect);
        let agent = agent.build().unwrap();

        let (first, output) = event_types(&agent, "Go.".into()).await;
        expect![[r#"request_started reasoning_delta call_announced arguments_delta request_finished call_started call_progress call_finished request_started reasoning_delta call_announced arguments_delta request_finished call_started call_pending done"#]].assert_eq(&first);
        let Err(suspended) = output.into_answer() else { panic!("the run is not suspended") };
        let decisions = Decisions::from([(suspended.pending[0].call.id.clone(), Decision::approved())]);
        let (second, output) = event_types(&agent, RunInput::resume(suspended, decisions)).await;
        expect![[
            r#"call_started call_finished request_started reasoning_delta text_delta request_finished done"#
        ]]
        .assert_eq(&second);
        assert_eq!(output.text().unwrap(), "It is done.");
        assert_eq!(output.results_of("look").count(), 1);
    }
}

/// `RunOutput` returns the results of a tool by name, and each step of the answer has its tool,
/// reasoning and result.
#[tokio::test]
async fn steps_have_tool_reasoning_and_result() {
    let message = |thought: &str, calls: &[(&str, &str)]| {
        let calls = calls.iter().map(|(tool, arguments)| ToolCall::new("", *tool, *arguments));
        let reasoning = Some(thought.to_owned());
        let tool_calls = calls.collect();
        ChatResponse::new(AssistantMessage { reasoning, tool_calls, ..AssistantMessage::default() })
    };
    let draw = tool_without_parameters("draw", || async { "<svg/>" });
    let fails =
        tool_without_parameters("fail", || async { Err::<(), _>(haft_core::ToolError::failed("no ink")) });
    let model = ScriptedModel::new()
        .reply(message("Both.", &[("draw", r#"{}"#), ("fail", "{}")]))
        .reply(message("Once more.", &[("draw", "{}")]))
        .reply_text("Drawn.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(draw).with_tool(fails)).unwrap();
    let output = agent.run("Draw.").await.unwrap();

    let drawings: Vec<_> = output.results_of("draw").map(|it| it.model_text().into_owned()).collect();
    assert_eq!(drawings, ["<svg/>", "<svg/>"]);
    assert_eq!(output.results_of("paint").count(), 0);
    let steps = &output.answer().unwrap().steps;
    let step_lines: Vec<_> = steps
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
    .assert_eq(&step_lines.join("\n"));
}

/// Each rejected reply has an event with its problem, even if the reply has no text: a reply whose
/// only call a hook has removed, and an empty reply.
#[tokio::test]
async fn rejected_reply_without_text_has_an_event() {
    let model = ScriptedModel::new().reply_calls([("a", "look", "{}")]).reply_text("").reply_text("Done.");
    let tools = Toolset::new().with_tool(tool_without_parameters("look", || async { "seen" }));
    let forbid = Extension::new("forbid").after_reply(|mut reply, _| async move {
        reply.message.tool_calls.clear();
        Ok(Verdict::Replace(reply))
    });
    let agent = ReactAgent::builder(model).tools(tools).extension(forbid);
    let events: Vec<_> = agent.build().unwrap().stream("Go.").try_collect().await.unwrap();
    let problems = events.into_iter().filter_map(|event| match event {
        RunEvent::ReplyRejected { problem } => Some(problem),
        _ => None,
    });
    let removed = "Your calls are not allowed. Do something else, or answer.";
    assert_eq!(problems.collect::<Vec<_>>(), [removed, "the model gave an empty reply"]);
}
