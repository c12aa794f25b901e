//! Tests of provider-specific deviations from OpenAI's API.

use expect_test::{Expect, expect};
use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, ToolCall, ToolDefinition, ToolName, ToolOutput, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
    model::{ChatEvent, ChatRequest, ChatSettings, ModelProfile, ResponseFormat, ToolChoice},
    tool::DynamicTool,
    toolset::ToolList,
    usage::Usage,
};
use haft_openai::{ChatCompletions, Provider};
use serde_json::{Value, json};

use crate::server::{Server, hello, minimal_reply, ok_reply, stream_reply};

/// Builds a model with the quirks of `provider`. Its requests go to the test server.
fn model(server: &Server, provider: Provider) -> ChatCompletions {
    server.builder().provider(provider).build().unwrap()
}

/// Sends a conversation with `reply` and the results of its calls. Returns the messages that the
/// server received, except the first.
async fn send_back(model: &impl ChatModel, server: &Server, reply: AssistantMessage) -> Value {
    let results = reply.tool_calls.iter().map(|call| ToolResult::done(&*call.id, &*call.name, "1".into()));
    let results: Vec<_> = results.map(Message::tool).collect();
    let messages = [Message::user("Hello"), Message::assistant(reply)].into_iter().chain(results);
    model.chat(&ChatRequest::new(messages)).await.unwrap();
    let mut body = server.take_requests().pop().unwrap().body;
    body["messages"].as_array_mut().unwrap().remove(0);
    body["messages"].take()
}

async fn reply_of(model: &impl ChatModel, streamed: bool) -> AssistantMessage {
    if !streamed {
        return model.chat(&hello()).await.unwrap().message;
    }
    let events: Vec<_> = model.stream(&hello()).try_collect().await.unwrap();
    let Some(ChatEvent::Finished(reply)) = events.into_iter().last() else { panic!() };
    reply.message
}

fn chunk(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn call() -> Value {
    json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{}"}}])
}

fn end() -> Value {
    json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
}

/// Receives a reply, first non-streamed (`whole`) and then streamed (`deltas`), and continues each
/// conversation on the same server. Also continues the first conversation on a different server.
/// Compares the messages that the servers receive with the snapshots `own` (same server) and
/// `other`.
async fn check(provider: Provider, whole: Value, deltas: &[Value], own: Expect, other: Expect) {
    let body = json!({"choices": [{"message": whole, "finish_reason": "tool_calls"}]});
    let chunks: Vec<_> = deltas.iter().cloned().map(chunk).chain([end()]).collect();
    let server =
        Server::with_replies([ok_reply(&body), minimal_reply(), stream_reply(&chunks), minimal_reply()])
            .await;
    let model = model(&server, provider);
    for streamed in [false, true] {
        let reply = reply_of(&model, streamed).await;
        own.assert_eq(&send_back(&model, &server, reply.clone()).await.to_string());
        if !streamed {
            let other_server = Server::with_replies([minimal_reply()]).await;
            let sent = send_back(&other_server.builder().build().unwrap(), &other_server, reply).await;
            other.assert_eq(&sent.to_string());
        }
    }
}

/// OpenRouter's reasoning blocks are sent back, after the streamed pieces of each block have been
/// joined.
#[tokio::test]
async fn reasoning_details_are_sent_back() {
    let block = json!({"type": "reasoning.text", "text": "First, then.", "signature": "s", "index": 0});
    let encrypted = json!({"type": "reasoning.encrypted", "data": "xyz", "index": 1});
    let whole =
        json!({"reasoning": "First, then.", "reasoning_details": [block, encrypted], "tool_calls": call()});
    check(
        Provider::OpenRouter,
        whole,
        &[
            json!({"reasoning": "First", "reasoning_details": [{"type": "reasoning.text", "text": "First", "signature": null, "index": 0}]}),
            json!({"reasoning": ", then.", "reasoning_details": [{"type": "reasoning.text", "text": ", then.", "signature": "s", "index": 0}]}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz", "index": 1}]}),
            json!({"tool_calls": call()}),
        ],
        expect![[r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}],"reasoning_details":[{"type":"reasoning.text","text":"First, then.","signature":"s","index":0},{"type":"reasoning.encrypted","data":"xyz","index":1}]},{"role":"tool","tool_call_id":"a","content":"1"}]"#]],
        expect![[r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}]"#]],
    )
    .await;
}

