//! Tests of the events of a streamed reply: announced calls, their arguments, and partial outputs.

use std::sync::Arc;

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    RunEvent, ToolCall,
    export::schemars::{self, JsonSchema},
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse},
};
use haft_react::{
    Dialect, JsonReact, ReactAgent, TextReact,
    dialect::{FINISH, parse_partial},
};
use haft_testing::ScriptedModel;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tools::calculator;

/// The events of a reply with `calls` (id, name, arguments), one character of the arguments per
/// event.
fn call_events(calls: &[(&str, &str, &str)]) -> Vec<ChatEvent> {
    let mut events = Vec::new();
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let (id, name) = ((*id).to_owned(), (*name).to_owned());
        events.push(ChatEvent::ToolCallStarted { index, id, name });
        let pieces = arguments.chars().map(|piece| piece.to_string());
        events.extend(pieces.map(|arguments| ChatEvent::ToolCallDelta { index, arguments }));
    }
    let tool_calls =
        calls.iter().map(|(id, name, arguments)| ToolCall::new(*id, *name, *arguments)).collect();
    let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    events.push(ChatEvent::Finished(Box::new(ChatResponse::new(message))));
    events
}

fn reply_calls(model: ScriptedModel, calls: &[(&str, &str, &str)]) -> ScriptedModel {
    model.reply_events(call_events(calls).into_iter().map(Ok))
}

fn reply_chars(model: ScriptedModel, text: &str) -> ScriptedModel {
    model.reply_chunks(text.chars().map(|piece| piece.to_string()))
}

async fn events_of(agent: &ReactAgent) -> Vec<RunEvent> {
    agent.stream("?").try_collect().await.unwrap()
}

/// Formats the events of calls, one per line. Consecutive arguments of a call are joined.
fn call_lines(events: &[RunEvent]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut last = String::new();
    for event in events {
        match event {
            RunEvent::ArgumentsDelta { call_id, arguments } if last == *call_id => {
                lines.last_mut().unwrap().push_str(arguments);
                continue;
            }
            RunEvent::ArgumentsDelta { call_id, arguments } => lines.push(format!("{call_id} {arguments}")),
            RunEvent::CallAnnounced { call_id, tool_name } => lines.push(format!("{call_id} is {tool_name}")),
            RunEvent::RequestFinished { .. } => lines.push("reply".to_owned()),
            RunEvent::CallStarted { call } => lines.push(format!("{} starts {}", call.id, call.arguments)),
            _ => {}
        }
        last = if let RunEvent::ArgumentsDelta { call_id, .. } = event {
            call_id.clone()
        } else {
            String::new()
        };
    }
    lines.join("\n")
}

