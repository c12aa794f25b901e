//! Tests of the local model with real weights.

use haft_core::{
    ChatModel as _, Message, RunOutput,
    model::{ChatRequest, ToolChoice},
};
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

/// The grammar permits valid calls only, in any language.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_valid() {
    let Some(path) = judge::llama_cpp_model() else { return };
    let server = Catalogue::read("npm-modelcontextprotocol-server-filesystem.json");
    let (_, list) = list_over_mcp(server.tools).await;
    let model = LocalModel::open(path).await.unwrap();
    for question in [
        "Read notes.md and list the files in /srv.",
        "Rename a.txt to b.txt, please.",
        "Find every *.rs file in src, but not in target.",
        "\u{30E1}\u{30E2}\u{3092}\u{8AAD}\u{3093}\u{3067}\u{304F}\u{3060}\u{3055}\u{3044}\u{3002}",
    ] {
        let mut request = ChatRequest::new([Message::user(question)]).with_tools(list.clone());
        request.tool_choice = ToolChoice::Required;
        let calls = model.chat(&request).await.unwrap().message.tool_calls;
        assert!(!calls.is_empty(), "{question}");
        for call in calls {
            let tool = list.get(&call.name).unwrap();
            let valid = tool.definition().input_schema().validate(&call.arguments.value_or_string());
            assert!(valid.is_ok(), "{question}: {call:?}");
        }
    }
}

/// The prefix of the tools is on disk, so the next process reads only the question.
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