/// Thinking blocks from gateways to Anthropic are sent back. The blocks have no index, so a
/// signature ends a block.
#[tokio::test]
async fn thinking_blocks_are_sent_back() {
    let block =
        |text: &str, signature: &str| json!({"type": "thinking", "thinking": text, "signature": signature});
    let whole = json!({"thinking_blocks": [block("One.", "s1"), block("Two.", "s2")], "tool_calls": call()});
    let piece = |text: &str, signature: Value| json!({"thinking_blocks": [{"type": "thinking", "thinking": text, "signature": signature}]});
    check(
        Provider::OpenRouter,
        whole,
        &[
            piece("On", Value::Null),
            piece("e.", json!("s1")),
            piece("Two.", Value::Null),
            piece("", json!("s2")),
            json!({"tool_calls": call()}),
        ],
        expect![[r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}],"thinking_blocks":[{"type":"thinking","thinking":"One.","signature":"s1"},{"type":"thinking","thinking":"Two.","signature":"s2"}]},{"role":"tool","tool_call_id":"a","content":"1"}]"#]],
        expect![[r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}]"#]],
    )
    .await;
}

/// Gemini rejects a call without its thought signature, so the signature is sent back with the
/// call. If the first call of a message has no signature, a placeholder is sent with it.
#[tokio::test]
async fn thought_signatures_are_sent_back() {
    let mut signed = call();
    signed[0]["extra_content"] = json!({"google": {"thought_signature": "s"}});
    check(
        Provider::Gemini,
        json!({"tool_calls": signed}),
        &[json!({"tool_calls": signed})],
        expect![[r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]},{"role":"tool","tool_call_id":"a","content":"1"}]"#]],
        expect![[r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}]"#]],
    )
    .await;
    let server = Server::with_replies([minimal_reply()]).await;
    let gemini = ChatCompletions::builder("gemini-3-pro").base_url(&server.base_url).build().unwrap();
    let unsigned = AssistantMessage {
        tool_calls: vec![ToolCall::new("a", "add", "{}"), ToolCall::new("b", "add", "{}")],
        ..AssistantMessage::default()
    };
    let sent = send_back(&gemini, &server, unsigned).await;
    let marks =
        [0, 1].map(|index| &sent[0]["tool_calls"][index]["extra_content"]["google"]["thought_signature"]);
    assert_eq!(marks, [&json!("skip_thought_signature_validator"), &Value::Null]);
}

/// Reasoning from Mistral is sent back as parts of the content, because Mistral sends and expects
/// it in this form.
#[tokio::test]
async fn thinking_parts_are_sent_back() {
    let thinking = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let whole =
        json!({"content": [thinking("Hm, so."), {"type": "text", "text": "Adding."}], "tool_calls": call()});
    check(
        Provider::Mistral,
        whole,
        &[
            json!({"content": [thinking("Hm,")]}),
            json!({"content": [thinking(" so.")]}),
            json!({"content": "Adding.", "tool_calls": call()}),
        ],
        expect![[r#"[{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm, so."}]},{"type":"text","text":"Adding."}],"tool_calls":[{"id":"vFiRaiyzi","type":"function","function":{"name":"add","arguments":"{}"}}]},{"role":"tool","tool_call_id":"vFiRaiyzi","content":"1"}]"#]],
        expect![[r#"[{"role":"assistant","content":"Adding.","tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}]"#]],
    )
    .await;
}

/// DeepSeek rejects a message with calls if the reasoning field is missing, so the field is sent
/// even if there is no reasoning. vLLM uses another field name, and OpenAI has no such field.
#[tokio::test]
async fn reasoning_is_sent_back_in_the_field_of_the_provider() {
    let with_reasoning = || AssistantMessage {
        reasoning: Some("Hm.".into()),
        tool_calls: vec![ToolCall::new("a", "add", "{}")],
        ..AssistantMessage::default()
    };
    let without_reasoning = || AssistantMessage { reasoning: None, ..with_reasoning() };
    let cases = [
        (Provider::DeepSeek, with_reasoning(), json!({"reasoning_content": "Hm."})),
        (Provider::DeepSeek, without_reasoning(), json!({"reasoning_content": ""})),
        (Provider::Vllm, with_reasoning(), json!({"reasoning": "Hm."})),
        (Provider::Vllm, without_reasoning(), json!({})),
        (Provider::OpenAi, with_reasoning(), json!({})),
        (Provider::Groq, with_reasoning(), json!({})),
    ];
    for (provider, reply, expected) in cases {
        let server = Server::with_replies([minimal_reply()]).await;
        let sent = send_back(&model(&server, provider), &server, reply).await;
        let fields = ["reasoning_content", "reasoning"].into_iter();
        let fields = fields.filter_map(|key| Some((key.to_owned(), sent[0].get(key)?.clone())));
        assert_eq!(Value::Object(fields.collect()), expected, "{provider}");
    }
}

/// Text that is marked as a thought in `extra_content` is reasoning, because Gemini sends its
/// reasoning in this form.
#[tokio::test]
async fn text_marked_as_thought_is_reasoning() {
    let thought = json!({"content": "Hm.", "extra_content": {"google": {"thought": true}}});
    let end = json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]});
    let server = Server::with_replies([stream_reply(&[chunk(thought), end])]).await;
    let reply = reply_of(&model(&server, Provider::Gemini), true).await;
    assert_eq!((reply.text().as_str(), reply.reasoning.as_deref()), ("Hi", Some("Hm.")));
}

#[tokio::test]
async fn cached_tokens_are_read_in_each_form() {
    let cached = [
        json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}),
        json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 1}),
        json!({"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 8, "prompt_tokens_details": null}),
        json!({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 8}}),
    ];
    for usage in cached {
        let body = json!({"choices": [{"message": {"content": "Hi"}}], "usage": usage});
        let server = Server::with_replies([ok_reply(&body)]).await;
        let reply = server.builder().build().unwrap().chat(&hello()).await.unwrap();
        let expected = Usage { cached_input_tokens: 8, ..Usage::one_request(9, 4) };
        assert_eq!(reply.usage, expected, "{body}");
    }
}

