//! Property tests of the accumulators with arbitrary events.

use std::{collections::VecDeque, sync::LazyLock};

use haft_core::model::ChatEvent;
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use haft_http::model::StreamAccumulator;

use super::{ChatAccumulator, ResponsesAccumulator};

/// A sequence of valid Chat Completions events. The tests modify these events.
static CHAT_EVENTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let call = |call: Value| delta(json!({"tool_calls": [call]}));
    vec![
        json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        delta(json!({"content": "Grüße"})),
        delta(json!({"content": "<think>"})),
        delta(json!({"content": " </think"})),
        delta(json!({"content": "> "})),
        delta(json!({"content": [{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "hm"}]})),
        delta(
            json!({"reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
        ),
        delta(json!({"refusal": "no", "extra_content": {"google": {"thought": true}}})),
        call(json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\""}})),
        call(json!({"index": 0, "function": {"arguments": ":1}"}})),
        call(
            json!({"id": "b", "function": {"name": "add", "arguments": {"x": 1}}, "extra_content": {"google": {}}}),
        ),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}}),
        json!({"error": {"message": "boom", "code": 500}}),
    ]
});

/// A sequence of valid Responses events. The tests modify these events.
static RESPONSES_EVENTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let item = |kind: &str, item: Value| json!({"type": format!("response.{kind}"), "output_index": 0, "item": item});
    let delta = |kind: &str| json!({"type": format!("response.{kind}.delta"), "output_index": 0, "item_id": "i", "delta": "Hi"});
    let message = json!({"id": "i", "type": "message", "phase": "final", "content": [{"type": "output_text", "text": "Hi!"}]});
    let thought =
        json!({"id": "r", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
    let call = json!({"id": "f", "type": "function_call", "call_id": "a", "name": "add", "arguments": "{}"});
    let response = |status: &str| {
        let output = json!([message, thought, call]);
        json!({"type": format!("response.{status}"), "response": {"id": "r", "status": status, "output": output, "usage": {"input_tokens": 1}}})
    };
    let mut events: Vec<_> = [&message, &thought, &call]
        .into_iter()
        .flat_map(|it| [item("output_item.added", it.clone()), item("output_item.done", it.clone())])
        .collect();
    let deltas =
        ["output_text", "refusal", "reasoning_summary_text", "reasoning_text", "function_call_arguments"];
    events.extend(deltas.map(delta));
    events.extend(["created", "completed", "incomplete", "failed", "cancelled"].map(response));
    events
});

/// Generates JSON values of types that servers do not normally send.
fn unexpected_value() -> impl Strategy<Value = Value> {
    let unexpected = [
        json!(null),
        json!(true),
        json!(-1),
        json!(7),
        json!(1e300),
        json!(""),
        json!("Hi"),
        json!("{"),
        json!("a<high>"),
        json!("<low>b<high>"),
        json!([]),
        json!([null]),
        json!(["Hi", {}]),
        json!({}),
        json!({"type": "message"}),
        json!({"type": "function_call"}),
        json!({"text": {"text": 1}}),
    ];
    prop::sample::select(unexpected.to_vec())
}

/// A modification of an event. The value at one position is replaced with an unexpected value, or
/// with a value from a different event.
#[derive(Clone, Debug)]
enum Change {
    None,
    Value(Index, Value),
    Part(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => Just(Change::None),
        2 => (any::<Index>(), unexpected_value()).prop_map(|(place, unexpected)| Change::Value(place, unexpected)),
        1 => any::<[Index; 3]>().prop_map(|[place, event, part]| Change::Part(place, event, part)),
    ]
}

/// Adds the JSON pointers (RFC 6901) of all positions in `value` to `places`. `at` is the pointer
/// to `value` itself.
fn pointers(value: &Value, at: &str, places: &mut Vec<String>) {
    places.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), places));
        }
        Value::Array(list) => (0..)
            .zip(list)
            .for_each(|(key, value): (usize, _)| pointers(value, &format!("{at}/{key}"), places)),
        _ => {}
    }
}

fn apply_change(events: &[Value], event: Index, change: &Change) -> Value {
    let mut value = event.get(events).clone();
    let place = |value: &Value, index: &Index| {
        let mut all = Vec::new();
        pointers(value, "", &mut all);
        index.get(&all).clone()
    };
    let (at, new) = match change {
        Change::None => return value,
        Change::Value(at, unexpected) => (at, unexpected.clone()),
        Change::Part(at, event, part) => {
            let other = event.get(events);
            (at, other.pointer(&place(other, part)).cloned().unwrap_or_default())
        }
    };
    let at = place(&value, at);
    if let Some(value) = value.pointer_mut(&at) {
        *value = new;
    }
    value
}

/// Encodes `event` as JSON. `<high>` and `<low>` are replaced by escapes of lone surrogates.
fn to_bytes(event: &Value) -> Vec<u8> {
    event.to_string().replace("<high>", r"\ud83c").replace("<low>", r"\udf0d").into_bytes()
}

/// Adds the events `sent` to an accumulator. If they form a reply, asserts that its text and its
/// reasoning equal the concatenated deltas.
fn check_events<F: StreamAccumulator>(sent: &[Value]) -> Result<(), TestCaseError> {
    let (mut accumulator, mut events) = (F::default(), VecDeque::new());
    for event in sent {
        let Ok(event) = F::read(&to_bytes(event)) else { return Ok(()) };
        if accumulator.add(event, &mut events).is_err() {
            return Ok(());
        }
    }
    let Ok(reply) = StreamAccumulator::finish(accumulator, &mut events) else { return Ok(()) };
    let (mut text, mut thoughts) = (String::new(), String::new());
    for event in events {
        match event {
            ChatEvent::TextDelta { text: more } => text.push_str(&more),
            ChatEvent::ReasoningDelta { text: more } => thoughts.push_str(&more),
            _ => {}
        }
    }
    prop_assert_eq!(text, reply.message.text());
    prop_assert_eq!(thoughts, reply.message.reasoning.unwrap_or_default());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No input may cause a panic, and the concatenated deltas must equal the text and the
    /// reasoning of the reply.
    #[test]
    fn any_events_result_in_a_reply_or_an_error(changes in prop::collection::vec((any::<Index>(), change()), 1..8)) {
        let sent = |events: &[Value]| changes.iter().map(|(event, change)| apply_change(events, *event, change)).collect::<Vec<_>>();
        check_events::<ChatAccumulator>(&sent(&CHAT_EVENTS))?;
        check_events::<ResponsesAccumulator>(&sent(&RESPONSES_EVENTS))?;
        for body in sent(&CHAT_EVENTS).iter().chain(&sent(&RESPONSES_EVENTS)) {
            let body = body.get("response").unwrap_or(body);
            let _ = ChatAccumulator::default().decode_whole(&to_bytes(body));
            let _ = ResponsesAccumulator::default().decode_whole(&to_bytes(body));
        }
    }
}

#[test]
fn item_of_the_wrong_type_is_ignored() {
    let texts = ["Hi".into(), json!(7), json!(["x"]), json!(null)];
    for item in texts {
        let done = |index: i64, item: &Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
        let sent = [
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}),
            done(0, &item),
            done(1, &json!({"type": "reasoning", "summary": []})),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ];
        let (mut accumulator, mut events) = (ResponsesAccumulator::default(), VecDeque::new());
        for event in sent {
            let event = ResponsesAccumulator::read(event.to_string().as_bytes()).unwrap();
            StreamAccumulator::add(&mut accumulator, event, &mut events).unwrap();
        }
        assert_eq!(StreamAccumulator::finish(accumulator, &mut events).unwrap().message.text(), "Hi");
    }
}
