use expect_test::expect;
use futures::StreamExt as _;
use haft_core::{
    ChatModel as _, Message, Schema, ToolCall, ToolDefinition, ToolName, ToolResult, Toolset,
    content::Content,
    message::{AssistantMessage, MessageBody},
    model::{
        ChatEvent, ChatRequest, ChatResponse, ChatSettings, FinishReason, ModelError, ModelProfile,
        ToolChoice,
    },
    tool,
    tool::DynamicTool,
    toolset::ListContext,
};
use haft_langchain::{
    HaftLlm, LangChainModel, StreamFormat,
    langchain_rust::schemas::{FunctionCallBehavior, MessageType},
};
use haft_react::ReactAgent;
use haft_testing::{TestModel, conformance};
use serde_json::{Value, json};

use crate::support::{FakeLlm, Step, calls, text};

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}

async fn request_with_tools() -> ChatRequest {
    let tools = Toolset::new().with_tool(Add).list(&ListContext::default()).await;
    ChatRequest::new([Message::user("What is 17 plus 25?")]).with_tools(tools)
}

/// A LangChain model drives an agent with tools, and call ids are kept.
#[tokio::test]
async fn langchain_model_drives_an_agent() {
    let llm = FakeLlm::with_results([
        calls([("toolu_1", "add", r#"{"x":17,"y":25}"#), ("toolu_2", "add", r#"{"x":1,"y":2}"#)]),
        text("42 and 3."),
    ]);
    let model = LangChainModel::new("fake", llm.clone());
    let agent = ReactAgent::new(model, Toolset::new().with_tool(Add)).unwrap();
    let answer = agent.run("What is 17 plus 25, and 1 plus 2?").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "42 and 3.");
    assert_eq!(answer.usage.input_tokens, 20);
    let requests = llm.requests.lock().unwrap();
    let last = &requests[1][requests[1].len() - 3..];
    assert_eq!(last[0].parse_tool_calls()[1].id, "toolu_2");
    assert_eq!((last[1].id.as_deref(), last[1].content.as_str()), (Some("toolu_1"), "42"));
    assert_eq!((last[2].id.as_deref(), last[2].content.as_str()), (Some("toolu_2"), "3"));
    let options = llm.options_log.lock().unwrap().clone();
    let functions = options[1].functions.as_ref().unwrap();
    assert_eq!(functions.len(), 1, "options of earlier requests do not accumulate");
    assert_eq!(
        (functions[0].name.as_str(), functions[0].description.as_str()),
        ("add", "Adds two integers.")
    );
    assert_eq!(functions[0].parameters["required"], json!(["x", "y"]));
}

/// Sends `reply` with the results of its calls. Returns the ids of the calls and of the results.
async fn sent_ids(name: &str, reply: &AssistantMessage) -> (Vec<String>, Vec<String>) {
    let llm = FakeLlm::with_results([text("ok")]);
    let results = reply.tool_calls.iter().map(|call| ToolResult::done(&*call.id, "add", "1".into()));
    let messages: Vec<_> =
        [Message::assistant(reply.clone())].into_iter().chain(results.map(Message::tool)).collect();
    LangChainModel::new(name, llm.clone()).chat(&ChatRequest::new(messages)).await.unwrap();
    let request = llm.requests.lock().unwrap().pop().unwrap();
    let calls = request[0].parse_tool_calls().into_iter().map(|call| call.id).collect();
    (calls, request[1..].iter().filter_map(|message| message.id.clone()).collect())
}

/// The ids of calls and results from another model are valid for each server of LangChain.
#[tokio::test]
async fn call_ids_are_valid_for_the_next_server() {
    let long = "x".repeat(50);
    let ids = ["call_1", "functions.add:0", "", "abcDEF123", &long, &format!("{long}y")];
    let tool_calls: Vec<_> = ids.iter().map(|id| ToolCall::new(*id, "add", "{}")).collect();
    let reply = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    let is_nine: fn(&str) -> bool = |id| id.len() == 9 && id.bytes().all(|it| it.is_ascii_alphanumeric());
    let is_word: fn(&str) -> bool = |id| {
        (1..=40).contains(&id.len()) && id.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it))
    };
    for (name, is_valid) in [("gpt-5", is_word), ("claude-sonnet-5", is_word), ("mistral-small", is_nine)] {
        let (calls, results) = sent_ids(name, &reply).await;
        assert_eq!(calls, results);
        assert!(calls.iter().all(|id| is_valid(id)), "{calls:?}");
        assert!(calls.contains(&ids[3].to_owned()));
        let distinct: std::collections::HashSet<_> = calls.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{calls:?}");
        assert_eq!(sent_ids(name, &reply).await, (calls, results));
    }
}

