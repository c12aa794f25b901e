//! Tests of HTTP models with third-party servers, and of the local model with real weights. `cargo
//! xtask setup` installs the servers and the weights.

mod aimock;
mod google_genai;
mod llama;
mod llmock;
mod local;
mod schemathesis;

use std::{path::PathBuf, time::Duration};

use haft_core::{RunEvent, Toolset};
use haft_openai::{ChatCompletions, ModelBuilder, Responses};
use haft_react::ReactAgent;
use haft_tests::judge::{self, Server};

use crate::Add;

/// Returns the folder of an installed server, as [`haft_tests::judge::installed_folder`] does.
fn installed_folder(name: &str) -> Option<PathBuf> {
    judge::installed_folder(env!("CARGO_TARGET_TMPDIR"), name)
}

/// Creates two agents with the tool `add`. The first uses OpenAI's Chat Completions API, and the
/// second uses its Responses API.
fn agents(server: &Server) -> [ReactAgent; 2] {
    let tools = || Toolset::new().with_tool(Add);
    let (chat, responses) = (ChatCompletions::builder("gpt-4o"), Responses::builder("gpt-4o"));
    [
        ReactAgent::new(connected_to(chat, server).build().unwrap(), tools()).unwrap(),
        ReactAgent::new(connected_to(responses, server).build().unwrap(), tools()).unwrap(),
    ]
}

fn connected_to<M>(builder: ModelBuilder<M>, server: &Server) -> ModelBuilder<M> {
    builder.base_url(server.base_url()).api_key("sk-test").first_retry_wait(Duration::from_millis(100))
}

/// Runs an agent with `question` and returns its answer. If `is_streamed` is `true`, asserts that
/// the concatenated deltas end with the answer.
async fn ask(agent: &ReactAgent, question: &str, is_streamed: bool) -> String {
    use futures::TryStreamExt as _;
    if !is_streamed {
        return agent.run(question).await.unwrap().text().unwrap().to_owned();
    }
    let events: Vec<_> = agent.stream(question).try_collect().await.unwrap();
    let deltas = events.iter().filter_map(|event| match event {
        RunEvent::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    let streamed: String = deltas.collect();
    let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
    assert!(streamed.ends_with(output.text().unwrap()), "{streamed:?}");
    output.text().unwrap().to_owned()
}
