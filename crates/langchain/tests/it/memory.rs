//! Messages and memories in both directions.

use std::sync::Arc;

use haft_core::{
    Message, ToolError, ToolResult, Transcript,
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use haft_langchain::{
    HaftMemory, MessageError, append_to_memory, from_langchain,
    langchain_rust::{
        memory::SimpleMemory,
        schemas::{self as foreign, BaseMemory},
    },
    read_memory, to_langchain,
};
use serde_json::json;

/// A conversation with two calls in one reply, one of which fails, and an image.
fn conversation() -> Vec<Message> {
    let picture = Content::from_bytes(*b"\x89PNG", "image/png");
    let calls =
        vec![("call_1", "add", r#"{"x":17,"y":25}"#).into(), ("call_2", "add", r#"{"x":"a","y":25}"#).into()];
    vec![
        Message::system("Be brief."),
        Message::new(MessageBody::User { content: vec!["What is this?".into(), picture] }),
        Message::assistant(AssistantMessage {
            content: vec!["I will add.".into()],
            reasoning: Some("hm".to_owned()),
            tool_calls: calls,
            ..AssistantMessage::default()
        }),
        Message::tool(ToolResult::done("call_1", "add", "42".into())),
        Message::tool(ToolResult::failed("call_2", "add", &ToolError::failed("not a number"))),
        Message::assistant("It is 42."),
    ]
}

fn outline(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| outline_of(message)).collect()
}

fn outline_of(message: &Message) -> String {
    let calls: Vec<_> =
        message.tool_calls().iter().map(|it| format!("{}={}{}", it.id, it.name, &*it.arguments)).collect();
    let result = message.tool_result().map(|it| format!("{}={} ", it.call_id, it.name));
    format!("{}{}{}", result.unwrap_or_default(), message.text().replace('\n', "|"), calls.join(";"))
}

/// A transcript passes through a LangChain memory with its calls, ids and images.
#[tokio::test]
async fn transcript_passes_through_a_langchain_memory() {
    let transcript: Transcript = conversation().into_iter().collect();
    let mut memory = SimpleMemory::new();
    append_to_memory(&mut memory, transcript.messages()).await.unwrap();
    let stored = memory.messages().await.unwrap();
    assert_eq!(stored[2].parse_tool_calls()[1].id, "call_2");
    assert_eq!(stored[4].id.as_deref(), Some("call_2"));
    assert_eq!(stored[1].images.as_ref().unwrap()[0].image_url, "data:image/png;base64,iVBORw==");

    let read = read_memory(&memory).await.unwrap();
    assert_eq!(outline(read.messages()), outline(transcript.messages()));
    assert!(read.tool_results().all(ToolResult::is_success), "LangChain does not record failures");
}

/// A haft transcript is a LangChain memory, which loses nothing of earlier messages.
#[tokio::test]
async fn transcript_is_a_langchain_memory() {
    let transcript: Transcript = conversation().into_iter().collect();
    let mut memory = HaftMemory::new(transcript.clone());
    memory.add_user_message(&"And 1 plus 2?").await.unwrap();
    let call = foreign::ToolCall::new("call_3", "add", r#"{"x":1,"y":2}"#);
    memory.add_message(foreign::Message::new_ai_message_with_tool_calls("", &[call])).await.unwrap();
    memory.add_message(foreign::Message::new_tool_message("3", "call_3")).await.unwrap();
    assert_eq!(memory.messages().await.unwrap().len(), 9);
    let (earlier, new) = memory.transcript().messages().split_at(6);
    assert_eq!(earlier, transcript.messages());
    assert_eq!(outline(new), ["And 1 plus 2?", r#"call_3=add{"x":1,"y":2}"#, "call_3=add 3"]);
    memory.clear().await.unwrap();
    assert!(memory.transcript().is_empty());
    assert_eq!(transcript.len(), 6);
}

/// A message that haft cannot represent is an error with its index.
#[test]
fn malformed_message_is_an_error_with_its_index() {
    let hello = foreign::Message::new_human_message("hello");
    let calls = foreign::Message::new_ai_message("").with_tool_calls(json!([{"call": 1}]));
    assert_eq!(from_langchain([hello.clone(), calls]), Err(MessageError::InvalidToolCalls { index: 1 }));
    let images = hello.with_images(vec!["https://a/cat.png", "no image"]);
    assert_eq!(from_langchain([images]), Err(MessageError::InvalidImage { index: 0, image: 1 }));
}

#[tokio::test]
async fn malformed_message_of_a_memory_has_its_index() {
    let mut memory = HaftMemory::new(conversation().into_iter().collect::<Transcript>());
    let message = foreign::Message::new_ai_message("").with_tool_calls(json!([{"call": 1}]));
    let error = memory.add_message(message).await.unwrap_err().to_string();
    assert!(error.contains("message 6:"), "{error}");
}

/// An image with a URL keeps its URL in both directions.
#[test]
fn image_with_a_url_keeps_its_url() {
    let message = foreign::Message::new_human_message("look").with_images(vec!["https://a/cat.png"]);
    let ours = from_langchain([message.clone()]).unwrap().remove(0);
    assert_eq!(ours.text(), "look\n[image](https://a/cat.png)");
    assert_eq!(to_langchain(&ours).images, message.images);
}