/// A model gets its own ids back. LiteLLM sends Gemini's thought signature as a part of the id.
#[tokio::test]
async fn own_call_ids_are_sent_back_unchanged() {
    let id = format!("call_1__thought__{}", "c2ln/+".repeat(50));
    let result = || calls([(&*id, "add", "{}")]);
    let call = json!([{"index": 0, "id": id, "function": {"name": "add", "arguments": "{}"}}]);
    let chunk = json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": "tool_calls"}]});
    for (step, format) in [
        (Step::Result(result()), None),
        (Step::Pieces(Vec::new(), Some(result())), Some(StreamFormat::Events)),
        (Step::Items(vec![chunk]), Some(StreamFormat::OpenAi)),
    ] {
        let model = LangChainModel::new("gemini-3-pro", FakeLlm::new([step]));
        let model = match format {
            Some(format) => model.with_streaming(format),
            None => model,
        };
        let reply = model.chat(&ChatRequest::new([Message::user("Hi")])).await.unwrap().message;
        let own = vec![id.clone()];
        assert_eq!(sent_ids("gemini-3-pro", &reply).await, (own.clone(), own), "{format:?}");
        let (calls, results) = sent_ids("gpt-5", &reply).await;
        assert_eq!(calls, results);
        assert_eq!(calls[0].len(), 21);
    }
}

/// Servers parse the arguments of earlier calls, and would reject every later request. The model
/// reads its own text.
#[tokio::test]
async fn malformed_arguments_are_wrapped_in_an_object() {
    let arguments = [r#"{"x": 1}"#, " ", r#"{"x": 1"#, "[1]"];
    let tool_calls = (0..).zip(arguments).map(|(id, it)| ToolCall::new(format!("call_{id}"), "add", it));
    let reply = AssistantMessage { tool_calls: tool_calls.collect(), ..AssistantMessage::default() };
    let llm = FakeLlm::with_results([text("ok")]);
    let request = ChatRequest::new([Message::assistant(reply)]);
    LangChainModel::new("fake", llm.clone()).chat(&request).await.unwrap();
    let request = llm.requests.lock().unwrap().pop().unwrap();
    let sent: Vec<_> = request[0].parse_tool_calls().into_iter().map(|call| call.arguments).collect();
    assert_eq!(
        sent,
        [r#"{"x": 1}"#, "{}", r#"{"malformed_arguments":"{\"x\": 1"}"#, r#"{"malformed_arguments":"[1]"}"#]
    );
}

/// Messages of all roles reach a LangChain model, with images if it supports them.
#[tokio::test]
async fn messages_of_all_roles_reach_a_langchain_model() {
    let picture = Content::from_bytes(*b"\x89PNG", "image/png");
    let request = || ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        ..ChatRequest::new([
            Message::new(MessageBody::User { content: vec!["Look.".into(), picture.clone()] }),
            Message::assistant("A cat."),
            Message::tool(ToolResult::done("call_1", "look", picture.clone().into())),
        ])
    };
    let llm = FakeLlm::with_results([text("ok"), text("ok")]);
    let profile = ModelProfile { supports_images: true, ..ModelProfile::new("fake") };
    LangChainModel::new("fake", llm.clone()).chat(&request()).await.unwrap();
    LangChainModel::new("fake", llm.clone()).with_profile(profile).chat(&request()).await.unwrap();
    let requests = llm.requests.lock().unwrap();
    let roles: Vec<_> = requests[0].iter().map(|message| message.message_type.clone()).collect();
    assert_eq!(
        roles,
        [
            MessageType::SystemMessage,
            MessageType::HumanMessage,
            MessageType::AIMessage,
            MessageType::ToolMessage
        ]
    );
    assert_eq!(requests[0][1].content, "Look.\n[image/png, 4 bytes]");
    assert_eq!(requests[1][1].content, "Look.");
    assert_eq!(requests[1][1].images.as_ref().unwrap()[0].image_url, "data:image/png;base64,iVBORw==");
    assert_eq!(requests[1][3].content, "[image/png, 4 bytes]");
}

/// Chat templates permit one system message, and servers read arrays with `items` only.
#[tokio::test]
async fn request_has_the_form_that_servers_accept() {
    let schema = json!({"type": "object", "properties": {"tags": {"type": "array"}, "any": true}});
    let definition = ToolDefinition::new(ToolName::sanitize("tag"), Schema::for_arguments(schema).unwrap());
    let tool = DynamicTool::new(definition, |_, _| async { "ok" });
    let tools = Toolset::new().with_tool(tool).list(&ListContext::default()).await;
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        ..ChatRequest::new([
            Message::system("You are Ada."),
            Message::user("Hi."),
            Message::system("Be kind."),
        ])
    };
    let llm = FakeLlm::with_results([text("ok")]);
    LangChainModel::new("fake", llm.clone()).chat(&request.with_tools(tools)).await.unwrap();
    let requests = llm.requests.lock().unwrap();
    let messages: Vec<_> =
        requests[0].iter().map(|it| (it.message_type.clone(), it.content.as_str())).collect();
    assert_eq!(
        messages,
        [
            (MessageType::SystemMessage, "Be brief.\n\nYou are Ada."),
            (MessageType::HumanMessage, "Hi."),
            (MessageType::HumanMessage, "System: Be kind."),
        ]
    );
    let options = llm.options_log.lock().unwrap().clone();
    let properties = &options[0].functions.as_ref().unwrap()[0].parameters["properties"];
    assert_eq!(properties, &json!({"tags": {"type": "array", "items": {}}, "any": {}}));
}

