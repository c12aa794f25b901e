use futures::{FutureExt as _, StreamExt as _};

use super::ScriptedModel;
use haft_core::{
    ChatModel as _, Message,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError},
    usage::Usage,
};

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