/// The output tokens must include the reasoning tokens, although xAI and gateways to Gemini count
/// them separately.
#[tokio::test]
async fn output_tokens_include_reasoning_tokens() {
    let beside = [
        json!({"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 331, "completion_tokens_details": {"reasoning_tokens": 317}}),
        json!({"prompt_tokens": 12, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 317}}),
        json!({"input_tokens": 12, "output_tokens": 2, "total_tokens": 331, "output_tokens_details": {"reasoning_tokens": 317}}),
    ];
    let within = json!({"prompt_tokens": 12, "completion_tokens": 319, "total_tokens": 331, "completion_tokens_details": {"reasoning_tokens": 317}});
    // If there are fewer reasoning tokens than output tokens, only `total_tokens` shows that they
    // are counted separately.
    let few = json!({"prompt_tokens": 12, "completion_tokens": 300, "total_tokens": 331, "completion_tokens_details": {"reasoning_tokens": 19}});
    let zero = json!({"prompt_tokens": 12, "completion_tokens": 319, "total_tokens": 331, "completion_tokens_details": {"reasoning_tokens": 0}});
    let absurd = json!({"prompt_tokens": i64::MAX, "completion_tokens": i64::MAX, "completion_tokens_details": {"reasoning_tokens": i64::MAX}});
    for usage in beside.iter().chain([&within, &few, &zero]) {
        let body = json!({"choices": [{"message": {"content": "Hi"}}], "usage": usage});
        let server = Server::with_replies([ok_reply(&body)]).await;
        let reply = server.builder().build().unwrap().chat(&hello()).await.unwrap();
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (12, 319), "{usage}");
    }
    let server = Server::with_replies([ok_reply(
        &json!({"choices": [{"message": {"content": "Hi"}}], "usage": absurd}),
    )])
    .await;
    server.builder().build().unwrap().chat(&hello()).await.unwrap();
}

/// Providers send the usage in different fields and chunks. If the last chunk contains a usage of
/// zeros, it must not replace the usage from an earlier chunk.
#[tokio::test]
async fn usage_is_read_from_each_place_in_a_stream() {
    let usage = json!({"prompt_tokens": 19, "completion_tokens": 13});
    let nothing = json!({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}});
    let text = json!({"choices": [{"delta": {"content": "Hi"}}]});
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let moonshot = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]});
    let groq =
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"id": "r", "usage": usage}});
    let openai = json!({"choices": [], "usage": usage});
    let half = json!({"choices": [], "usage": {"prompt_tokens": 19}});
    let other = json!({"choices": [], "usage": {"completion_tokens": 13}});
    for chunks in [
        vec![&text, &moonshot],
        vec![&text, &groq],
        vec![&text, &end, &openai],
        vec![&text, &end, &openai, &nothing],
        vec![&half, &text, &end, &other],
    ] {
        let server = Server::with_replies([stream_reply(chunks)]).await;
        let events: Vec<_> = server.model().stream(&hello()).try_collect().await.unwrap();
        let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
        assert_eq!(reply.usage, Usage::one_request(19, 13));
    }
}