/// Settings and tool choices become options, and a choice that LangChain lacks is left to the
/// model.
#[tokio::test]
async fn settings_and_tool_choices_become_options() {
    let llm = FakeLlm::with_results([text("ok"), text("ok"), text("ok"), text("ok")]);
    let model = LangChainModel::new("fake", llm.clone());
    let settings = ChatSettings {
        temperature: Some(0.5),
        max_tokens: Some(7),
        stop: vec!["END".to_owned()],
        seed: Some(3),
        ..ChatSettings::default()
    };
    let request = ChatRequest { settings, tool_choice: ToolChoice::Required, ..request_with_tools().await };
    model.chat(&request).await.unwrap();
    model.chat(&ChatRequest { tool_choice: ToolChoice::None, ..request.clone() }).await.unwrap();
    model.chat(&ChatRequest::new([Message::user("hi")])).await.unwrap();
    let options = llm.options_log.lock().unwrap().clone();
    assert_eq!(
        (options[0].temperature, options[0].max_tokens, options[0].seed),
        (Some(0.5), Some(7), Some(3))
    );
    assert_eq!(options[0].stop_words.as_deref(), Some(&["END".to_owned()][..]));
    assert!(
        matches!(&options[0].function_call_behavior, Some(FunctionCallBehavior::Named(name)) if name == "add")
    );
    assert!(matches!(options[1].function_call_behavior, Some(FunctionCallBehavior::None)));
    assert!(options[2].functions.is_none() && options[2].max_tokens.is_none());

    let two =
        Toolset::new().with_tools((Add, haft_core::ToolExt::with_definition(Add, |it| it.with_name("sum"))));
    let tools = two.list(&ListContext::default()).await;
    model.chat(&ChatRequest { tools, ..request }).await.unwrap();
    let options = llm.options_log.lock().unwrap()[3].clone();
    assert_eq!(options.functions.unwrap().len(), 2);
    assert!(options.function_call_behavior.is_none());
}

