//! Tests of evaluated prefixes that are used again: in memory, on disk, and the progress in a long
//! prompt.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::{FutureExt as _, StreamExt as _};
use haft_core::{
    ChatModel, Message, ToolDefinition, ToolError, ToolName, ToolOutput,
    model::{ChatRequest, ChatResponse},
    schema::Schema,
    tool::DynamicTool,
    toolset::ToolList,
};
use haft_local::{KnownModel, LocalModel, LocalModelBuilder, ModelEvent, PrefixCache, PromptProfile};
use serde_json::json;
use tempfile::TempDir;

use crate::tiny::TinyFile;

/// A description that makes the tool list longer than the minimum length of a stored prefix. Each
/// letter is one token.
const LONG_DESCRIPTION: &str = "Looks up a word in the dictionary of the language that the user speaks, and \
    returns its meaning, its origin, its pronunciation and three examples of its use in a sentence. If the word is \
    not in the dictionary, the result is a list of similar words. The dictionary contains no names.";

/// Creates a request for the answer to `question`, with a tool `name` and instructions.
fn request(name: &str, question: &str) -> ChatRequest {
    let schema = Schema::for_arguments(json!({"type": "object"})).unwrap();
    let definition =
        ToolDefinition::new(ToolName::new(name).unwrap(), schema).with_description(LONG_DESCRIPTION);
    let tool = DynamicTool::new(definition, |_, _| async { Ok::<_, ToolError>(ToolOutput::from("ok")) });
    let mut request = ChatRequest::new([Message::user(question)]).with_tools(ToolList::new("test", [tool]));
    request.instructions = Some(Message::system("Answer in one word.").into());
    request.settings.max_tokens = Some(12);
    request.settings.temperature = Some(0.0);
    request
}

/// Creates a builder for each prompt profile.
fn builders() -> [LocalModelBuilder; 2] {
    let examples = PromptProfile::for_model(KnownModel::default_model());
    [LocalModel::builder(), LocalModel::builder().prompt_profile(examples)]
}

struct Cache {
    folder: TempDir,
}

