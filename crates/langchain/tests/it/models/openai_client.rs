//! LangChain's own OpenAI and Claude clients against a server on the loopback interface.

use haft_core::{
    ChatModel as _, Message,
    model::{ChatRequest, ModelError},
};
use haft_langchain::{
    LangChainModel, StreamFormat,
    langchain_rust::llm::{Claude, OpenAI, OpenAIConfig},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// Starts a server that sends `response` to its first connection, and returns its address.
async fn serve(response: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        // The body is a JSON object without braces in strings.
        while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") || request.last() != Some(&b'}') {
            let length = socket.read(&mut buffer).await.unwrap();
            request.extend_from_slice(&buffer[..length]);
        }
        socket.write_all(response.as_bytes()).await.unwrap();
        socket.shutdown().await.unwrap();
    });
    address
}

fn sse(events: &[&str]) -> String {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

fn openai(address: &str) -> LangChainModel {
    let config = OpenAIConfig::new().with_api_base(address).with_api_key("sk-secret");
    LangChainModel::new("gpt", OpenAI::new(config)).with_streaming(StreamFormat::OpenAi)
}

fn request() -> ChatRequest {
    ChatRequest::new([Message::user("What is 17 plus 25?")])
}

const CHUNK: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt","choices":[{"index":0,"delta":{"content":"It is 42."},"finish_reason":null}]}"#;
const END: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

/// The streams of LangChain's OpenAI client are complete replies.
#[tokio::test]
async fn stream_of_the_openai_client_is_a_reply() {
    let address = serve(sse(&[CHUNK, END, "[DONE]"])).await;
    assert_eq!(openai(&address).chat(&request()).await.unwrap().message.text(), "It is 42.");
}

/// The calls in a stream of LangChain's OpenAI client keep their ids, and the text beside them is
/// kept.
#[tokio::test]
async fn calls_in_a_stream_of_the_openai_client_keep_their_ids() {
    let chunk = |delta: &str, reason: &str| {
        format!(
            r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt","choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]}}"#
        )
    };
    let call = r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"x\":17,"}}]}"#;
    let rest = r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"y\":25}"}}]}"#;
    let events = [
        chunk(r#"{"role":"assistant","content":"Adding."}"#, "null"),
        chunk(call, "null"),
        chunk(rest, "null"),
        chunk("{}", r#""tool_calls""#),
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}"#
            .to_owned(),
        "[DONE]".to_owned(),
    ];
    let address = serve(sse(&events.each_ref().map(String::as_str))).await;
    let reply = openai(&address).chat(&request()).await.unwrap();
    assert_eq!(reply.message.text(), "Adding.");
    assert_eq!(reply.message.tool_calls, [("call_1", "add", r#"{"x":17,"y":25}"#).into()]);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (9, 4));
}

/// A stream that the OpenAI client counts as complete, although it ended early, is truncated.
#[tokio::test]
async fn truncated_stream_of_the_openai_client_is_an_error() {
    let address = serve(sse(&[CHUNK])).await;
    let error = openai(&address).chat(&request()).await.unwrap_err();
    let ModelError::Truncated { partial, .. } = error else { panic!("{error}") };
    assert_eq!(partial.text(), "It is 42.");
}

/// Returns a response without its last chunk: the connection is lost after `events`.
fn lost_sse(events: &[&str]) -> String {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n",
        body.len()
    )
}

fn claude(address: String) -> LangChainModel {
    let claude = Claude::new().with_base_url(address).with_api_key("sk-secret");
    LangChainModel::new("claude", claude).with_streaming(StreamFormat::Anthropic)
}

const CLAUDE_START: &str = r#"{"type":"message_start","message":{"id":"m","model":"claude","usage":{"input_tokens":1,"output_tokens":1}}}"#;
const CLAUDE_TEXT: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"It is 42."}}"#;
const CLAUDE_END: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}"#;

/// A connection that is lost during a stream truncates the reply, also before the text.
#[tokio::test]
async fn lost_connection_truncates_the_stream() {
    for (events, text) in [(vec![CHUNK], "It is 42."), (vec![], "")] {
        let error = openai(&serve(lost_sse(&events)).await).chat(&request()).await.unwrap_err();
        let ModelError::Truncated { partial, .. } = error else { panic!("{error}") };
        assert_eq!(partial.text(), text);
    }
    for (events, text) in [(vec![CLAUDE_START, CLAUDE_TEXT], "It is 42."), (vec![CLAUDE_START], "")] {
        let error = claude(serve(lost_sse(&events)).await).chat(&request()).await.unwrap_err();
        let ModelError::Truncated { partial, .. } = error else { panic!("{error}") };
        assert_eq!(partial.text(), text);
    }
}

/// A connection that is lost after the end of the reply does not discard the reply.
#[tokio::test]
async fn lost_connection_after_the_reply_keeps_the_reply() {
    let reply = openai(&serve(lost_sse(&[CHUNK, END])).await).chat(&request()).await.unwrap();
    assert_eq!(reply.message.text(), "It is 42.");
    let events = [CLAUDE_START, CLAUDE_TEXT, CLAUDE_END, r#"{"type":"message_stop"}"#];
    let reply = claude(serve(lost_sse(&events)).await).chat(&request()).await.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.usage.output_tokens), ("It is 42.", 4));
}

/// A chunk without choices, which Azure sends before the text, is skipped.
#[tokio::test]
async fn chunk_without_choices_is_skipped() {
    let filter = r#"{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[]}"#;
    let reply = openai(&serve(sse(&[filter, CHUNK, END, "[DONE]"])).await).chat(&request()).await.unwrap();
    assert_eq!(reply.message.text(), "It is 42.");
}

/// A call of Claude without its input is never a call without arguments.
#[tokio::test]
async fn truncated_stream_of_the_claude_client_is_an_error() {
    let events = [
        CLAUDE_START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"add","input":{}}}"#,
    ];
    let error = claude(serve(sse(&events)).await).chat(&request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error}");
}

#[tokio::test]
async fn status_of_a_response_determines_the_error() {
    let body = r#"{"error":{"message":"bad key","type":"invalid_request_error","param":null,"code":null}}"#;
    let length = body.len();
    let response = format!(
        "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let address = serve(response.clone()).await;
    let config = OpenAIConfig::new().with_api_base(address).with_api_key("sk-secret");
    let error = LangChainModel::new("gpt", OpenAI::new(config)).chat(&request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Unauthorized(_)), "{error:?}");
    assert!(!error.to_string().contains("sk-secret"));
    let claude = Claude::new().with_base_url(serve(response).await).with_api_key("sk-secret");
    let error = LangChainModel::new("claude", claude).chat(&request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Rejected { status: 400, .. }), "{error:?}");
}
