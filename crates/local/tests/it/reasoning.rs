//! Tests of reasoning before replies.

use futures::StreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, ToolName, ToolOutput, ToolResult,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ResponseFormat, ToolChoice},
};
use haft_local::LocalModel;
use serde_json::json;

use crate::calls::{check_arguments, object, request};
use crate::scripted::{END, ScriptedFile};
use crate::tiny::TinyFile;

const QWEN3: &str = include_str!("../templates/qwen3.jinja");
const ALWAYS_THINKS: &str = include_str!("../templates/always_thinks.jinja");
const TAGS: [&str; 2] = ["<think>", "</think>"];
const CALL_TAGS: [&str; 4] = ["<think>", "</think>", "<tool_call>", "</tool_call>"];

fn question() -> ChatRequest {
    ChatRequest::new([Message::user("What is two and two?")])
}

/// Streams the reply to `request` and checks that the deltas are the reply.
async fn stream(model: &LocalModel, request: &ChatRequest) -> ChatResponse {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut events = model.stream(request);
    while let Some(event) = events.next().await {
        match event.unwrap() {
            ChatEvent::TextDelta { text: delta } => text.push_str(&delta),
            ChatEvent::ReasoningDelta { text: delta } => {
                assert_eq!(text, "", "reasoning precedes the text");
                reasoning.push_str(&delta);
            }
            ChatEvent::Finished(reply) => {
                assert_eq!(reply.message.text(), text);
                assert_eq!(reply.message.reasoning.clone().unwrap_or_default(), reasoning);
                return *reply;
            }
            _ => {}
        }
    }
    panic!("the stream has no end");
}

async fn thinking(file: &ScriptedFile) -> LocalModel {
    file.load_with(LocalModel::builder().thinking(true)).await
}

fn check(reply: &ChatResponse, reasoning: &str, text: &str) {
    assert_eq!((reply.message.reasoning.as_deref(), reply.message.text().as_str()), (Some(reasoning), text));
}

#[tokio::test]
async fn enabled_reasoning_precedes_the_text() {
    let chain = ["\n", "Two ", "things.", "</think>", "Four.", END];
    let file = ScriptedFile::new(QWEN3, &TAGS, &[&chain]);
    let reply = stream(&thinking(&file).await, &question()).await;
    check(&reply, "Two things.", "Four.");
    assert_eq!((reply.usage.reasoning_tokens, reply.usage.output_tokens), (3, 4));
}

#[tokio::test]
async fn reasoning_is_disabled_by_default() {
    let file = ScriptedFile::new(QWEN3, &TAGS, &[&["\n", "Four.", END]]);
    let reply = stream(&file.load().await, &question()).await;
    assert_eq!((reply.message.reasoning, reply.usage.reasoning_tokens), (None, 0));
}

#[tokio::test]
async fn template_that_opens_the_block_always_has_reasoning() {
    let chain = ["\n", "Two things.", "</think>", "Four.", END];
    let file = ScriptedFile::new(ALWAYS_THINKS, &TAGS, &[&chain]);
    for model in [file.load().await, thinking(&file).await] {
        check(&stream(&model, &question()).await, "Two things.", "Four.");
    }
}

#[tokio::test]
async fn model_may_open_the_block() {
    let chain = ["\n", "<think>", "Two things.", "</think>", "Four.", END];
    let file = ScriptedFile::new(QWEN3, &TAGS, &[&chain]);
    check(&stream(&file.load().await, &question()).await, "Two things.", "Four.");
}

/// Some vocabularies do not contain the tags, so the model writes them in pieces.
#[tokio::test]
async fn tags_may_consist_of_several_tokens() {
    let exact = ["\n", "<th", "ink>", "Two things.", "</thi", "nk>", "Four.", END];
    let file = ScriptedFile::new(QWEN3, &[], &[&exact]);
    check(&stream(&file.load().await, &question()).await, "Two things.", "Four.");
    let with_text = ["\n", "<th", "ink>\n", "Two things.", "\n</thi", "nk> Fo", "Four.", END];
    let file = ScriptedFile::new(QWEN3, &[], &[&with_text, &[">", "Two things."]]);
    let reply = stream(&file.load().await, &ChatRequest { settings: limit(40), ..question() }).await;
    assert!(reply.message.reasoning.unwrap().starts_with("Two things."));
}

fn limit(max_tokens: u32) -> haft_core::model::ChatSettings {
    haft_core::model::ChatSettings { max_tokens: Some(max_tokens), ..Default::default() }
}

#[tokio::test]
async fn mistral_has_tags_of_its_own() {
    let template = format!("{}{{# [THINK] [/THINK] #}}", include_str!("../templates/name_args.jinja"));
    let chain = ["[/INST]", "[THINK]", "Two things.", "[/THINK]", "Four.", END];
    let specials = ["[INST]", "[/INST]", "[THINK]", "[/THINK]"];
    let file = ScriptedFile::new(&template, &specials, &[&chain]);
    for model in [file.load().await, thinking(&file).await] {
        check(&stream(&model, &question()).await, "Two things.", "Four.");
    }
}