impl Cache {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Opens `file` as a new process would, with this cache.
    async fn open(&self, builder: &LocalModelBuilder, file: &TinyFile) -> LocalModel {
        let cache = PrefixCache::in_folder(self.folder.path().join("prefixes"));
        builder.clone().prefix_cache(cache).open(&file.path).await.unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.folder.path().join("prefixes")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

async fn chat(model: &LocalModel, request: &ChatRequest) -> ChatResponse {
    model.chat(request).await.unwrap()
}

/// The number of prompt tokens that were evaluated for `response`.
fn evaluated(response: &ChatResponse) -> u64 {
    response.usage.input_tokens - response.usage.cached_input_tokens
}

#[tokio::test]
async fn next_process_reads_only_the_question() {
    let file = TinyFile::new(0);
    for builder in builders() {
        let cache = Cache::new();
        let first = chat(&cache.open(&builder, &file).await, &request("find", "What is a fjord?")).await;
        assert_eq!(first.usage.cached_input_tokens, 0);
        assert_eq!(cache.files().len(), 1);

        let question = request("find", "Who was Kim?");
        let second = chat(&cache.open(&builder, &file).await, &question).await;
        assert!(evaluated(&second) < 100, "{:?}", second.usage);
        let cold = chat(&builder.clone().open(&file.path).await.unwrap(), &question).await;
        assert_eq!(second.message, cold.message);
        assert_eq!(cache.files().len(), 1, "a known prefix is not written again");
    }
}

/// The stored prefix ends before the question. It must not contain the text of the user.
#[tokio::test]
async fn stored_prefix_does_not_contain_the_question() {
    let file = TinyFile::new(0);
    for builder in builders() {
        let cache = Cache::new();
        chat(&cache.open(&builder, &file).await, &request("find", "a secret")).await;
        chat(&cache.open(&builder, &file).await, &request("other", "bbbbbbbbbb")).await;
        // Each letter is one token, in 32 bits.
        let tokens = |text: &str| text.bytes().flat_map(|letter| [letter, 0, 0, 0]).collect::<Vec<_>>();
        for path in cache.files() {
            let bytes = fs::read(path).unwrap();
            let contains = |text: &str| bytes.windows(4 * text.len()).any(|part| part == tokens(text));
            assert!(contains("Looks"), "the encoding of the test is wrong");
            assert!(!contains("secret") && !contains("bbb"));
        }
    }
}

#[tokio::test]
async fn open_writes_nothing_by_default() {
    let file = TinyFile::new(0);
    let cache = Cache::new();
    let enabled = cache.open(&LocalModel::builder(), &file).await;
    let disabled = LocalModel::builder().prefix_cache(None).open(&file.path).await.unwrap();
    chat(&disabled, &request("find", "What is a fjord?")).await;
    assert!(cache.files().is_empty());
    chat(&enabled, &request("find", "What is a fjord?")).await;
    assert_eq!(cache.files().len(), 1);
}

#[tokio::test]
async fn prefix_of_a_changed_model_file_is_not_used() {
    let (first, second) = (TinyFile::new(0), TinyFile::new(1));
    let cache = Cache::new();
    let question = request("find", "What is a fjord?");
    chat(&cache.open(&LocalModel::builder(), &first).await, &question).await;
    fs::copy(&second.path, &first.path).unwrap();
    let reply = chat(&cache.open(&LocalModel::builder(), &first).await, &question).await;
    assert_eq!(reply.usage.cached_input_tokens, 0);
    assert_eq!(cache.files().len(), 2);
}

/// Several processes share the folder.
#[tokio::test]
async fn models_share_a_folder() {
    let file = TinyFile::new(0);
    let cache = Cache::new();
    let builder = LocalModel::builder();
    let (first, second) = (cache.open(&builder, &file).await, cache.open(&builder, &file).await);
    let question = request("find", "What is a fjord?");
    tokio::join!(chat(&first, &question), chat(&second, &question));
    let third = chat(&cache.open(&builder, &file).await, &question).await;
    assert!(evaluated(&third) < 100, "{:?}", third.usage);
}

/// Two agents with different tools take turns. Each request must evaluate only its new tokens.
#[tokio::test]
async fn agents_that_take_turns_keep_their_prefixes() {
    let file = TinyFile::new(0);
    for builder in builders() {
        let model = builder.clone().open(&file.path).await.unwrap();
        let requests = [request("find", "What is a fjord?"), request("translate", "What is a fjord?")];
        let mut expected = Vec::new();
        for request in &requests {
            expected.push(chat(&model, request).await.message);
        }
        for _ in 0..2 {
            for (request, expected) in requests.iter().zip(&expected) {
                let reply = chat(&model, request).await;
                assert!(evaluated(&reply) < 70, "{:?}", reply.usage);
                assert_eq!(&reply.message, expected);
            }
        }
        let forgetful = builder.conversation_memory(0).open(&file.path).await.unwrap();
        chat(&forgetful, &requests[0]).await;
        chat(&forgetful, &requests[1]).await;
        assert!(evaluated(&chat(&forgetful, &requests[0]).await) > 200);
    }
}

#[tokio::test]
async fn progress_in_a_long_prompt_is_reported() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&events);
    let record = move |event: &ModelEvent<'_>| {
        if let ModelEvent::Reading { done, total } = event {
            log.lock().unwrap().push((*done, *total));
        }
    };
    let file = TinyFile::new(0);
    let model = LocalModel::builder().on_event(record).open(&file.path).await.unwrap();
    let reply = chat(&model, &request("find", "What is a fjord?")).await;
    let reported = std::mem::take(&mut *events.lock().unwrap());
    let total = reply.usage.input_tokens as usize;
    assert!(reported.len() > 3 && reported.is_sorted(), "{reported:?}");
    assert_eq!((reported.first(), reported.last()), (Some(&(0, total)), Some(&(total, total))));

    // The prompt of the second request is in the cache, and the third prompt is short.
    chat(&model, &request("find", "What is a fjord?")).await;
    let mut short = ChatRequest::new([Message::user("Hello?")]);
    short.settings.max_tokens = Some(1);
    chat(&model, &short).await;
    assert!(events.lock().unwrap().is_empty());
}

/// A queued request whose reply was dropped is removed from the queue, so its prompt is not
/// evaluated.
#[tokio::test]
async fn dropped_request_in_the_queue_costs_nothing() {
    let reads = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&reads);
    let count = move |event: &ModelEvent<'_>| {
        if matches!(event, ModelEvent::Reading { done: 0, .. }) {
            *counter.lock().unwrap() += 1;
        }
    };
    let file = TinyFile::new(0);
    let model = LocalModel::builder().on_event(count).open(&file.path).await.unwrap();
    let (first, second) = (request("find", "What is a fjord?"), request("other", "What is a fjord?"));
    let mut running = model.stream(&first);
    assert!(running.next().now_or_never().is_none());
    let mut dropped = model.stream(&second);
    assert!(dropped.next().now_or_never().is_none());
    drop(dropped);
    running.for_each(|event| async { drop(event.unwrap()) }).await;
    let mut short = ChatRequest::new([Message::user("Hello?")]);
    short.settings.max_tokens = Some(1);
    chat(&model, &short).await;
    assert_eq!(*reads.lock().unwrap(), 1);
}
