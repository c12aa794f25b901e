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
    usage::{Cost, Usage},
};
use haft_react::{
    Effect, Outcome, Output, Run, RunConfig, Verdict,
    run::{Check, CheckVerdict, Checks, DetachedRun, RunError},
};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest},
};
use serde_json::{Value, json};

use crate::effects::{advance, advance_at, apply, apply_at, finish, judge, reply, suspend};

/// A run that was saved in a newer format is rejected. The error contains the format version of the
/// run and the supported format version.
#[test]
fn newer_format_is_rejected() {
    for newer in [json!({"data": {"quite": "different"}, "transcript": null}), json!({"run": "different"})] {
        let mut newer = newer;
        newer["version"] = json!(3);
        let error = serde_json::from_value::<Run>(newer.clone()).unwrap_err().to_string();
        assert_eq!(
            error,
            "run format 3 is not known here, only 2: read it with the version of haft that wrote it"
        );
        let error = serde_json::from_value::<DetachedRun>(newer).unwrap_err().to_string();
        assert!(error.starts_with("detached run format 3 is not known here, only 2"), "{error}");
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
        json!({"data": {}}),
        json!({"version": "2"}),
        json!({"version": 2}),
        with("/data/counts/requests", json!(-1)),
        with("/data/config/limits/cost", json!("much")),
        with("/data/state", json!({"name": "dancing"})),
        with("/transcript", json!([])),
        with("/transcript/version", json!(7)),
        with("/transcript/messages/0/body", json!({"role": "user"})),
    ]
    .into_iter()
    .map(|bad| serde_json::from_value::<Run>(bad).unwrap_err().to_string())
    .collect();
    expect![[r#"
        a saved run is an object with a number `version`, `data` and `transcript`; this is not one
        a saved run is an object with a number `version`, `data` and `transcript`; this is not one
        a saved run is an object with a number `version`, `data` and `transcript`; this is not one
        at `transcript`: a saved transcript is an object with a number `version` and `messages`; this is not one
        at `data.counts.requests`: invalid value: integer `-1`, expected u32
        at `data.config.limits.cost`: invalid type: string "much", expected f64
        at `data.state.name`: unknown variant `dancing`, expected one of `ready`, `preparing`, `awaiting_reply`, `calling`, `suspended`, `checking`, `compacting`, `handing_off`, `ended`
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
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    run
}

/// A run can be saved without its transcript, plus the new messages. The size must not depend on
/// the length of the conversation.
#[test]
fn detached_run_does_not_grow_with_the_conversation() {
    let play = |steps: u32, words: usize| {
        let earlier =
            (0..steps).flat_map(|_| [Message::user("Hm?"), Message::assistant("Hm.".repeat(words))]);
        let mut run = Run::new(
            &RunConfig::default(),
            RunInput::new("Go.").with_history(earlier.collect::<Transcript>()),
        )
        .unwrap();
        for number in 0..steps.min(45) {
            assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
            let call =
                ToolCall::new("", "look", json!({"n": number, "words": "w".repeat(words)}).to_string());
            let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
            reply(&mut run, ChatResponse::new(message)).unwrap();
            let Effect::Call(batch) = advance(&mut run).unwrap() else { panic!("no calls") };
            let output = ToolOutput::from("o".repeat(words));
            finish(&mut run, &batch.calls[0].call.id, ToolResult::done("", "", output)).unwrap();
        }
        assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
        run
    };
    let (short, long) = (play(3, 1), play(2_000, 500));
    let size = |run: &Run| serde_json::to_string(&run.detached()).unwrap().len();
    // The numbers of the long run have a few more digits, so it may be slightly larger.
    assert!(size(&long) < size(&short) + 50, "{} {}", size(&short), size(&long));

    // The saved messages and the detached run restore the run.
    let lines: Vec<_> =
        long.transcript().messages().iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let transcript: Transcript =
        lines.iter().map(|line| serde_json::from_str::<Message>(line).unwrap()).collect();
    let detached: DetachedRun =
        serde_json::from_str(&serde_json::to_string(&long.detached()).unwrap()).unwrap();
    assert_eq!(Run::from_detached(detached.clone(), transcript).unwrap(), long);
    let error = Run::from_detached(detached, short.transcript().clone()).unwrap_err().to_string();
    assert_eq!(error, "the run was saved with a transcript of 4091 messages, and this one has 13");
}

#[test]
fn effect_must_be_completed_before_the_next() {
    let mut run = Run::new(&RunConfig::default(), RunInput::new("Hi")).unwrap();
    assert!(reply(&mut run, ChatResponse::new("too early")).is_err());
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    let error = advance(&mut run).unwrap_err().to_string();
    assert!(error.contains(&RunError::RequestInProgress.to_string()), "{error}");

    // After a crash, the same model request is sent again.
    let saved = serde_json::to_string(&run).unwrap();
    let mut run: Run = serde_json::from_str(&saved).unwrap();
    run.recover();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
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
            checks: Checks { answer: true, ..Checks::default() },
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
    let detached: DetachedRun =
        serde_json::from_str(&serde_json::to_string(&run.detached()).unwrap()).unwrap();
    assert_eq!(&Run::from_detached(detached, run.transcript().clone()).unwrap(), run);
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
        prop_assert!(matches!(advance_at(&mut run, now).unwrap(), Effect::Chat));
        assert_round_trip(&run);
        let tool_calls = ["a", "b", "c"].map(|id| ToolCall::new(id, "tool", arguments.as_str())).into();
        let response = ChatResponse::new(AssistantMessage { tool_calls, reasoning: Some(arguments), ..AssistantMessage::default() });
        let usage = Usage { cached_input_tokens: tokens, ..Usage::one_request(tokens, tokens) };
        apply_at(&mut run, now, Outcome::replied(ChatResponse { usage, ..response })).unwrap();
        assert_round_trip(&run);
        let Effect::Call(batch) = advance_at(&mut run, now).unwrap() else { panic!("no calls") };
        assert_round_trip(&run);
        let result = ToolResult::done("", "", output.clone());
        finish(&mut run, "a", ToolResult { duration: Duration::new(tokens, 7), ..result }).unwrap();
        let kinds = [PendingKind::Approval { arguments: approval_arguments.clone() }, PendingKind::External];
        for (ready, kind) in batch.calls.into_iter().skip(1).zip(kinds) {
            let pending = Pending::new(kind).with_continuation(state.clone());
            suspend(&mut run, PendingCall { call: ready.call, pending }).unwrap();
        }
        assert_round_trip(&run);
        prop_assert!(matches!(advance_at(&mut run, now).unwrap(), Effect::Wait(_)));
        for (id, decision) in [("b", Decision::approved_with_arguments(approval_arguments)), ("c", Decision::output(output))] {
            apply(&mut run, Outcome::Decided { id: id.to_owned(), decision }).unwrap();
        }
        assert_round_trip(&run);
        let Effect::Call(_) = advance_at(&mut run, now).unwrap() else { panic!("no calls") };
        assert_round_trip(&run);
        for id in ["b", "c"] {
            finish(&mut run, id, ToolResult::failed("", "", &ToolError::failed("no"))).unwrap();
        }
        prop_assert!(matches!(advance_at(&mut run, now).unwrap(), Effect::Chat));
        let message = AssistantMessage { content: answer, ..AssistantMessage::default() };
        if !message.is_empty() {
            reply(&mut run, ChatResponse::new(message)).unwrap();
            let Effect::Check(Check::Answer(output)) = advance_at(&mut run, now).unwrap() else { panic!("no check") };
            assert_round_trip(&run);
            let replaced = Output::new(format!("{}!", output.text));
            judge(&mut run, CheckVerdict::Answer(Verdict::Replace(replaced).into())).unwrap();
            assert_round_trip(&run);
            let Effect::Done(answer) = advance_at(&mut run, now).unwrap() else { panic!("the run is not done") };
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
