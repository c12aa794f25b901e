// A program that uses the client and the types of async-openai, and has its own agent loop. haft
// adds the tools: their schemas, validation, repair, deadlines and results.
//
// OPENAI_BASE_URL=http://127.0.0.1:8080/v1 \
//     cargo xtask example async-openai-tools "How many words are in README.md?"

use std::{env, error::Error, process::ExitCode};

use async_openai::{
    Client,
    types::chat::{
        ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest,
    },
};
use haft_core::{Pipeline, Toolset, pipeline::Batch, schema::SchemaTarget, tool, toolset::ListContext};
use haft_openai::interop::{from_tool_calls, to_tool_message, to_tools};

/// Counts the words of a text file.
#[tool(blocking, read_only)]
fn count_words(
    /// Path of the file.
    path: String,
) -> std::io::Result<usize> {
    Ok(std::fs::read_to_string(path)?.split_whitespace().count())
}

const MAX_STEPS: usize = 10;

/// Sends the conversation to the model and executes the calls in its replies, until the model
/// answers. Returns the answer.
async fn answer(question: String) -> Result<String, Box<dyn Error>> {
    let model = env::var("OPENAI_MODEL").unwrap_or_else(|_| "gpt-5-mini".to_owned());
    // Install a TLS provider for the `reqwest` client of async-openai, because this program enables
    // none of its TLS features. The call fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::new();

    let pipeline = Pipeline::new();
    let tools = Toolset::new().with_tool(CountWords).list(&ListContext::default()).await;

    let mut messages: Vec<ChatCompletionRequestMessage> =
        vec![ChatCompletionRequestUserMessage::from(question).into()];
    for _ in 0..MAX_STEPS {
        let request = CreateChatCompletionRequest {
            model: model.clone(),
            messages: messages.clone(),
            tools: Some(to_tools(&tools, SchemaTarget::OpenAi)),
            ..CreateChatCompletionRequest::default()
        };
        let reply = client.chat().create(request).await?;
        let message = reply.choices.into_iter().next().ok_or("the reply has no choice")?.message;
        let Some(tool_calls) = message.tool_calls else {
            return Ok(message.content.unwrap_or_default());
        };

        let calls = from_tool_calls(&tool_calls)?;
        let assistant = ChatCompletionRequestAssistantMessage {
            tool_calls: Some(tool_calls),
            ..ChatCompletionRequestAssistantMessage::default()
        };
        messages.push(assistant.into());
        let batch = Batch::new(tools.clone(), calls);
        for outcome in pipeline.call_all(batch).await {
            let result = outcome.into_result();
            println!("{}: {}", result.name, result.model_text());
            messages.push(to_tool_message(&result).into());
        }
    }
    Err(format!("no answer after {MAX_STEPS} steps").into())
}

#[tokio::main]
async fn main() -> ExitCode {
    let question = env::args().nth(1).unwrap_or_else(|| "How many words are in Cargo.toml?".to_owned());
    match answer(question).await {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}; set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL");
            ExitCode::FAILURE
        }
    }
}