#[tokio::test]
async fn tag_in_the_text_opens_no_reasoning() {
    let chain = ["\n", "Four.", "<think>", " Really.", END];
    let file = ScriptedFile::new(QWEN3, &TAGS, &[&chain]);
    let reply = stream(&file.load().await, &question()).await;
    assert_eq!((reply.message.text().as_str(), reply.message.reasoning), ("Four. Really.", None));
}

#[tokio::test]
async fn reply_that_ends_within_the_reasoning_is_continued() {
    let file = ScriptedFile::new(QWEN3, &TAGS, &[&["\n", "Two things.", END], &["</think>", "Four.", END]]);
    check(&stream(&thinking(&file).await, &question()).await, "Two things.", "Four.");
}

#[tokio::test]
async fn endless_reasoning_is_ended() {
    let file = ScriptedFile::new(QWEN3, &TAGS, &[&["\n", "a", "a"], &["</think>", "Four.", END]]);
    let model = thinking(&file).await;
    // A text that repeats itself ends after 160 tokens.
    check(&stream(&model, &question()).await, &"a".repeat(160), "Four.");
    let limited = ChatRequest { settings: limit(5), ..question() };
    let reply = stream(&model, &limited).await;
    check(&reply, "aaaaa", "");
    assert_eq!(reply.finish_reason, FinishReason::Length);
}

#[tokio::test]
async fn calls_and_json_follow_the_reasoning() {
    let chain = ["\n", "Two things.", "</think>", "I look.", "<tool_call>"];
    let file = ScriptedFile::new(QWEN3, &CALL_TAGS, &[&chain]);
    let model = thinking(&file).await;
    let schema = object(json!({"at": {"const": "a \"b\"\n\u{e9}"}}));
    for (choice, text) in [(ToolChoice::Auto, "I look."), (ToolChoice::Required, "")] {
        let request = request(choice, &schema);
        let reply = stream(&model, &request).await;
        check(&reply, "Two things.", text);
        assert_eq!(reply.message.tool_calls.len(), 1);
        check_arguments(&request, &reply, "a constant");
    }
    let json = ChatRequest {
        response_format: ResponseFormat::JsonSchema {
            name: ToolName::new("place").unwrap(),
            schema: Schema::new(schema.clone()).unwrap(),
        },
        ..question()
    };
    let reply = stream(&model, &json).await;
    assert_eq!(reply.message.reasoning.as_deref(), Some("Two things."));
    assert_eq!(reply.message.text().parse::<serde_json::Value>().unwrap(), json!({"at": "a \"b\"\n\u{e9}"}));
}

/// The template of Qwen3 renders the reasoning of the turns behind the last question.
#[tokio::test]
async fn reasoning_is_in_the_next_prompt() {
    let chain = ["\n", "Two things.", "</think>", "I look.", "<tool_call>"];
    let file = ScriptedFile::new(QWEN3, &CALL_TAGS, &[&chain]);
    let model = thinking(&file).await;
    let mut request = request(ToolChoice::Required, &object(json!({"at": {"const": "x"}})));
    let reply = model.chat(&request).await.unwrap().message;
    let length = async |reasoning: Option<String>| {
        let reply = AssistantMessage { reasoning, ..reply.clone() };
        let call = &reply.tool_calls[0];
        let result = ToolResult::done(&call.id, &call.name, ToolOutput::from("ok"));
        let mut request = request.clone();
        request.settings.max_tokens = Some(1);
        request.messages =
            [Message::user("Go."), Message::assistant(reply), Message::tool(result)].into_iter().collect();
        model.chat(&request).await.unwrap().usage.input_tokens
    };
    // `<think>`, a line break, the reasoning, a line break, `</think>` and two line breaks.
    assert_eq!(length(reply.reasoning.clone()).await - length(None).await, 6 + "Two things.".len() as u64);
    request.settings.max_tokens = Some(1);
}

/// With random weights, the reasoning contains arbitrary bytes and tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_weights_make_valid_calls_after_reasoning() {
    let schema = object(json!({"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 8}}));
    let file = TinyFile::with_template(4, QWEN3, &CALL_TAGS);
    let model = LocalModel::builder().thinking(true).open(&file.path).await.unwrap();
    let mut with_calls = 0;
    for seed in 0..6 {
        let mut request = request(ToolChoice::Required, &schema);
        request.settings.temperature = Some(1.0);
        request.settings.seed = Some(seed);
        request.settings.max_tokens = Some(1000);
        let reply = stream(&model, &request).await;
        check_arguments(&request, &reply, "after reasoning");
        with_calls += usize::from(!reply.message.tool_calls.is_empty());
    }
    assert!(with_calls > 0);
}