/// Media in a user message and in a tool result are sent if the profile supports them. Otherwise a
/// description is sent.
#[tokio::test]
async fn images_audio_and_files_are_sent() {
    let media = || {
        vec![
            Content::from_bytes(*b"cat", "image/png"),
            Content::from_bytes(*b"la", "audio/wav"),
            Content::from_bytes(*b"doc", "application/pdf"),
            Content::from_bytes(*b"zip", "application/zip"),
        ]
    };
    let call = AssistantMessage {
        tool_calls: vec![ToolCall::new("a", "play", "{}")],
        ..AssistantMessage::default()
    };
    let played =
        ToolOutput { content: vec![Content::from_bytes(*b"la", "audio/mpeg")], ..ToolOutput::default() };
    let request = ChatRequest::new([
        Message::new(MessageBody::User { content: media() }),
        Message::assistant(call),
        Message::tool(ToolResult::done("a", "play", played)),
    ]);
    let server = Server::with_replies([minimal_reply(), minimal_reply()]).await;
    let profile = ModelProfile {
        supports_images: true,
        supports_audio: true,
        supports_files: true,
        ..ModelProfile::new("m")
    };
    for profile in [profile, ModelProfile::new("m")] {
        server.builder().profile(profile).build().unwrap().chat(&request).await.unwrap();
    }
    let sent: Vec<_> = server.take_requests().iter().map(|it| it.body["messages"].to_string()).collect();
    expect![[r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,Y2F0"}},{"type":"input_audio","input_audio":{"data":"bGE=","format":"wav"}},{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,ZG9j"}},{"type":"text","text":"[application/zip, 3 bytes]"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"play","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"[audio/mpeg, 2 bytes]"},{"role":"user","content":[{"type":"text","text":"What play returned for call a:"},{"type":"input_audio","input_audio":{"data":"bGE=","format":"mp3"}}]}]"#]].assert_eq(&sent[0]);
    expect![[r#"[{"role":"user","content":"[image/png, 3 bytes]\n[audio/wav, 2 bytes]\n[application/pdf, 3 bytes]\n[application/zip, 3 bytes]"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"play","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"[audio/mpeg, 2 bytes]"}]"#]].assert_eq(&sent[1]);
}

fn tools() -> ToolList {
    let tool = |name: &str| {
        let definition = ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object());
        DynamicTool::new(definition, |_, _| async { "noon" })
    };
    ToolList::new("test", [tool("now"), tool("later")])
}

/// A request that requires a specific tool has the form that the provider supports. llama.cpp
/// ignores a tool name in `tool_choice`, and LM Studio rejects it, so only the required tool is
/// sent to these servers.
#[tokio::test]
async fn tool_choice_has_the_form_of_the_provider() {
    let request = ChatRequest {
        tool_choice: ToolChoice::Tool(ToolName::new("later").unwrap()),
        ..hello().with_tools(tools())
    };
    for (provider, tools, choice) in [
        (Provider::LlamaCpp, json!(["later"]), json!("required")),
        (Provider::LmStudio, json!(["later"]), json!("required")),
        (
            Provider::OpenAi,
            json!(["now", "later"]),
            json!({"type": "function", "function": {"name": "later"}}),
        ),
    ] {
        let server = Server::with_replies([minimal_reply()]).await;
        model(&server, provider).chat(&request).await.unwrap();
        let body = server.take_requests().remove(0).body;
        let offered: Value =
            body["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].clone()).collect();
        assert_eq!((offered, body["tool_choice"].clone()), (tools, choice), "{provider}");
    }
}

/// Each provider receives the field names that it supports: Mistral rejects unknown fields, and
/// newer OpenAI models reject `max_tokens`.
#[tokio::test]
async fn settings_have_the_names_of_the_provider() {
    let settings = ChatSettings { seed: Some(7), max_tokens: Some(100), ..ChatSettings::default() };
    let request = ChatRequest { settings, ..hello() };
    for (provider, expected) in [
        (Provider::Mistral, json!({"random_seed": 7, "max_tokens": 100})),
        (
            Provider::OpenAi,
            json!({"seed": 7, "max_completion_tokens": 100, "stream_options": {"include_usage": true}}),
        ),
        (
            Provider::LlamaCpp,
            json!({"seed": 7, "max_tokens": 100, "stream_options": {"include_usage": true}}),
        ),
    ] {
        let server = Server::with_replies([minimal_reply()]).await;
        let model = model(&server, provider);
        let _: Vec<_> = model.stream(&request).try_collect().await.unwrap();
        let body = server.take_requests().remove(0).body;
        let names = ["seed", "random_seed", "max_tokens", "max_completion_tokens", "stream_options"];
        let sent = names.iter().filter_map(|name| Some(((*name).to_owned(), body.get(*name)?.clone())));
        let sent = Value::Object(sent.collect());
        assert_eq!(sent, expected, "{provider}");
    }
    assert!(!model(&Server::with_replies([]).await, Provider::DeepSeek).profile().supports_json_schema);
}

/// The roles and texts of the messages in `body`.
fn roles(body: &Value) -> Vec<String> {
    let line = |message: &Value| {
        format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap_or("-"))
    };
    body["messages"].as_array().unwrap().iter().map(line).collect()
}

/// Servers with strict chat templates accept one system message, the first. The request stays the
/// same prefix when messages are added.
#[tokio::test]
async fn only_the_first_message_is_a_system_message() {
    let server = Server::with_replies(vec![minimal_reply(); 20]).await;
    let history = [
        Message::system("Speak Danish."),
        Message::user("Hi"),
        Message::assistant("Hej"),
        Message::system("The shop closes at 5."),
        Message::user("When?"),
    ];
    let request = |messages: usize, instructions: bool| {
        let request = ChatRequest::new(history.iter().take(messages).cloned());
        ChatRequest { instructions: instructions.then(|| Message::system("Be brief.").into()), ..request }
    };
    let unknown = server.builder().build().unwrap();
    let local = [Provider::Vllm, Provider::LlamaCpp, Provider::LmStudio, Provider::Ollama];
    for model in local.map(|provider| model(&server, provider)).into_iter().chain([unknown]) {
        model.chat(&request(5, true)).await.unwrap();
        model.chat(&request(5, false)).await.unwrap();
        model.chat(&request(2, true)).await.unwrap();
        let bodies: Vec<_> = server.take_requests().into_iter().map(|it| roles(&it.body)).collect();
        let rest = ["user: Hi", "assistant: Hej", "user: System: The shop closes at 5.", "user: When?"];
        assert_eq!(bodies[0][0], "system: Be brief.\n\nSpeak Danish.");
        assert_eq!(bodies[0][1..], rest);
        assert_eq!(bodies[1][0], "system: Speak Danish.");
        assert_eq!(bodies[2], bodies[0][..2]);
    }
    model(&server, Provider::OpenAi).chat(&request(5, true)).await.unwrap();
    let openai = roles(&server.take_requests().pop().unwrap().body);
    assert_eq!(openai.iter().filter(|line| line.starts_with("system: ")).count(), 3);
}

/// The ids of calls and results from another server are within the limits of the next server.
#[tokio::test]
async fn call_ids_are_valid_for_the_next_server() {
    let server = Server::with_replies(vec![minimal_reply(); 20]).await;
    let long = "x".repeat(50);
    let ids: Vec<_> = ["call_1", "functions.add:0", "toolu_01", "", "abcDEF123", &long, &format!("{long}y")]
        .iter()
        .map(ToString::to_string)
        .collect();
    let is_nine: fn(&str) -> bool = |id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_short: fn(&str) -> bool = |id| id.len() <= 40;
    let is_word: fn(&str) -> bool = |id| {
        (1..=40).contains(&id.len()) && id.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it))
    };
    let named = |provider: Option<Provider>, name: &str| {
        let builder = ChatCompletions::builder(name).base_url(&server.base_url).api_key("k");
        match provider {
            Some(provider) => builder.provider(provider).build().unwrap(),
            None => builder.build().unwrap(),
        }
    };
    let models = [
        (named(Some(Provider::Mistral), "m"), is_nine),
        (named(Some(Provider::Vllm), "mistralai/Mistral-Small-3.2"), is_nine),
        (named(None, "anthropic/claude-sonnet-4"), is_word),
        (named(Some(Provider::OpenRouter), "anthropic/claude-sonnet-4"), is_word),
        (named(Some(Provider::OpenAi), "gpt-5"), is_short),
        (named(None, "m"), is_short),
    ];
    for (model, is_valid) in models {
        let calls = ids.iter().map(|id| ToolCall::new(id.clone(), "add", "{}")).collect();
        let reply = AssistantMessage { tool_calls: calls, ..AssistantMessage::default() };
        let first = send_back(&model, &server, reply.clone()).await;
        assert_eq!(send_back(&model, &server, reply).await, first);
        let calls: Vec<_> =
            first[0]["tool_calls"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
        let results: Vec<_> = first.as_array().unwrap()[1..]
            .iter()
            .filter(|it| it["role"] == "tool")
            .map(|it| it["tool_call_id"].clone())
            .collect();
        assert_eq!(calls, results);
        assert!(calls.iter().all(|id| is_valid(id.as_str().unwrap())), "{calls:?}");
        let distinct: std::collections::HashSet<_> = calls.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), ids.len(), "{calls:?}");
    }
}

