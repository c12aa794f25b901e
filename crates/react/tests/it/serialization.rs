//! Tests that a run can be saved as JSON and loaded between any two steps.

use std::time::Duration;

use expect_test::expect;
use haft_core::{
    Message, RunInput, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult, Transcript,
    agent::{RunLimits, SuspendedRun},
    call::{Decision, Decisions, Pending, PendingCall, PendingKind},
    content::{BinaryData, Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
    model::{ChatResponse, ChatSettings, ToolChoice},
    toolset::ToolList,
    usage::{Cost, Usage},
};
use haft_react::{
    Dialect as _, Effect, NativeCalls, Run, RunConfig, Step,
    run::{RunError, RunHead},
};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest},
};
use serde_json::{Value, json};

use crate::effects::advance;

fn step(tools: &ToolList) -> Step<'_> {
    Step::new(tools, &NativeCalls, Timestamp::from_unix_millis(1))
}

/// A run that was saved in a newer format is rejected. The error contains the format version of the
/// run and the supported format version.
#[test]
fn newer_format_is_rejected() {
    for newer in [json!({"head": {"quite": "different"}, "transcript": null}), json!({"run": "different"})] {
        let mut newer = newer;
        newer["version"] = json!(2);
        let error = serde_json::from_value::<Run>(newer.clone()).unwrap_err().to_string();
        assert_eq!(
            error,
            "run format 2 is not known here, only 1: read it with the version of haft that wrote it"
        );
        let error = serde_json::from_value::<RunHead>(newer).unwrap_err().to_string();
        assert!(error.starts_with("head of a run format 2 is not known here, only 1"), "{error}");
    }
}

