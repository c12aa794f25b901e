//! Tests of loading model files, and of the errors for files that cannot be loaded.

use std::fs;

use candle_core::quantized::gguf_file::Value;
use expect_test::{Expect, expect};
use haft_core::{
    ChatModel, Message,
    model::{ChatRequest, ModelError, ToolChoice},
};
use haft_local::{LoadError, LocalModel, ModelEvent};
use serde_json::json;

use crate::calls::request;
use crate::tiny::{CONTEXT_LENGTH, TinyFile};

async fn load_error(file: &TinyFile) -> LoadError {
    LocalModel::open(&file.path).await.expect_err("the file cannot be used")
}

fn check(file: &TinyFile, error: &LoadError, expected: &Expect) {
    expected.assert_eq(&error.to_string().replace(&file.folder().display().to_string(), "…"));
}

#[tokio::test]
async fn profile_has_the_capabilities_of_the_model() {
    let model = TinyFile::new(0).load().await;
    let profile = model.profile();
    assert_eq!(profile.name, "tiny");
    assert!(profile.supports_native_tools && profile.supports_json_schema && !profile.supports_images);
    assert_eq!(profile.context_window, Some(u64::from(CONTEXT_LENGTH)));
}

#[tokio::test]
async fn progress_increases_from_0_to_1() {
    let file = TinyFile::new(0);
    let (sender, fractions) = std::sync::mpsc::channel();
    let send = move |event: &ModelEvent<'_>| {
        if let ModelEvent::Loading { fraction, .. } = event {
            sender.send(*fraction).unwrap();
        }
    };
    LocalModel::builder().on_event(send).open(&file.path).await.unwrap();
    let fractions: Vec<f32> = fractions.iter().collect();
    assert_eq!(fractions.first(), Some(&0.0));
    assert_eq!(fractions.last(), Some(&1.0));
    assert!(fractions.is_sorted());
}

#[cfg(feature = "download")]
#[tokio::test]
async fn unknown_name_is_an_error_with_the_known_names() {
    let error = LocalModel::download("gpt-9").await.unwrap_err();
    let text = "there is no local model `gpt-9`: known are qwen2.5-coder-0.5b, ";
    assert!(error.to_string().starts_with(text), "{error}");
}

#[tokio::test]
async fn missing_file_is_an_error() {
    let file = TinyFile::new(0);
    fs::remove_file(&file.path).unwrap();
    let error = load_error(&file).await;
    assert!(matches!(error, LoadError::NotFound { .. }));
    check(&file, &error, &expect!["there is no model file at …/tiny.gguf: download one, or check the path"]);
}

#[tokio::test]
async fn other_file_or_folder_is_an_error() {
    let file = TinyFile::new(0);
    fs::write(&file.path, "<html>not found</html>").unwrap();
    let error = load_error(&file).await;
    assert!(matches!(error, LoadError::NotGguf { .. }), "{error}");
    assert!(matches!(LocalModel::open(file.folder()).await, Err(LoadError::NotGguf { .. })));
}

