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

use super::{super::StepFormat, *};
use crate::{Dialect, JsonReact, TextReact};

/// Streams a reply in the given chunks. Returns the emitted thought and the emitted answer.
fn streamed(chunks: impl IntoIterator<Item = String>) -> (String, String) {
    let chunks: Vec<_> = chunks.into_iter().collect();
    let end = ChatEvent::Finished(ChatResponse::new(chunks.concat()).into());
    let mut stream_parser = TextReact.stream_parser(None);
    let (mut thought, mut answer) = (String::new(), String::new());
    for event in chunks.into_iter().map(|text| ChatEvent::TextDelta { text }).chain([end]) {
        for delta in stream_parser.push(&event) {
            match delta {
                ReplyDelta::Reasoning(more) => thought += &more,
                ReplyDelta::Text(more) => answer += &more,
                _ => {}
            }
        }
    }
    (thought, answer)
}

/// The thought and the answer are streamed without the labels around them.
#[test]
fn thought_and_answer_are_streamed() {
    let mut stream_parser = TextReact.stream_parser(None);
    let mut emitted = String::new();
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
        let deltas = stream_parser.push(&ChatEvent::TextDelta { text: text.to_owned() });
        emitted += &format!("{deltas:?}");
    }
    expect_test::expect![[
        r#"[][Reasoning("I")][Reasoning(" know")][Reasoning(" it.")][][][Text("4")][Text("2")][]"#
    ]]
    .assert_eq(&emitted);
    let streamed = |text: &str| streamed([text.to_owned()]);
    let pair = |thought: &str, answer: &str| (thought.to_owned(), answer.to_owned());
    assert_eq!(streamed("I look.\nAction: search\nArguments: {\"answer\": \"no\"}"), pair("I look.", ""));
    assert_eq!(streamed("Thought: So.\nFinal Answer: It is\n42.\n"), pair("So.", "It is\n42."));
    assert_eq!(streamed("Action: finish\nArguments: {'answer': '42'}"), pair("", "42"));
    assert_eq!(streamed("It is 42."), pair("", ""));
    assert_eq!(streamed("Action: add\nArguments: {}\nFinal Answer: 43"), pair("", ""));
    assert_eq!(streamed("Action: finish\nArguments: {\"answer\":\"42\"}\nFinal Answer: 43"), pair("", "42"));
    assert_eq!(streamed("Answer: {\"answer\": \"42\"}"), pair("", "42"));
}

/// A server may send reasoning in a separate field, in addition to a thought in the text. Both are
/// emitted, reasoning first, and the complete reply must contain the same text.
#[test]
fn reasoning_precedes_the_thought() {
    for (dialect, text) in [
        (&TextReact as &dyn Dialect, "Thought: I look.\nAction: search\nArguments: {}"),
        (&JsonReact::new(), r#"{"thought":"I look.","tool_name":"search","tool_args":{}}"#),
        (&JsonReact::new(), r#"{"reasoning":"I look.","tool_name":"search","tool_args":{}}"#),
    ] {
        let message =
            AssistantMessage { reasoning: Some("I search.".to_owned()), ..AssistantMessage::from(text) };
        let response = ChatResponse::new(message);
        let mut stream_parser = dialect.stream_parser(None);
        let mut thought = String::new();
        for delta in response.clone().into_events().flat_map(|event| stream_parser.push(&event)) {
            match delta {
                ReplyDelta::Reasoning(more) => thought += &more,
                ReplyDelta::Text(more) => panic!("{more}"),
                _ => {}
            }
        }
        assert_eq!(thought, "I search.\n\nI look.", "{text}");
        assert_eq!(dialect.parse_reply(response, None).message.reasoning, Some(thought));
    }
}

/// A `<think>` block in the text is reasoning, and a quoted step in it is not streamed as a step.
#[test]
fn think_block_is_streamed_as_reasoning() {
    let block = "<think>Maybe {\"thought\":\"no\",\"tool_name\":\"rm\"}?\nAction: rm\n</think>\n";
    for (dialect, step) in [
        (&TextReact as &dyn Dialect, "Thought: I know.\nFinal Answer: 42"),
        (&JsonReact::new(), r#"{"thought":"I know.","tool_name":"finish","tool_args":{"answer":"42"}}"#),
    ] {
        let message = AssistantMessage {
            reasoning: Some("Hm.".to_owned()),
            ..AssistantMessage::from(format!("{block}{step}"))
        };
        let response = ChatResponse::new(message);
        let mut stream_parser = dialect.stream_parser(None);
        let deltas = response.clone().into_events().flat_map(|event| stream_parser.push(&event));
        let (mut thought, mut answer) = (String::new(), String::new());
        for delta in deltas {
            match delta {
                ReplyDelta::Reasoning(more) => thought += &more,
                ReplyDelta::Text(more) => answer += &more,
                other => panic!("{other:?}"),
            }
        }
        let quoted = "Maybe {\"thought\":\"no\",\"tool_name\":\"rm\"}?\nAction: rm";
        assert_eq!((&*thought, &*answer), (&*format!("Hm.\n\n{quoted}\n\nI know."), "42"));
        let reply = dialect.parse_reply(response, None).message;
        assert_eq!((reply.text(), reply.reasoning), (answer, Some(thought)));
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn chunked_step_streams_the_text_of_the_whole_step(thought in "[a-zA-Z ,.:\n*é]{0,60}", answer in "[^\u{0}]{1,40}", plain: bool, cuts in vec(any::<u8>(), 1..20)) {
        let reply_text = if plain {
            format!("Thought: {thought}\nFinal Answer: {answer}")
        } else {
            TextReact::format_step(&thought, FINISH, &json!({"answer": answer}))
        };
        check_chunks(&reply_text, cuts)?;
    }

    /// Arbitrary text must not cause a panic, and the streamed text must equal the text of the
    /// complete reply.
    #[test]
    fn arbitrary_text_streams_what_is_parsed(text in "([a-zA-Z: \n{}\"'\\[\\]=,*`#0-9\\\\]|\nThought:|\nAction:|finish\n|add\n|Arguments:|\nAnswer:|\nObservation:|\nQuestion:|[{]\"answer\": \"|\\\\u|```|<think>|</think>)*", cuts in vec(any::<u8>(), 1..20)) {
        check_chunks(&text, cuts)?;
    }
}

/// Checks that `reply_text` is streamed as the same text for any chunking, and that this text
/// equals the text of the complete reply. A byte of `cuts` that is divisible by 4 starts a new
/// chunk.
fn check_chunks(reply_text: &str, cuts: Vec<u8>) -> Result<(), TestCaseError> {
    let mut chunks = vec![String::new()];
    let mut cuts = cuts.into_iter().cycle();
    for char in reply_text.chars() {
        if cuts.next().is_some_and(|cut| cut % 4 == 0) {
            chunks.push(String::new());
        }
        chunks.last_mut().unwrap().push(char);
    }
    let deltas = streamed(chunks);
    prop_assert_eq!(&deltas, &streamed([reply_text.to_owned()]));
    let reply = TextReact.parse_reply(ChatResponse::new(reply_text), None);
    if reply.problem.is_none() {
        let message = reply.message;
        let answer = if message.tool_calls.is_empty() { message.text() } else { String::new() };
        prop_assert_eq!(deltas, (message.reasoning.unwrap_or_default(), answer));
    }
    Ok(())
}
