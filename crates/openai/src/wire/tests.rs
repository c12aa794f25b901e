use super::{Completion, LenientValue, ResponsesEvent};

/// If a JSON object contains a key twice, the last value wins, as in JavaScript and Python.
#[test]
fn last_duplicate_key_wins() {
    let reply = br#"{"id":"a","id":"b","choices":[{"delta":{"content":"a","content":"b"}}]}"#;
    let mut reply = Completion::read(reply).unwrap();
    assert_eq!(reply.id, LenientValue::Text("b".to_owned()));
    let delta = reply.choices.unwrap().remove(0).delta.take().unwrap();
    assert_eq!(delta.content, LenientValue::Text("b".to_owned()));
    reply = Completion::read(br#"{"usage":{"prompt_tokens":1,"prompt_tokens":2}}"#).unwrap();
    assert_eq!(reply.take_usage().unwrap().input_tokens, 2);
    let event = ResponsesEvent::read(br#"{"type":"a","delta":"a","delta":"b"}"#).unwrap();
    assert_eq!(event.delta, LenientValue::Text("b".to_owned()));
}

#[test]
fn value_of_the_wrong_type_is_dropped() {
    let reply =
        br#"{"choices":[7,{"delta":"x","message":{"content":"Hi","tool_calls":[1,{"function":"x"}]}}]}"#;
    let mut choices = Completion::read(reply).unwrap().choices.unwrap();
    assert_eq!(choices.len(), 1);
    let mut choice = choices.remove(0);
    assert!(choice.delta.take().is_none());
    let message = choice.message.take().unwrap();
    assert_eq!(message.content, LenientValue::Text("Hi".to_owned()));
}