/// A malformed run is rejected. The error contains the JSON path and the expected value.
#[test]
fn invalid_run_is_rejected_with_its_path() {
    let good = serde_json::to_value(awaiting_reply()).unwrap();
    let with = |pointer: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        bad
    };
    let errors: Vec<_> = [
        json!("a text"),
        json!({"head": {}}),
        json!({"version": "1"}),
        json!({"version": 1}),
        with("/head/requests", json!(-1)),
        with("/head/config/limits/cost", json!("much")),
        with("/head/state", json!({"name": "dancing"})),
        with("/transcript", json!([])),
        with("/transcript/version", json!(7)),
        with("/transcript/messages/0/body", json!({"role": "user"})),
    ]
    .into_iter()
    .map(|bad| serde_json::from_value::<Run>(bad).unwrap_err().to_string())
    .collect();
    expect![[r#"
        a saved run is an object with a number `version`, `head` and `transcript`; this is not one
        a saved run is an object with a number `version`, `head` and `transcript`; this is not one
        a saved run is an object with a number `version`, `head` and `transcript`; this is not one
        at `transcript`: a saved transcript is an object with a number `version` and `messages`; this is not one
        at `head.requests`: invalid value: integer `-1`, expected u32
        at `head.config.limits.cost`: invalid type: string "much", expected f64
        at `head.state.name`: unknown variant `dancing`, expected one of `ready_to_request`, `preparing`, `compacting`, `awaiting_reply`, `reply_received`, `calling_tools`, `suspended`, `reviewing_calls`, `stopped_by_tool`, `checking_output`, `limit_reached`, `finishing`, `finished`, `cancelled`
        at `transcript`: a saved transcript is an object with a number `version` and `messages`; this is not one
        at `transcript`: transcript format 7 is not known here, only 1: read it with the version of haft that wrote it
        at `transcript`: at `messages[0].body`: missing field `content`"#]].assert_eq(&errors.join("\n"));

    let suspended = SuspendedRun { pending: Vec::new(), checkpoint: json!({"version": 1}) };
    let error = Run::new(&RunConfig::default(), RunInput::resume(suspended, Decisions::new())).unwrap_err();
    assert!(
        error.to_string().starts_with("the run cannot begin: the suspended run cannot be read"),
        "{error}"
    );
}

/// Creates a run that waits for a reply from the model.
fn awaiting_reply() -> Run {
    let config = RunConfig {
        limits: RunLimits { cost: Some(Cost::new(0.1)), ..RunLimits::default() },
        ..RunConfig::default()
    };
    let mut run = Run::new(&config, RunInput::new("Hi")).unwrap();
    assert!(matches!(advance(&mut run, &step(&ToolList::default())).unwrap(), Effect::Chat(_)));
    run
}

/// A run can be saved as a head plus the new messages of the run. The size of the head must not
/// depend on the length of the conversation.
#[test]
fn head_of_a_run_does_not_grow_with_the_conversation() {
    let play = |steps: u32, words: usize| {
        let earlier =
            (0..steps).flat_map(|_| [Message::user("Hm?"), Message::assistant("Hm.".repeat(words))]);
        let mut run = Run::new(
            &RunConfig::default(),
            RunInput::new("Go.").with_history(earlier.collect::<Transcript>()),
        )
        .unwrap();
        let tools = ToolList::default();
        for number in 0..steps.min(45) {
            assert!(matches!(advance(&mut run, &step(&tools)).unwrap(), Effect::Chat(_)));
            let call =
                ToolCall::new("", "look", json!({"n": number, "words": "w".repeat(words)}).to_string());
            let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
            run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse::new(message), None))).unwrap();
            let Effect::Call(batch) = advance(&mut run, &step(&tools)).unwrap() else { panic!("no calls") };
            let output = ToolOutput::from("o".repeat(words));
            run.on_result(&batch.calls[0].id, ToolResult::done("", "", output)).unwrap();
        }
        assert!(matches!(advance(&mut run, &step(&tools)).unwrap(), Effect::Chat(_)));
        run
    };
    let (short, long) = (play(3, 1), play(2_000, 500));
    let size = |run: &Run| serde_json::to_string(&run.head()).unwrap().len();
    // The numbers in the head of the long run have a few more digits, so its head may be slightly
    // larger.
    assert!(size(&long) < size(&short) + 50, "{} {}", size(&short), size(&long));

    // The saved messages and the saved head restore the run.
    let lines: Vec<_> =
        long.transcript().messages().iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let transcript: Transcript =
        lines.iter().map(|line| serde_json::from_str::<Message>(line).unwrap()).collect();
    let head: RunHead = serde_json::from_str(&serde_json::to_string(&long.head()).unwrap()).unwrap();
    assert_eq!(Run::from_head(head.clone(), transcript).unwrap(), long);
    let error = Run::from_head(head, short.transcript().clone()).unwrap_err().to_string();
    assert_eq!(error, "the head was saved with a transcript of 4091 messages, and this one has 13");
}

#[test]
fn effect_must_be_completed_before_the_next() {
    let tools = ToolList::default();
    let mut run = Run::new(&RunConfig::default(), RunInput::new("Hi")).unwrap();
    assert!(run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse::new("too early"), None))).is_err());
    assert!(matches!(advance(&mut run, &step(&tools)).unwrap(), Effect::Chat(_)));
    let error = advance(&mut run, &step(&tools)).unwrap_err().to_string();
    assert!(error.contains(&RunError::RequestInProgress.to_string()), "{error}");

    // After a crash, the same model request is sent again.
    let saved = serde_json::to_string(&run).unwrap();
    let mut run: Run = serde_json::from_str(&saved).unwrap();
    run.recover(&tools);
    assert!(matches!(advance(&mut run, &step(&tools)).unwrap(), Effect::Chat(_)));
}

#[test]
fn run_without_messages_is_an_error() {
    let mut input = RunInput::new("Hi");
    input.start = haft_core::agent::RunStart::New { messages: Vec::new(), transcript: Default::default() };
    assert!(Run::new(&RunConfig::default(), input).is_err());
}

/// Generates JSON values: numbers of every type, any strings, nested arrays and objects.
fn values() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no such numbers", |number| number.is_finite())
            .prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((any::<String>(), inner), 0..4).prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
}