#[tokio::test]
async fn agent_with_outputs_and_tools_works_on_a_langchain_model() {
    let llm = FakeLlm::with_results([
        calls([("a", "add", r#"{"x":17,"y":25}"#)]),
        calls([("b", "finish", r#"{"response":42}"#)]),
    ]);
    let model = LangChainModel::new("fake", llm.clone());
    let agent =
        ReactAgent::builder(model).tools(Toolset::new().with_tool(Add)).output::<i64>().build().unwrap();
    let answer = agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "42");
    let functions = llm.options_log.lock().unwrap()[0].functions.clone().unwrap();
    assert_eq!(functions.len(), 2, "the tool and `finish`");
}

/// Empty and repeated call ids are replaced, so no calls are merged.
#[tokio::test]
async fn repeated_ids_are_replaced() {
    let llm = FakeLlm::with_results([calls([
        ("", "add", "{}"),
        ("a", "add", "{}"),
        ("a", "add", "{}"),
        ("call_3", "add", "{}"),
    ])]);
    let reply = LangChainModel::new("fake", llm).chat(&request_with_tools().await).await.unwrap();
    let ids: Vec<_> = reply.message.tool_calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_4", "a", "a_5", "call_3"]);
}

/// Calls that a model writes as text are calls only if their tools are offered.
#[tokio::test]
async fn written_calls_are_calls_of_offered_tools() {
    let written = |name| calls([("a", name, "{}")]).generation;
    let llm = FakeLlm::with_results([text(&written("add")), text(&written("sub"))]);
    let model = LangChainModel::new("fake", llm);
    let request = request_with_tools().await;
    let reply = model.chat(&request).await.unwrap();
    assert_eq!((reply.message.tool_calls.len(), reply.message.text()), (1, String::new()));
    let reply = model.chat(&request).await.unwrap();
    assert_eq!((reply.message.tool_calls.len(), reply.message.text()), (0, written("sub")));
}

#[tokio::test]
async fn empty_reply_is_an_error() {
    let model = LangChainModel::new("fake", FakeLlm::with_results([text("")]));
    let error = model.chat(&ChatRequest::new([Message::user("hi")])).await.unwrap_err();
    assert!(matches!(error, ModelError::EmptyResponse));
}

/// Streams a request with a tool. The text deltas are joined.
async fn stream(format: StreamFormat, step: Step) -> (String, Result<ChatResponse, ModelError>) {
    let model = LangChainModel::new("fake", FakeLlm::new([step])).with_streaming(format);
    let request = request_with_tools().await;
    let events: Vec<_> = model.stream(&request).collect().await;
    let mut text = String::new();
    let mut end = None;
    for event in events {
        assert!(end.is_none(), "nothing follows the end");
        match event {
            Ok(ChatEvent::TextDelta { text: delta }) => text += &delta,
            Ok(ChatEvent::Finished(reply)) => end = Some(Ok(*reply)),
            Ok(_) => {}
            Err(error) => end = Some(Err(error)),
        }
    }
    (text, end.expect("the stream has an end"))
}

fn openai_chunks() -> Vec<Value> {
    let chunk =
        |delta: Value| json!({"id": "chatcmpl-1", "model": "gpt", "choices": [{"index": 0, "delta": delta}]});
    vec![
        chunk(json!({"content": "I will "})),
        chunk(json!({"content": "add."})),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{\"x\":1,"}}]}),
        ),
        // vLLM repeats the id in each part.
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": "\"y\":2}"}}]}),
        ),
        chunk(
            json!({"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "add", "arguments": "{\"x\":3,\"y\":4}"}}]}),
        ),
        json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}),
    ]
}