#[tokio::test]
async fn truncated_file_is_an_error() {
    let file = TinyFile::new(0);
    let whole = fs::read(&file.path).unwrap();
    fs::write(&file.path, &whole[..whole.len() - 4096]).unwrap();
    let error = load_error(&file).await;
    assert!(matches!(error, LoadError::Damaged { .. }), "{error}");
    fs::write(&file.path, &whole[..512]).unwrap();
    let error = load_error(&file).await;
    assert!(matches!(error, LoadError::NotGguf { .. } | LoadError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn unsupported_architecture_is_an_error() {
    let text = |text: &str| Value::String(text.to_owned());
    let file = TinyFile::with_metadata(0, &[("general.architecture", text("mamba"))]);
    check(
        &file,
        &load_error(&file).await,
        &expect![
            "the model architecture `mamba` is not supported: choose a file with one of qwen2, qwen3, llama, mistral3, gemma3, phi3, smollm3"
        ],
    );
    let file = TinyFile::with_metadata(0, &[("tokenizer.ggml.model", text("bert"))]);
    check(
        &file,
        &load_error(&file).await,
        &expect![
            "the model's tokenizer cannot be used: unsupported tokenizer model `bert`; choose a file with a byte-level BPE or SentencePiece tokenizer"
        ],
    );
    let file = TinyFile::with_metadata(0, &[("qwen2.expert_count", Value::U32(8))]);
    check(
        &file,
        &load_error(&file).await,
        &expect![
            "the model uses a mixture of experts, which is not supported: choose a file with a dense model of an architecture out of qwen2, qwen3, llama, mistral3, gemma3, phi3, smollm3"
        ],
    );
    let file = TinyFile::with_metadata(0, &[("qwen2.rope.scaling.type", text("dynamic"))]);
    assert!(matches!(load_error(&file).await, LoadError::UnsupportedFeature { .. }));
}

#[tokio::test]
async fn invalid_template_is_an_error() {
    let template = Value::String("{% for message in %}".to_owned());
    let file = TinyFile::with_metadata(0, &[("tokenizer.chat_template", template)]);
    assert!(matches!(load_error(&file).await, LoadError::InvalidTemplate { .. }));
}

/// Invalid sizes in a damaged header, such as a context window of 2^30 tokens, must be rejected
/// before the loader allocates memory for them.
#[tokio::test]
async fn header_with_excessive_sizes_is_an_error() {
    let damages = [
        ("qwen2.block_count", Value::U32(u32::MAX)),
        ("qwen2.block_count", Value::U32(0)),
        ("qwen2.context_length", Value::U32(1 << 30)),
        ("qwen2.attention.key_length", Value::U32(7)),
        ("qwen2.attention.key_length", Value::U32(1 << 20)),
        ("qwen2.attention.head_count", Value::U32(2)),
    ];
    for (key, value) in damages {
        let error = load_error(&TinyFile::with_metadata(0, &[(key, value)])).await;
        assert!(matches!(error, LoadError::Damaged { .. }), "{key}: {error}");
    }
}

#[tokio::test]
async fn vocabulary_without_weights_is_an_error() {
    let tokens = Value::Array(
        ["t1", "0"]
            .into_iter()
            .map(str::to_owned)
            .chain((0..600).map(|number| format!("t1{number}")))
            .map(Value::String)
            .collect(),
    );
    let merges = Value::Array(vec![Value::String("t1 0".to_owned())]);
    let metadata = [("tokenizer.ggml.tokens", tokens), ("tokenizer.ggml.merges", merges)];
    let error = load_error(&TinyFile::with_metadata(0, &metadata)).await;
    assert!(matches!(error, LoadError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn endless_template_is_stopped() {
    let begin = "{% for i in range(9999) %}";
    let template = format!("{}{}", begin.repeat(4), "{% endfor %}".repeat(4));
    let model =
        TinyFile::with_metadata(0, &[("tokenizer.chat_template", Value::String(template))]).load().await;
    let reply = model.chat(&ChatRequest::new([Message::user("Hello?")])).await;
    assert!(matches!(reply, Err(ModelError::Unsupported(_))), "{reply:?}");
}

/// GGUF files contain different names for the same pre-tokenizer, or no name. The prompts of all
/// files must have the same number of tokens, because no pre-tokenizer may insert a space. With
/// Llama 3 and Tekken, whole words that are tokens need no merges, so prompts may be shorter.
#[tokio::test]
async fn files_with_any_pre_tokenizer_make_calls() {
    let named =
        |name: &str| TinyFile::with_metadata(0, &[("tokenizer.ggml.pre", Value::String(name.to_owned()))]);
    let files = [
        TinyFile::new(0),
        named("deepseek-r1-qwen"),
        named("smaug-bpe"),
        named("smollm"),
        named("gpt-4o"),
        named("default"),
        TinyFile::without_metadata(0, "tokenizer.ggml.pre"),
        named("llama-bpe"),
        named("tekken"),
    ];
    let mut lengths = Vec::new();
    for file in files {
        let model = file.load().await;
        let request = request(ToolChoice::Required, &json!({"type": "object", "properties": {}}));
        let reply = model.chat(&request).await.unwrap();
        assert!(!reply.message.tool_calls.is_empty());
        assert_eq!(reply.message.tool_calls[0].arguments, "{}");
        lengths.push(reply.usage.input_tokens);
    }
    let (whole_words, others) = (&lengths[lengths.len() - 2..], &lengths[..lengths.len() - 2]);
    assert!(others.iter().all(|length| *length == lengths[0]), "{lengths:?}");
    assert!(whole_words.iter().all(|length| *length <= lengths[0]), "{lengths:?}");
}

/// The prompt with the demonstration exceeds the context window of 1,024 tokens, so the
/// demonstration is removed. The model must still make calls.
#[tokio::test]
async fn model_with_a_small_context_makes_calls() {
    let model =
        TinyFile::with_metadata(0, &[("qwen2.context_length", Value::U32(1024))]).load_with_examples().await;
    let request = request(ToolChoice::Required, &json!({"type": "object", "properties": {}}));
    assert!(!model.chat(&request).await.unwrap().message.tool_calls.is_empty());
}