/// A server gets its own ids back. LiteLLM sends Gemini's thought signature as a part of the id.
#[tokio::test]
async fn own_call_ids_are_sent_back_unchanged() {
    let id = format!("call_1__thought__{}", "c2ln/+".repeat(50));
    let calls = json!([{"index": 0, "id": id, "function": {"name": "add", "arguments": "{}"}}]);
    let whole = ok_reply(
        &json!({"choices": [{"message": {"tool_calls": calls.clone()}, "finish_reason": "tool_calls"}]}),
    );
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let streamed = stream_reply(&[chunk(json!({ "tool_calls": calls })), end]);
    let replies = [whole, streamed].into_iter().flat_map(|first| {
        let rest = std::iter::repeat_with(minimal_reply).take(3);
        std::iter::once(first).chain(rest)
    });
    let server = Server::with_replies(replies).await;
    let own = server.builder().build().unwrap();
    let other_model = ChatCompletions::builder("gpt-5").base_url(&server.base_url).build().unwrap();
    let other_server = Server::with_replies(vec![minimal_reply(); 2]).await;
    for is_streamed in [false, true] {
        let reply = reply_of(&own, is_streamed).await;
        server.take_requests();
        // A saved transcript has the same ids.
        let reply: AssistantMessage = serde_json::from_value(json!(reply)).unwrap();
        for _ in 0..2 {
            let sent = send_back(&own, &server, reply.clone()).await;
            assert_eq!(sent[0]["tool_calls"][0]["id"], id);
            assert_eq!(sent[1]["tool_call_id"], id);
        }
        let sent = send_back(&other_model, &server, reply.clone()).await;
        assert_eq!(sent[0]["tool_calls"][0]["id"].as_str().unwrap().len(), 21);
        assert_eq!(sent[1]["tool_call_id"], sent[0]["tool_calls"][0]["id"]);
        let foreign = other_server.builder().build().unwrap();
        assert_eq!(send_back(&foreign, &other_server, reply).await, sent);
    }
}

