use haft_core::{
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse},
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseError},
};
use serde_json::json;

use super::super::{Form, TextReact};
use super::*;
use crate::{Dialect, JsonReact};

/// What a watcher is told of a reply in these pieces, and of the whole reply at its end.
fn heard(chunks: impl IntoIterator<Item = String>) -> (String, String) {
    let chunks: Vec<_> = chunks.into_iter().collect();
    let end = ChatEvent::Finished(ChatResponse::new(chunks.concat()).into());
    let mut listener = TextReact.listener(None);
    let (mut thought, mut answer) = (String::new(), String::new());
    for event in chunks.into_iter().map(|text| ChatEvent::TextDelta { text }).chain([end]) {
        for delta in listener.push(&event) {
            match delta {
                Delta::Thought(more) => thought += &more,
                Delta::Text(more) => answer += &more,
            }
        }
    }
    (thought, answer)
}

/// Behaviour C77: at once, and without the protocol.
#[test]
fn thought_and_answer_are_heard_while_they_come() {
    let mut listener = TextReact.listener(None);
    let mut told = String::new();
    for text in [
        "Thou",
        "ght: I",
        " know",
        " it.\n",
        "Action: fin",
        "ish\nArgu",
        "ments: {\"answer\": \"4",
        "2",
        "\"}",
    ] {
        let deltas = listener.push(&ChatEvent::TextDelta { text: text.to_owned() });
        told += &format!("{deltas:?}");
    }
    expect_test::expect![[
        r#"[][Thought("I")][Thought(" know")][Thought(" it.")][][][Text("4")][Text("2")][]"#
    ]]
    .assert_eq(&told);
    let heard = |text: &str| heard([text.to_owned()]);
    let pair = |thought: &str, answer: &str| (thought.to_owned(), answer.to_owned());
    assert_eq!(heard("I look.\nAction: search\nArguments: {\"answer\": \"no\"}"), pair("I look.", ""));
    assert_eq!(heard("Thought: So.\nFinal Answer: It is\n42.\n"), pair("So.", "It is\n42."));
    assert_eq!(heard("Action: finish\nArguments: {'answer': '42'}"), pair("", "42"));
    assert_eq!(heard("It is 42."), pair("", ""));
    assert_eq!(heard("Action: add\nArguments: {}\nFinal Answer: 43"), pair("", ""));
    assert_eq!(heard("Action: finish\nArguments: {\"answer\":\"42\"}\nFinal Answer: 43"), pair("", "42"));
    assert_eq!(heard("Answer: {\"answer\": \"42\"}"), pair("", "42"));
}

/// What the server takes as thinking and what the model calls a thought are both kept, apart.
#[test]
fn reasoning_and_thought_are_both_kept() {
    for (dialect, text) in [
        (&TextReact as &dyn Dialect, "Thought: I look.\nAction: search\nArguments: {}"),
        (&JsonReact::new(), r#"{"thought":"I look.","tool_name":"search","tool_args":{}}"#),
        (&JsonReact::new(), r#"{"reasoning":"I look.","tool_name":"search","tool_args":{}}"#),
    ] {
        let message =
            AssistantMessage { reasoning: Some("I search.".to_owned()), ..AssistantMessage::from(text) };
        let response = ChatResponse::new(message);
        let mut listener = dialect.listener(None);
        let mut thought = String::new();
        for delta in response.clone().into_events().flat_map(|event| listener.push(&event)) {
            match delta {
                Delta::Thought(more) => thought += &more,
                Delta::Text(more) => panic!("{more}"),
            }
        }
        assert_eq!(thought, "I search.\n\nI look.", "{text}");
        assert_eq!(dialect.fold(response, None).message.reasoning, Some(thought));
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn what_is_heard_is_what_is_said(thought in "[a-zA-Z ,.:\n*é]{0,60}", answer in "[^\u{0}]{1,40}", plain: bool, cuts in vec(any::<u8>(), 1..20)) {
        let written = if plain {
            format!("Thought: {thought}\nFinal Answer: {answer}")
        } else {
            Text::write(&thought, FINISH, &json!({"answer": answer}))
        };
        check_heard(&written, cuts)?;
    }

    /// Whatever a model writes, it is read without a panic, and what is heard of it is what is
    /// read.
    #[test]
    fn anything_can_be_read(text in "([a-zA-Z: \n{}\"'\\[\\]=,*`#0-9\\\\]|\nThought:|\nAction:|finish\n|add\n|Arguments:|\nAnswer:|\nObservation:|\nQuestion:|[{]\"answer\": \"|\\\\u|```|<think>|</think>)*", cuts in vec(any::<u8>(), 1..20)) {
        check_heard(&text, cuts)?;
    }
}

/// Any re-chunking of a reply is heard as the same words, and they are those of the whole reply.
fn check_heard(written: &str, cuts: Vec<u8>) -> Result<(), TestCaseError> {
    let mut chunks = vec![String::new()];
    let mut cuts = cuts.into_iter().cycle();
    for char in written.chars() {
        if cuts.next().is_some_and(|cut| cut % 4 == 0) {
            chunks.push(String::new());
        }
        chunks.last_mut().unwrap().push(char);
    }
    let told = heard(chunks);
    prop_assert_eq!(&told, &heard([written.to_owned()]));
    let reply = TextReact.fold(ChatResponse::new(written), None);
    if reply.problem.is_none() {
        let message = reply.message;
        let answer = if message.tool_calls.is_empty() { message.text() } else { String::new() };
        prop_assert_eq!(told, (message.reasoning.unwrap_or_default(), answer));
    }
    Ok(())
}
