//! Tests with `aimock`, a server that sends fixtures in the exact format of the providers.

use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};

use haft_anthropic::Messages;
use haft_core::{
    ChatModel, Message, Toolset,
    model::{ChatRequest, ModelError},
};
use haft_gemini::{Api, Gemini};
use haft_openai::{ChatCompletions, Responses};
use haft_react::ReactAgent;
use serde_json::json;

use super::{Server, ask, connected_to, installed_folder};
use crate::Add;

fn start() -> Option<Server> {
    let place = installed_folder("aimock")?;
    // Each chunk has five UTF-16 code units, so the surrogate pair of the globe emoji is split
    // between two chunks.
    let fixtures = json!({"fixtures": [
        {"match": {"userMessage": "17 plus 25", "hasToolResult": true}, "response": {"content": "It is 42."}},
        {"match": {"userMessage": "17 plus 25"}, "response": {
            "reasoning": "I had better add.",
            "toolCalls": [{"name": "add", "arguments": {"x": 17, "y": 25}}, {"name": "add", "arguments": {"x": 1, "y": 2}}],
        }},
        {"match": {"userMessage": "hello"}, "response": {"content": "Grüße, 世界 und 🌍!"}},
        {"match": {"userMessage": "busy"}, "response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429}},
    ]});
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aimock.json");
    fs::write(&file, fixtures.to_string()).unwrap();
    let serve = |port: u16| {
        let mut command = Command::new("node");
        command.arg(place.join("node_modules/@copilotkit/aimock/dist/cli.js"));
        command.args(["--strict", "--chunk-size", "5", "--port", &port.to_string(), "--fixtures"]).arg(&file);
        command
    };
    Some(Server::start(serve, "/health"))
}

/// Returns a model for each API of the server.
fn models(server: &Server) -> [Arc<dyn ChatModel>; 5] {
    let (chat, responses) = (ChatCompletions::builder("gpt-4o"), Responses::builder("gpt-4o"));
    let wait = Duration::from_millis(100);
    let claude = Messages::builder("claude-sonnet-5-5").base_url(server.origin()).api_key("sk-test");
    let gemini = |api| {
        let gemini = Gemini::builder("gemini-3.8-flash")
            .base_url(format!("{}/v1beta", server.origin()))
            .api_key("sk-test");
        Arc::new(gemini.api(api).first_retry_wait(wait).max_retries(1).build().unwrap())
    };
    [
        Arc::new(connected_to(chat, server).max_retries(1).build().unwrap()),
        Arc::new(connected_to(responses, server).max_retries(1).build().unwrap()),
        Arc::new(claude.first_retry_wait(wait).max_retries(1).build().unwrap()),
        gemini(Api::GenerateContent),
        gemini(Api::Interactions),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_calls_tools_and_answers() {
    let Some(server) = start() else { return };
    for model in models(&server) {
        let agent = ReactAgent::new(model, Toolset::new().with_tool(Add)).unwrap();
        for is_streamed in [false, true] {
            assert_eq!(ask(&agent, "What is 17 plus 25?", is_streamed).await, "It is 42.");
            assert_eq!(ask(&agent, "Say hello!", is_streamed).await, "Grüße, 世界 und 🌍!");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_typed() {
    let Some(server) = start() else { return };
    let models = models(&server);
    let ask = async |text: &str| {
        let request = ChatRequest::new([Message::user(text)]);
        let mut errors = Vec::new();
        for model in &models {
            errors.push(model.chat(&request).await.unwrap_err());
        }
        errors
    };
    for error in ask("Are you busy?").await {
        assert!(
            matches!(&error, ModelError::RateLimited { message, .. } if message == "slow down"),
            "{error:?}"
        );
    }
    server.post("/__aimock/chaos", &json!({"malformedRate": 1}));
    for error in ask("Say hello!").await {
        assert!(matches!(error, ModelError::InvalidResponse(_) | ModelError::Truncated { .. }), "{error:?}");
    }
    server.post("/__aimock/chaos", &json!({"disconnectRate": 1}));
    for error in ask("Say hello!").await {
        assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    }
}