/// A stream of OpenAI's format has text, calls, usage, id and finish reason.
#[tokio::test]
async fn openai_stream_has_text_calls_and_usage() {
    let (text, reply) = stream(StreamFormat::OpenAi, Step::Items(openai_chunks())).await;
    assert_eq!(text, "I will add.");
    let reply = reply.unwrap();
    expect![[r#"
        {
          "message": {
            "content": [
              {
                "type": "text",
                "text": "I will add."
              }
            ],
            "tool_calls": [
              {
                "id": "c1",
                "name": "add",
                "arguments": "{\"x\":1,\"y\":2}"
              },
              {
                "id": "c1_2",
                "name": "add",
                "arguments": "{\"x\":3,\"y\":4}"
              }
            ]
          },
          "finish_reason": "tool_calls",
          "usage": {
            "requests": 1,
            "input_tokens": 10,
            "output_tokens": 5,
            "cached_input_tokens": 0,
            "reasoning_tokens": 0
          },
          "id": "chatcmpl-1",
          "model": "gpt"
        }"#]]
    .assert_eq(&format!("{:#}", json!(reply)));
}

/// A stream without the end of its reply is truncated, wherever it ends.
#[tokio::test]
async fn stream_without_an_end_is_truncated() {
    let chunks = openai_chunks();
    for length in 0..5 {
        let step = Step::Items(chunks[..length].to_vec());
        let (_, reply) = stream(StreamFormat::OpenAi, step).await;
        assert!(matches!(reply, Err(ModelError::Truncated { .. })), "{length}: {reply:?}");
    }
    let events = anthropic_events();
    for length in 0..events.len() {
        let step = Step::Items(events[..length].to_vec());
        let (_, reply) = stream(StreamFormat::Anthropic, step).await;
        assert!(matches!(reply, Err(ModelError::Truncated { .. })), "{length}: {reply:?}");
    }
    let partial = json!({"model": "llama", "message": {"content": "4"}, "done": false});
    let (_, reply) = stream(StreamFormat::Ollama, Step::Items(vec![partial])).await;
    let Err(ModelError::Truncated { partial, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(partial.text(), "4");
}

fn anthropic_events() -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me add."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"x\":17,"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "\"y\":25}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}}),
        json!({"type": "message_stop"}),
    ]
}

/// A stream of Anthropic's format has text, calls and usage.
#[tokio::test]
async fn anthropic_stream_has_text_calls_and_usage() {
    let (text, reply) = stream(StreamFormat::Anthropic, Step::Items(anthropic_events())).await;
    let reply = reply.unwrap();
    assert_eq!((text.as_str(), reply.message.text().as_str()), ("Let me add.", "Let me add."));
    assert_eq!(reply.message.tool_calls, [("toolu_1", "add", r#"{"x":17,"y":25}"#).into()]);
    let usage = reply.usage;
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (10, 3, 12));
    assert_eq!((reply.id.as_deref(), reply.finish_reason), (Some("msg_1"), FinishReason::ToolCalls));
}

/// A stream of Ollama's format has text, calls with generated ids, and usage.
#[tokio::test]
async fn ollama_stream_has_text_calls_and_usage() {
    let call = json!({"function": {"name": "add", "arguments": {"x": 1, "y": 2}}});
    let items = vec![
        json!({"model": "llama", "message": {"content": "Adding"}, "done": false}),
        json!({"model": "llama", "message": {"content": "", "tool_calls": [call, call]}, "done": false}),
        json!({"model": "llama", "message": {"content": ""}, "done": true, "prompt_eval_count": 4, "eval_count": 2}),
    ];
    let (text, reply) = stream(StreamFormat::Ollama, Step::Items(items)).await;
    let reply = reply.unwrap();
    assert_eq!(text, "Adding");
    let ids: Vec<_> = reply.message.tool_calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_1", "call_2"]);
    assert_eq!((reply.usage.total_tokens(), reply.finish_reason), (6, FinishReason::ToolCalls));
}

/// A reply at the token limit has its finish reason, unless it ends inside a call.
#[tokio::test]
async fn reply_at_the_token_limit_has_its_finish_reason() {
    let items = |delta: Value| {
        Step::Items(vec![json!({"choices": [{"index": 0, "delta": delta, "finish_reason": "length"}]})])
    };
    let (_, reply) = stream(StreamFormat::OpenAi, items(json!({"content": "It is"}))).await;
    assert_eq!(reply.unwrap().finish_reason, FinishReason::Length);
    let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "add", "arguments": arguments}}]});
    for arguments in ["{\"x\":", ""] {
        let (_, reply) = stream(StreamFormat::OpenAi, items(call(arguments))).await;
        assert!(matches!(reply, Err(ModelError::Truncated { .. })), "{reply:?}");
    }
    let (_, reply) = stream(StreamFormat::OpenAi, items(call("{}"))).await;
    assert_eq!(reply.unwrap().message.tool_calls.len(), 1);
    // Without a finish reason, the arguments decide.
    let llm = FakeLlm::with_results([calls([("a", "add", "{\"x\":")])]);
    let reply = LangChainModel::new("fake", llm).chat(&request_with_tools().await).await;
    assert!(matches!(reply, Err(ModelError::Truncated { .. })), "{reply:?}");
}