/// Generates message content of every type.
fn contents() -> impl Strategy<Value = Content> {
    let text = || any::<String>();
    let bytes = || vec(any::<u8>(), 0..8).prop_map(BinaryData::from);
    let body = prop_oneof![text().prop_map(ResourceBody::Text), bytes().prop_map(ResourceBody::Blob)];
    prop_oneof![
        text().prop_map(Content::text),
        values().prop_map(Content::json),
        (bytes(), text()).prop_map(|(data, media_type)| Content::Image { data, media_type }),
        (bytes(), text()).prop_map(|(data, media_type)| Content::Audio { data, media_type }),
        (bytes(), text()).prop_map(|(data, media_type)| Content::Blob { data, media_type }),
        (text(), option::of(text()), body).prop_map(|(uri, media_type, body)| Content::Resource {
            uri,
            media_type,
            body
        }),
        (text(), text(), option::of(text()), option::of(text())).prop_map(
            |(uri, name, description, media_type)| {
                Content::ResourceLink { uri, name, description, media_type }
            }
        ),
    ]
}

fn tool_outputs() -> impl Strategy<Value = ToolOutput> {
    let metadata = vec((any::<String>(), values()), 0..2);
    (
        vec(contents(), 0..3),
        option::of(values()),
        vec(any::<String>(), 0..2),
        option::of(any::<String>()),
        metadata,
    )
        .prop_map(|(content, structured, warnings, stored, metadata)| ToolOutput {
            content,
            structured,
            warnings,
            result_handle: stored,
            metadata: metadata.into_iter().collect(),
        })
}

fn messages() -> impl Strategy<Value = Message> {
    let metadata = vec((any::<String>(), values()), 0..2).prop_map(|pairs| pairs.into_iter().collect());
    let body = prop_oneof![
        vec(contents(), 1..3).prop_map(|content| MessageBody::User { content }),
        vec(contents(), 1..3).prop_map(|content| MessageBody::System { content }),
        (vec(contents(), 1..3), option::of(any::<String>()), option::of(any::<String>())).prop_map(
            |(content, reasoning, refusal)| {
                let message = AssistantMessage { content, reasoning, refusal, ..AssistantMessage::default() };
                MessageBody::Assistant(message)
            }
        ),
    ];
    (body, metadata, option::of(any::<i64>())).prop_map(|(body, metadata, at)| {
        let message = Message::new(body).with_metadata(metadata);
        if let Some(at) = at { message.with_created_at(Timestamp::from_unix_millis(at)) } else { message }
    })
}

fn configs() -> impl Strategy<Value = RunConfig> {
    let number = || option::of(any::<u64>());
    let limits = (number(), number(), option::of(0.0..1e6_f64), option::of(any::<Duration>()));
    (
        limits,
        option::of(any::<f64>().prop_filter("a number", |it| it.is_finite())),
        vec(any::<String>(), 0..2),
    )
        .prop_map(|((total_tokens, input_tokens, cost, time), temperature, stop_on)| RunConfig {
            limits: RunLimits {
                total_tokens,
                input_tokens,
                cost: cost.map(Cost::new),
                time,
                ..RunLimits::NONE
            },
            settings: ChatSettings { temperature, seed: total_tokens, ..ChatSettings::default() },
            stop_on: stop_on.into_iter().collect(),
            tool_choice: ToolChoice::None,
            check_outputs: true,
            max_repeated_calls: None,
            ..RunConfig::default()
        })
}

