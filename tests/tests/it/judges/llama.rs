//! Tests with `xllamacpp`, the llama.cpp server. It runs a real model.

use std::sync::Arc;

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message, RunInput, Schema, ToolName, Toolset,
    agent::RunLimits,
    model::{ChatEvent, ChatRequest, ChatSettings, ModelError, ResponseFormat, ToolChoice},
    schema::RepairKind,
    tool,
    toolset::ListContext,
};
use haft_openai::{ChatCompletions, Provider, Responses};
use haft_react::{ReactAgent, dialect::AutoDialect};
use haft_tests::judge;
use serde_json::{Value, json};

use super::connected_to;
use crate::Add;

/// All checks are in one test, because the server handles only one request at a time. The content
/// of the replies is not checked, because the small model may write wrong answers.
#[tokio::test(flavor = "multi_thread")]
async fn replies_errors_and_schemas_are_read() {
    let Some(server) = judge::start_llama_cpp(env!("CARGO_TARGET_TMPDIR")) else { return };
    let chat =
        connected_to(ChatCompletions::builder("qwen"), &server).provider(Provider::LlamaCpp).build().unwrap();
    let responses = connected_to(Responses::builder("qwen"), &server).build().unwrap();
    let settings = ChatSettings { temperature: Some(0.0), max_tokens: Some(16), ..ChatSettings::default() };
    let ask =
        |text: &str| ChatRequest { settings: settings.clone(), ..ChatRequest::new([Message::user(text)]) };
    let models: [&dyn ChatModel; 2] = [&chat, &responses];
    for model in models {
        let hello = ask("Say hello.");
        let whole = model.chat(&hello).await.unwrap();
        let events: Vec<_> = model.stream(&hello).try_collect().await.unwrap();
        let Some(ChatEvent::Finished(streamed)) = events.last() else { panic!("{events:?}") };
        assert!(!whole.message.text().is_empty());
        assert_eq!(streamed.message.text(), whole.message.text());
        assert_eq!(streamed.usage.output_tokens, whole.usage.output_tokens);
        assert!(whole.usage.input_tokens > 0);

        // llama.cpp sends numbers as error codes, unlike OpenAI.
        let long = ask(&"word ".repeat(4000));
        let whole = model.chat(&long).await.unwrap_err();
        let streamed = model.stream(&long).try_collect::<Vec<_>>().await.unwrap_err();
        for error in [whole, streamed] {
            assert!(matches!(error, ModelError::ContextTooLong(_)), "{error:?}");
        }
    }

    let properties = json!({"city": {"type": "string", "maxLength": 8}});
    let schema = json!({"type": "object", "properties": properties, "required": ["city"]});
    let name = ToolName::new("answer").unwrap();
    let format = ResponseFormat::JsonSchema { name, schema: Schema::new(schema).unwrap() };
    let request = ChatRequest { response_format: format, ..ask("The capital of France?") };
    let reply = chat.chat(&request).await.unwrap();
    let fitting: Value = serde_json::from_str(&reply.message.text()).unwrap();
    assert!(fitting["city"].is_string(), "{fitting}");

    // llama.cpp ignores the tool name in `tool_choice`. haft therefore sends only the required
    // tool.
    let tools = Toolset::new().with_tool(Add).list(&ListContext::default()).await;
    let tool_choice = ToolChoice::Tool(ToolName::new("add").unwrap());
    let request = ChatRequest { tool_choice, ..ask("What is 17 plus 25?").with_tools(tools) };
    let reply = chat.chat(&request).await.unwrap();
    assert!(reply.message.tool_calls.iter().all(|call| call.name == "add"), "{reply:?}");

    written_calls_are_executed(chat).await;
}

/// Multiplies two numbers.
#[tool]
fn multiply(x: i64, y: i64) -> i64 {
    x * y
}

/// The model of the server writes its calls as JSON in the text of the reply. Such a call is
/// executed in the default dialect. With [`AutoDialect`], the run then ends with an answer: in the
/// default dialect, this small model repeats the call.
async fn written_calls_are_executed(model: ChatCompletions) {
    let settings = ChatSettings { temperature: Some(0.0), max_tokens: Some(200), ..ChatSettings::default() };
    let model: Arc<dyn ChatModel> = Arc::new(model);
    let builder = || {
        let tools = Toolset::new().with_tool(Multiply);
        ReactAgent::builder(Arc::clone(&model)).tools(tools).settings(settings.clone())
    };
    let question = "What is 17 times 25?";
    let one_request = RunLimits { requests: Some(1), ..RunLimits::default() };
    let error = builder().build().unwrap().run(RunInput::new(question).with_limits(one_request)).await;
    let output = builder().dialect(AutoDialect::new()).build().unwrap().run(question).await.unwrap();
    for transcript in [&error.unwrap_err().transcript, output.transcript().unwrap()] {
        let Some(result) = transcript.results_of("multiply").next() else { panic!("{transcript:?}") };
        assert_eq!(result.model_text(), "425");
        assert!(result.repairs.iter().any(|repair| repair.kind == RepairKind::WrittenAsText), "{result:?}");
    }
    assert!(output.text().unwrap().contains("425"), "{output:?}");
}