/// Models of two servers share a conversation, and each server gets its ids in the same messages.
#[tokio::test]
async fn encoded_results_are_not_shared_between_servers() {
    let id = "x".repeat(300);
    let call = json!([{"id": id, "function": {"name": "add", "arguments": "{}"}}]);
    let first = json!({"choices": [{"message": {"tool_calls": call}, "finish_reason": "tool_calls"}]});
    let server = Server::with_replies([ok_reply(&first), minimal_reply(), minimal_reply()]).await;
    let other_server = Server::with_replies(vec![minimal_reply()]).await;
    let (own, foreign) = (server.builder().build().unwrap(), other_server.builder().build().unwrap());
    let reply = reply_of(&own, false).await;
    let messages = [Message::assistant(reply), Message::tool(ToolResult::done(&*id, "add", "1".into()))];
    let request = ChatRequest::new(messages);
    let ids_of = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        (messages[0]["tool_calls"][0]["id"].clone(), messages[1]["tool_call_id"].clone())
    };
    let mut sent = Vec::new();
    for (model, server) in [(&own, &server), (&foreign, &other_server), (&own, &server)] {
        model.chat(&request).await.unwrap();
        sent.push(ids_of(&server.take_requests().pop().unwrap().body));
    }
    assert_eq!(sent[0], (json!(id), json!(id)));
    assert_eq!(sent[1].0, sent[1].1);
    assert_ne!(sent[1].0, json!(id));
    assert_eq!(sent[2], sent[0]);
}