#[track_caller]
fn assert_round_trip(run: &Run) {
    let saved = serde_json::to_string(run).unwrap();
    assert_eq!(&serde_json::from_str::<Run>(&saved).unwrap(), run);
    // A `SuspendedRun` contains the run as a JSON value, and must restore the same run.
    let suspended = run.to_suspended().unwrap();
    let saved: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    assert_eq!(saved, suspended);
    assert_eq!(&Run::from_suspended(saved).unwrap(), run);
    let head: RunHead = serde_json::from_str(&serde_json::to_string(&run.head()).unwrap()).unwrap();
    assert_eq!(&Run::from_head(head, run.transcript().clone()).unwrap(), run);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// A run with any content, in any state, is equal after a round trip through JSON.
    #[test]
    fn run_is_equal_after_a_round_trip(
        (earlier, question, config) in (vec(messages(), 0..3), vec(contents(), 1..3), configs()),
        (arguments, output, state, approval_arguments, answer) in (any::<String>(), tool_outputs(), values(), values(), vec(contents(), 1..3)),
        (tokens, now) in (any::<u64>(), any::<i64>()),
    ) {
        let earlier: Transcript = earlier.into_iter().collect();
        let saved = serde_json::to_string(&earlier).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Transcript>(&saved).unwrap(), &earlier);

        let config = RunConfig { limits: RunLimits::NONE, tool_choice: ToolChoice::Auto, ..config.clone() };
        let question = Message::new(MessageBody::User { content: question });
        let mut run = Run::new(&config, RunInput::new(question).with_history(earlier)).unwrap();
        assert_round_trip(&run);
        let tools = ToolList::default();
        let step = Step::new(&tools, &NativeCalls, Timestamp::from_unix_millis(now));
        prop_assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
        assert_round_trip(&run);
        let tool_calls = ["a", "b", "c"].map(|id| ToolCall::new(id, "tool", arguments.as_str())).into();
        let reply = ChatResponse::new(AssistantMessage { tool_calls, reasoning: Some(arguments), ..AssistantMessage::default() });
        let usage = Usage { cached_input_tokens: tokens, ..Usage::one_request(tokens, tokens) };
        run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse { usage, ..reply }, None))).unwrap();
        assert_round_trip(&run);
        let Effect::Call(batch) = advance(&mut run, &step).unwrap() else { panic!("no calls") };
        assert_round_trip(&run);
        let result = ToolResult::done("", "", output.clone());
        run.on_result("a", ToolResult { duration: Duration::new(tokens, 7), ..result }).unwrap();
        let kinds = [PendingKind::Approval { arguments: approval_arguments.clone() }, PendingKind::External];
        for (call, kind) in batch.calls.into_iter().skip(1).zip(kinds) {
            let pending = Pending::new(kind).with_continuation(state.clone());
            run.on_pending(PendingCall { call, pending }).unwrap();
        }
        assert_round_trip(&run);
        prop_assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Wait(_)));
        run.on_decision("b", Decision::approved_with_arguments(approval_arguments)).unwrap();
        run.on_decision("c", Decision::output(output)).unwrap();
        assert_round_trip(&run);
        let Effect::Call(_) = advance(&mut run, &step).unwrap() else { panic!("no calls") };
        assert_round_trip(&run);
        for id in ["b", "c"] {
            run.on_result(id, ToolResult::failed("", "", &ToolError::failed("no"))).unwrap();
        }
        prop_assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
        let message = AssistantMessage { content: answer, ..AssistantMessage::default() };
        if !message.is_empty() {
            run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse::new(message), None))).unwrap();
            let Effect::Check(mut output) = advance(&mut run, &step).unwrap() else { panic!("no check") };
            assert_round_trip(&run);
            output.text += "!";
            run.on_check(Ok(*output)).unwrap();
            assert_round_trip(&run);
            let Effect::Done(answer) = advance(&mut run, &step).unwrap() else { panic!("the run is not done") };
            let saved = serde_json::to_string(&answer).unwrap();
            prop_assert_eq!(serde_json::from_str::<haft_core::agent::RunAnswer>(&saved).unwrap(), *answer);
        }
        run.cancel();
        assert_round_trip(&run);
    }

    #[test]
    fn configuration_is_equal_after_a_round_trip(config in configs()) {
        let run = Run::new(&config, "Go.".into()).unwrap();
        assert_round_trip(&run);
    }
}