/// A call is announced with its final id before its arguments arrive. Ids that are missing or
/// repeated are replaced at the announcement.
#[tokio::test]
async fn native_calls_are_announced_with_their_ids() {
    let sum = r#"{"x":1,"y":2}"#;
    let model = reply_calls(ScriptedModel::new(), &[("a", "add", sum), ("", "add", sum)]);
    let model = reply_calls(model, &[("a", "add", sum)]).reply_text("3");
    let agent = ReactAgent::builder(model).tools(calculator()).build().unwrap();
    expect![[r#"
        a is add
        a {"x":1,"y":2}
        call_2 is add
        call_2 {"x":1,"y":2}
        reply
        a starts {"x":1,"y":2}
        call_2 starts {"x":1,"y":2}
        call_3 is add
        call_3 {"x":1,"y":2}
        reply
        call_3 starts {"x":1,"y":2}
        reply"#]]
    .assert_eq(&call_lines(&events_of(&agent).await));
}

/// Calls in a written dialect are announced too. The arguments of a JSON step are streamed.
#[tokio::test]
async fn written_calls_are_announced() {
    let json = r#"{"thought": "So {[.", "tool_name": "add", "tool_args": {"x": [{}], "y": "}"}}"#;
    let model = reply_chars(ScriptedModel::new(), json).reply_text(r#"{"answer": "3"}"#);
    let agent = ReactAgent::builder(model).tools(calculator()).dialect(JsonReact::new()).build().unwrap();
    let events = events_of(&agent).await;
    expect![[r#"
        call_1 is add
        call_1 {"x": [{}], "y": "}"}
        reply
        call_1 starts {"x":[{}],"y":"}"}
        reply"#]]
    .assert_eq(&call_lines(&events));
    let deltas = events.iter().filter(|event| matches!(event, RunEvent::ArgumentsDelta { .. })).count();
    assert_eq!(deltas, r#"{"x": [{}], "y": "}"}"#.len());

    let others: [(&str, Arc<dyn Dialect>); 2] = [
        // The arguments precede the name of the tool, so the call is announced at the end.
        (r#"{"tool_args": {"x":1,"y":2}, "tool_name": "add"}"#, Arc::new(JsonReact::new())),
        ("Thought: So.\nAction: add\nArguments: {\"x\":1,\"y\":2}", Arc::new(TextReact)),
    ];
    for (text, dialect) in others {
        let model = reply_chars(ScriptedModel::new(), text).reply_text(r#"{"answer": "3"}"#);
        let agent = ReactAgent::builder(model).tools(calculator()).dialect(dialect).build().unwrap();
        expect![[r#"
            call_1 is add
            call_1 {"x":1,"y":2}
            reply
            call_1 starts {"x":1,"y":2}
            reply"#]]
        .assert_eq(&call_lines(&events_of(&agent).await));
    }
}

/// A streamed run leaves the same transcript as a run without a reader of its events, also if ids
/// were replaced.
#[tokio::test]
async fn streamed_ids_are_those_of_a_whole_run() {
    let agent = || {
        let [a, b, c, d] = [1, 2, 3, 4].map(|x| json!({"x": x, "y": 2}).to_string());
        let model =
            reply_calls(ScriptedModel::new(), &[("", "add", &a), ("call_1", "add", &b), ("", "add", &c)]);
        let model = reply_calls(model, &[("call_1", "add", &d)]).reply_text("3");
        ReactAgent::builder(model).tools(calculator()).build().unwrap()
    };
    let whole = agent().run("?").await.unwrap().into_answer().unwrap();
    let Some(RunEvent::Done { output }) = events_of(&agent()).await.pop() else { panic!("no end") };
    let streamed = output.into_answer().unwrap();
    let ids = |answer: &haft_core::agent::RunAnswer| -> Vec<String> {
        let messages = answer.transcript.messages().iter();
        messages.flat_map(|message| message.tool_calls()).map(|call| call.id.clone()).collect()
    };
    assert_eq!(ids(&whole), ids(&streamed));
    assert_eq!(ids(&whole), ["call_1", "call_2", "call_3", "call_4"]);
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Recipe {
    title: String,
    minutes: u32,
    steps: Vec<String>,
}

fn partial_values(events: &[RunEvent]) -> Vec<Value> {
    let values = events.iter().filter_map(|event| match event {
        RunEvent::PartialOutput { value } => Some(value.clone()),
        RunEvent::ReplyRejected { .. } => Some(json!("rejected")),
        _ => None,
    });
    values.collect()
}

const RECIPE: &str = r#"{"title":"Pie","minutes":45,"steps":["Mix","Bake"]}"#;

/// The structured output is emitted while it streams, with native calls and in the JSON dialect and
/// the text dialect. The last value is the complete output.
#[tokio::test]
async fn output_is_emitted_while_it_streams() {
    let step = format!(r#"{{"thought":"So.","tool_name":"finish","tool_args":{RECIPE}}}"#);
    let lines = format!("Thought: So.\nAction: finish\nArguments: {RECIPE}");
    let agents = [
        ReactAgent::builder(reply_calls(ScriptedModel::new(), &[("a", FINISH, RECIPE)])),
        ReactAgent::builder(reply_chars(ScriptedModel::new(), &step)).dialect(JsonReact::new()),
        ReactAgent::builder(reply_chars(ScriptedModel::new(), &lines)).dialect(TextReact),
    ];
    for agent in agents {
        let agent = agent.output::<Recipe>().build().unwrap();
        let events = events_of(&agent).await;
        let values = partial_values(&events);
        expect![[r#"
            {}
            {"title":""}
            {"title":"P"}
            {"title":"Pi"}
            {"title":"Pie"}
            {"title":"Pie","minutes":45}
            {"title":"Pie","minutes":45,"steps":[]}
            {"title":"Pie","minutes":45,"steps":[""]}
            {"title":"Pie","minutes":45,"steps":["M"]}
            {"title":"Pie","minutes":45,"steps":["Mi"]}
            {"title":"Pie","minutes":45,"steps":["Mix"]}
            {"title":"Pie","minutes":45,"steps":["Mix",""]}
            {"title":"Pie","minutes":45,"steps":["Mix","B"]}
            {"title":"Pie","minutes":45,"steps":["Mix","Ba"]}
            {"title":"Pie","minutes":45,"steps":["Mix","Bak"]}
            {"title":"Pie","minutes":45,"steps":["Mix","Bake"]}"#]]
        .assert_eq(&distinct_lines(&values));
        let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
        let answer = output.answer().unwrap();
        assert_eq!(values.last(), Some(&json!(answer.outputs)));
        assert!(values.iter().all(|value| parse_partial::<Recipe>(value).is_ok()));
        assert!(!events.iter().any(|event| matches!(event, RunEvent::CallAnnounced { .. })));
    }
}

fn distinct_lines(values: &[Value]) -> String {
    let mut lines: Vec<_> = values.iter().map(Value::to_string).collect();
    lines.dedup();
    lines.join("\n")
}

/// The partial value of an output that is not an object has no wrapper. After a rejected reply, the
/// values begin again.
#[tokio::test]
async fn partial_list_begins_again_after_a_rejection() {
    let model = reply_calls(ScriptedModel::new(), &[("a", FINISH, r#"{"response":[1,"x"]}"#)]);
    let model = reply_calls(model, &[("b", FINISH, r#"{"response":[12,3]}"#)]);
    let agent = ReactAgent::builder(model).output::<Vec<u8>>().build().unwrap();
    expect![[r#"
        []
        [1]
        [1,""]
        [1,"x"]
        "rejected"
        []
        [12]
        [12,3]"#]]
    .assert_eq(&distinct_lines(&partial_values(&events_of(&agent).await)));
}

/// The number of values of a long output is bounded, so their total size is linear.
#[tokio::test]
async fn partial_values_of_a_long_output_are_bounded() {
    let text = json!({"response": ["x".repeat(4000)]}).to_string();
    let model = reply_calls(ScriptedModel::new(), &[("a", FINISH, &text)]);
    let agent = ReactAgent::builder(model).output::<Vec<String>>().build().unwrap();
    let values = partial_values(&events_of(&agent).await);
    let total: usize = values.iter().map(|value| value.to_string().len()).sum();
    assert!(total < 40 * text.len(), "{} values, {total} bytes", values.len());
    assert_eq!(values.last(), Some(&json!(["x".repeat(4000)])));
}