#[tokio::test]
async fn reply_with_the_requested_tokens_ends_at_the_token_limit() {
    let model = LangChainModel::new("fake", FakeLlm::with_results([text("It is"), text("It is 42.")]));
    let request = |max_tokens| {
        let settings = ChatSettings { max_tokens: Some(max_tokens), ..ChatSettings::default() };
        ChatRequest { settings, ..ChatRequest::new([Message::user("What is 17 plus 25?")]) }
    };
    assert_eq!(model.chat(&request(5)).await.unwrap().finish_reason, FinishReason::Length);
    assert_eq!(model.chat(&request(6)).await.unwrap().finish_reason, FinishReason::Stop);
}

#[tokio::test]
async fn streamed_reply_above_a_limit_is_an_error() {
    let call = |index: usize, arguments: &str| {
        let function = json!({"name": "add", "arguments": arguments});
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "id": index.to_string(), "function": function}]}}]})
    };
    let long = "x".repeat(1 << 20);
    let piece = json!({"choices": [{"index": 0, "delta": {"content": long}}]});
    for items in
        [vec![piece; 17], vec![call(0, "{"), call(0, &long)], (0..4097).map(|it| call(it, "{}")).collect()]
    {
        let (_, reply) = stream(StreamFormat::OpenAi, Step::Items(items)).await;
        assert!(matches!(reply, Err(ModelError::InvalidResponse(_))), "{reply:?}");
    }
}

/// Malformed arguments in a complete reply are kept, so the model reads the fault.
#[tokio::test]
async fn malformed_arguments_of_a_complete_reply_are_kept() {
    let function = json!({"name": "add", "arguments": "{\"x\": 1"});
    let delta = json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]});
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]});
    let (_, reply) = stream(StreamFormat::OpenAi, Step::Items(vec![chunk])).await;
    assert_eq!(&*reply.unwrap().message.tool_calls[0].arguments, r#"{"x": 1"#);
}

/// Items of another format are an error that names the setting.
#[tokio::test]
async fn items_of_another_format_are_an_error() {
    let (_, reply) = stream(StreamFormat::Anthropic, Step::Items(openai_chunks())).await;
    let error = reply.unwrap_err().to_string();
    assert!(error.contains("`StreamFormat`"), "{error}");
}

