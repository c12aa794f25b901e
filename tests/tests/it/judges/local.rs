//! Tests of the local model with real weights.

use haft_core::RunOutput;
use haft_local::{LocalModel, PrefixCache};
use haft_react::ReactAgent;
use haft_tests::judge;
use haft_tools::{BuiltinConfig, builtin};

use crate::catalogues::{Catalogue, list_over_mcp};

/// The model has the tools of `haft run` and of the filesystem server. None of them fits, although
/// one writes files and another returns the time.
#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_fitting_tool_are_answered() {
    let Some(path) = judge::llama_cpp_model() else { return };
    let server = Catalogue::read("npm-modelcontextprotocol-server-filesystem.json");
    let (files, list) = list_over_mcp(server.tools).await;
    assert!(list.names().any(|name| name.as_str() == "write_file"));
    let model = LocalModel::open(path).await.unwrap();
    let tools = builtin(&BuiltinConfig::default()).with_source(files);
    let agent = ReactAgent::new(model, tools).unwrap();
    for question in ["Write a haiku about rust.", "What is the capital of France?"] {
        let output = agent.run(question).await.unwrap();
        let messages = output.transcript().unwrap().messages();
        assert!(messages.iter().all(|message| message.tool_calls().is_empty()), "{messages:?}");
        let answer = output.text().unwrap();
        assert!(!answer.trim().is_empty(), "{answer}");
        assert!(!question.contains("France") || answer.contains("Paris"), "{answer}");
    }
}

/// The prefix of the tools is on disk, so the next process reads only the question. `cargo xtask
/// bench local` measures the time.
#[tokio::test(flavor = "multi_thread")]
async fn second_start_reads_only_the_question() {
    let Some(path) = judge::llama_cpp_model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Catalogue::read("npm-modelcontextprotocol-server-filesystem.json");
    let (files, _) = list_over_mcp(server.tools).await;
    let tools = builtin(&BuiltinConfig::default()).with_source(files);
    let mut evaluated = Vec::new();
    for question in ["What is the capital of France?", "Who wrote Don Quixote?"] {
        let cache = PrefixCache::in_folder(folder.path());
        let model = LocalModel::builder().prefix_cache(cache).open(&path).await.unwrap();
        let output = ReactAgent::new(model, tools.clone()).unwrap().run(question).await.unwrap();
        let RunOutput::Answer(answer) = output else { panic!("{output:?}") };
        evaluated.push(answer.usage.input_tokens - answer.usage.cached_input_tokens);
    }
    assert!(evaluated[0] > 1000 && evaluated[1] < 50, "{evaluated:?}");
}
