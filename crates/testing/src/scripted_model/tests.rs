use futures::{FutureExt as _, StreamExt as _};

use super::ScriptedModel;
use haft_core::{
    ChatModel as _, Message, ToolCall,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError},
    usage::Usage,
};
use serde_json::json;

#[tokio::test]
async fn chunks_are_streamed_as_given_and_count_as_one_request() {
    let model = ScriptedModel::new().reply_chunks(["It ", "is 42."]).reply_chunks(["Yes."]);
    let request = ChatRequest::new([Message::user("?")]);
    let events: Vec<_> = model.stream(&request).map(Result::unwrap).collect().await;
    let [
        ChatEvent::TextDelta { text: first },
        ChatEvent::TextDelta { text: second },
        ChatEvent::Finished(whole),
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((&**first, &**second, &*whole.message.text()), ("It ", "is 42.", "It is 42."));
    assert_eq!(whole.usage.requests, 1);
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "Yes.");
}

/// A scripted reply has calls from an array, a vector or an iterator, with borrowed or owned text
/// and with JSON values, and text beside them.
#[tokio::test]
async fn calls_are_scripted_from_any_iterator() {
    let owned = vec![("c".to_owned(), String::from("add"), json!({"x": 1}))];
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", "{}")])
        .reply_calls(owned)
        .reply_calls((1..=2).map(|n| ToolCall::new(format!("d{n}"), "add", "oops")))
        .reply_calls(Vec::<ToolCall>::new())
        .reply_text_and_calls("I add.", [("e", "add", json!({"x": 2}))]);
    let request = ChatRequest::new([Message::user("?")]);
    let mut lines = Vec::new();
    for _ in 0..5 {
        let reply = model.chat(&request).await.unwrap();
        let calls =
            reply.message.tool_calls.iter().map(|it| format!("{} {} {}", it.id, it.name, it.arguments));
        lines.push(format!("{:?} {}", reply.message.text(), calls.collect::<Vec<_>>().join("; ")));
    }
    let expected = [
        r#""" a add {}"#,
        r#""" c add {"x":1}"#,
        r#""" d1 add oops; d2 add oops"#,
        r#""" "#,
        r#""I add." e add {"x":2}"#,
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn reply_without_usage_counts_as_one_request() {
    let exact = ChatResponse { usage: Usage::one_request(7, 2), ..ChatResponse::new("Yes.") };
    let model = ScriptedModel::new()
        .reply(ChatResponse::new("Yes."))
        .reply_with(|_| Ok(ChatResponse::new("Yes.")))
        .reply_with(|_| Ok(exact));
    let request = ChatRequest::new([Message::user("?")]);
    for expected in [Usage::one_request(0, 0), Usage::one_request(0, 0), Usage::one_request(7, 2)] {
        assert_eq!(model.chat(&request).await.unwrap().usage, expected);
    }
}

#[tokio::test]
async fn truncated_reply_is_an_error_whole_and_streamed() {
    let truncated = || [Ok(ChatEvent::TextDelta { text: "It".to_owned() }), Err(ModelError::EmptyResponse)];
    let model = ScriptedModel::new().reply_events(truncated()).reply_events(truncated());
    let request = ChatRequest::new([Message::user("?")]);
    let events: Vec<_> = model.stream(&request).collect().await;
    assert!(matches!(events.as_slice(), [Ok(_), Err(ModelError::EmptyResponse)]));
    assert!(matches!(model.chat(&request).await, Err(ModelError::EmptyResponse)));
}

#[tokio::test]
async fn hanging_step_never_replies() {
    let model = ScriptedModel::new().hang().hang().reply_text("There.");
    let request = ChatRequest::new([Message::user("?")]);
    assert!(model.chat(&request).now_or_never().is_none());
    assert!(model.stream(&request).next().now_or_never().is_none());
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "There.");
}