/// A conversation with calls is sent with placeholders for their tools if the request offers none.
#[tokio::test]
async fn earlier_calls_have_tools_in_a_request_without_tools() {
    let server = Server::with_replies(vec![minimal_reply(); 15]).await;
    let calls = ["add", "find", "add"].map(|name| ToolCall::new(name, name, "{}")).to_vec();
    let messages = || {
        let results =
            calls.iter().map(|call| Message::tool(ToolResult::done(&*call.id, &*call.name, "1".into())));
        let reply = AssistantMessage { tool_calls: calls.clone(), ..AssistantMessage::default() };
        [Message::user("Hi"), Message::assistant(reply)]
            .into_iter()
            .chain(results)
            .chain([Message::user("And?")])
    };
    let unknown = server.builder().build().unwrap();
    let claude =
        ChatCompletions::builder("anthropic/claude-sonnet-4").base_url(&server.base_url).api_key("k");
    for (model, has_tools) in [
        (unknown, true),
        (claude.provider(Provider::OpenRouter).build().unwrap(), true),
        (model(&server, Provider::OpenRouter), false),
        (model(&server, Provider::OpenAi), false),
        (model(&server, Provider::Ollama), false),
    ] {
        model.chat(&ChatRequest::new(messages())).await.unwrap();
        let body = server.take_requests().pop().unwrap().body;
        let names = body["tools"].as_array().into_iter().flatten().map(|it| it["function"]["name"].clone());
        assert_eq!(names.collect::<Vec<_>>(), if has_tools { vec!["add", "find"] } else { vec![] });
        assert_eq!(body.get("tool_choice").is_some_and(|it| it == "none"), has_tools);
        // Without calls, and beside a response format, there are no placeholders.
        let format = ResponseFormat::JsonObject;
        let with_format = ChatRequest { response_format: format, ..ChatRequest::new(messages()) };
        for request in [hello(), with_format] {
            model.chat(&request).await.unwrap();
            assert!(server.take_requests().pop().unwrap().body.get("tools").is_none());
        }
    }
}

/// A gateway passes a schema on to the provider of the model, in the form of this provider.
#[tokio::test]
async fn schemas_have_the_form_of_the_model_behind_a_gateway() {
    let server = Server::with_replies(vec![minimal_reply(); 10]).await;
    let schema = json!({"properties": {"p": {"type": ["string", "null"]}, "q": {"type": "array"}}});
    let definition =
        ToolDefinition::new(ToolName::new("note").unwrap(), Schema::for_arguments(schema).unwrap());
    let tool = DynamicTool::new(definition, |_, _| async { "noted" });
    let request = hello().with_tools(ToolList::new("test", [tool]));
    for (provider, name, expected) in [
        (Some(Provider::OpenRouter), "google/gemini-2.5-pro", json!({"type": "string", "nullable": true})),
        (
            Some(Provider::OpenRouter),
            "moonshotai/kimi-k2",
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ),
        (Some(Provider::Moonshot), "kimi-k2", json!({"anyOf": [{"type": "string"}, {"type": "null"}]})),
        (Some(Provider::OpenRouter), "qwen/qwen3", json!({"type": ["string", "null"]})),
        (None, "google/gemini-2.5-pro", json!({"type": "string", "nullable": true})),
        (None, "other", json!({"type": ["string", "null"]})),
    ] {
        let builder = ChatCompletions::builder(name).base_url(&server.base_url).api_key("k");
        let builder = match provider {
            Some(provider) => builder.provider(provider),
            None => builder,
        };
        builder.build().unwrap().chat(&request).await.unwrap();
        let body = server.take_requests().pop().unwrap().body;
        let properties = &body["tools"][0]["function"]["parameters"]["properties"];
        assert_eq!(properties["p"], expected, "{name}");
        assert!(properties["q"]["items"].is_object(), "{name}");
    }
}