/// Events need a result, and incomplete arguments in it are noticed.
#[tokio::test]
async fn events_without_a_result_are_truncated() {
    let events = |pieces: &[&'static str], result| Step::Pieces(pieces.to_vec(), result);
    let (text_, reply) =
        stream(StreamFormat::Events, events(&["It ", "is 42."], Some(text("It is 42.")))).await;
    assert_eq!((text_.as_str(), reply.unwrap().message.text().as_str()), ("It is 42.", "It is 42."));
    let with_calls = events(&["Adding."], Some(calls([("a", "add", r#"{"x":1,"y":2}"#)])));
    let (_, reply) = stream(StreamFormat::Events, with_calls).await;
    let message = reply.unwrap().message;
    assert_eq!((message.text().as_str(), message.tool_calls.len()), ("Adding.", 1));

    let (_, reply) = stream(StreamFormat::Events, events(&["It "], None)).await;
    assert!(matches!(reply, Err(ModelError::Truncated { .. })), "{reply:?}");
    let cut = events(&[], Some(calls([("a", "add", r#"{"x":1,"#)])));
    let (_, reply) = stream(StreamFormat::Events, cut).await;
    assert!(matches!(reply, Err(ModelError::Truncated { .. })), "{reply:?}");
}

/// The adapter of models passes the conformance checks, streamed or not.
#[tokio::test(flavor = "multi_thread")]
async fn langchain_models_conform() {
    let llm = FakeLlm::with_results((0..20).map(|_| text("Hello.")));
    conformance::model(LangChainModel::new("fake", llm)).assume_deterministic().await.assert_conforms();
    let items = (0..20).map(|_| Step::Items(openai_chunks()));
    let model = LangChainModel::new("fake", FakeLlm::new(items)).with_streaming(StreamFormat::OpenAi);
    conformance::model(model).assume_deterministic().await.assert_conforms();
    let steps = (0..20).map(|_| Step::Pieces(vec!["Hel", "lo."], Some(text("Hello."))));
    let model = LangChainModel::new("fake", FakeLlm::new(steps)).with_streaming(StreamFormat::Events);
    conformance::model(model).assume_deterministic().await.assert_conforms();
    // Through both adapters.
    let llm = HaftLlm::new(TestModel::new());
    conformance::model(LangChainModel::new("test", llm.clone())).await.assert_conforms();
    let model = LangChainModel::new("test", llm).with_streaming(StreamFormat::Events);
    conformance::model(model).await.assert_conforms();
}

/// A call in pieces is one call, in each format of a stream.
#[tokio::test]
async fn call_in_pieces_is_one_call() {
    let part = |index: Value, id: Value, name: Value, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "id": id, "function": function}]}}]})
    };
    let none = || Value::Null;
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let mut cases: Vec<(StreamFormat, Vec<Value>)> = [
        vec![
            part(json!(0), json!("a"), json!("ad"), ""),
            part(json!(0), none(), json!("d"), ""),
            part(json!(0), none(), none(), r#"{"x":1,"y":2}"#),
        ],
        vec![
            part(json!(0), json!("a"), json!("ad"), r#"{"x":1"#),
            part(json!(0), json!("a"), json!("d"), r#","y":2}"#),
        ],
        vec![
            part(json!(0), json!("a"), json!("add"), ""),
            part(json!(1), none(), none(), r#"{"x":1,"#),
            part(json!(1), none(), none(), r#""y":2}"#),
        ],
        vec![
            part(json!(0), json!("a"), json!("add"), ""),
            part(json!(0), json!(""), json!(""), r#"{"x":1,"y":2}"#),
        ],
        vec![
            part(json!(0), json!("a"), json!("add"), ""),
            part(json!(0), json!("null"), none(), r#"{"x":1,"y":2}"#),
        ],
        vec![
            part(json!(0), json!("a"), json!("add"), ""),
            part(json!(0), json!("null"), json!("add"), r#"{"x":1,"#),
            part(json!(0), json!("null"), json!("add"), r#""y":2}"#),
        ],
    ]
    .into_iter()
    .map(|chunks| (StreamFormat::OpenAi, [chunks, vec![end.clone()]].concat()))
    .collect();
    let start = |name: &str| json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": name, "input": {}}});
    let input = |index: u8, json: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}});
    let stop = || {
        vec![
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ]
    };
    for events in [
        vec![start("ad"), start("d"), input(0, r#"{"x":1,"y":2}"#)],
        vec![start("add"), input(1, r#"{"x":1,"#), input(2, r#""y":2}"#)],
    ] {
        cases.push((StreamFormat::Anthropic, [events, stop()].concat()));
    }
    for (format, items) in cases {
        let (_, reply) = stream(format, Step::Items(items.clone())).await;
        assert_eq!(reply.unwrap().message.tool_calls, [("a", "add", r#"{"x":1,"y":2}"#).into()], "{items:?}");
    }
}

/// A call without a name is an error, in each format and in a whole reply.
#[tokio::test]
async fn call_without_a_name_is_an_error() {
    let function = json!({"arguments": "{}"});
    let delta = json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]});
    let openai = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]});
    let anthropic = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "input": {"x": 1}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let ollama = json!({"message": {"content": "", "tool_calls": [{"function": {"arguments": {"x": 1}}}]}, "done": true});
    for (format, items) in [
        (StreamFormat::OpenAi, vec![openai]),
        (StreamFormat::Anthropic, anthropic.to_vec()),
        (StreamFormat::Ollama, vec![ollama]),
    ] {
        let (_, reply) = stream(format, Step::Items(items)).await;
        assert!(matches!(reply, Err(ModelError::InvalidResponse(_))), "{format:?}: {reply:?}");
    }
    let llm = FakeLlm::with_results([calls([("a", "", r#"{"x":1}"#)])]);
    let reply = LangChainModel::new("fake", llm).chat(&request_with_tools().await).await;
    assert!(matches!(reply, Err(ModelError::InvalidResponse(_))), "{reply:?}");
}

/// The input of a tool that the server runs itself is not part of another call.
#[tokio::test]
async fn input_of_a_server_tool_is_ignored() {
    let mut events = anthropic_events();
    let start = json!({"type": "content_block_start", "index": 2, "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}});
    let input = json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}});
    events.splice(8..8, [start, input]);
    let (_, reply) = stream(StreamFormat::Anthropic, Step::Items(events)).await;
    assert_eq!(reply.unwrap().message.tool_calls, [("toolu_1", "add", r#"{"x":17,"y":25}"#).into()]);
}
