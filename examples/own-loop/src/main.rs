// A program that has its own agent loop, conversation and HTTP client. haft provides the tools,
// formats them for model requests, and executes the calls with its pipeline.
//
// OPENAI_BASE_URL=http://127.0.0.1:8080/v1 \
//     cargo xtask example own-loop "Which Rust files are in src?"

use std::{env, error::Error, path::Path, process::ExitCode};

use haft_core::{Json, Message, Pipeline, Toolset, pipeline::Batch, tool, toolset::ListContext};
use haft_openai::{decode_message, encode_message, encode_tools};
use serde_json::{Value, json};

/// Lists the files of a folder whose names match a pattern.
#[tool(blocking, read_only)]
fn search_files(
    /// The folder, for example src.
    directory: String,
    /// The pattern of the names: * matches any characters, ** any folders.
    #[tool(examples = ["*.rs", "**/*.md"])]
    pattern: String,
    /// Maximum number of results.
    #[tool(default = 100, range = 1..=1000)]
    max_results: usize,
) -> Result<Json<Vec<String>>, Box<dyn Error + Send + Sync>> {
    let directory = glob::Pattern::escape(directory.trim_end_matches('/'));
    let found = glob::glob(&format!("{directory}/{pattern}"))?;
    let names = found.filter_map(Result::ok).map(|path| path.display().to_string());
    Ok(Json(names.take(max_results).collect()))
}

const MAX_STEPS: usize = 10;

/// Sends the conversation to the model and executes the calls in its replies, until the model
/// answers. Returns the answer.
async fn answer(question: &str) -> Result<String, Box<dyn Error>> {
    let base = env::var("OPENAI_BASE_URL").unwrap_or_else(|_| "https://api.openai.com/v1".to_owned());
    let model = env::var("OPENAI_MODEL").unwrap_or_else(|_| "gpt-5-mini".to_owned());
    let key = env::var("OPENAI_API_KEY").unwrap_or_default();

    let client = reqwest::Client::new();
    let pipeline = Pipeline::new();
    let tool_list = Toolset::new().with_tool(SearchFiles).list(&ListContext::default()).await;
    let mut messages = vec![encode_message(&Message::user(question))];
    for _ in 0..MAX_STEPS {
        let request = json!({"model": model, "messages": messages, "tools": encode_tools(&tool_list)});
        let request =
            client.post(format!("{base}/chat/completions")).bearer_auth(&key).body(request.to_string());
        let reply = request.header("content-type", "application/json").send().await?.error_for_status()?;
        let reply: Value = serde_json::from_slice(&reply.bytes().await?)?;

        let reply_message = decode_message(&reply["choices"][0]["message"])?;
        if reply_message.tool_calls.is_empty() {
            return Ok(reply_message.text());
        }
        let calls = reply_message.tool_calls.clone();
        messages.push(encode_message(&Message::assistant(reply_message)));
        let batch = Batch::new(tool_list.clone(), calls);
        for outcome in pipeline.call_all(batch).await {
            let result = outcome.into_result();
            println!("{}: {}", result.name, result.model_text());
            messages.push(encode_message(&Message::tool(result)));
        }
    }
    Err(format!("no answer after {MAX_STEPS} steps").into())
}

#[tokio::main]
async fn main() -> ExitCode {
    // Install a TLS provider for `reqwest::Client::new()`. The call fails only if a provider is
    // already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let question = env::args().nth(1).unwrap_or_else(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        format!("Which Rust files are in {}?", folder.display())
    });
    match answer(&question).await {
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
