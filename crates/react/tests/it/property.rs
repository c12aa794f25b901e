//! What holds for every order of events.

use haft_core::{
    AssistantMessage, ChatResponse, RunInput, Timestamp, ToolCall, ToolError, ToolList, ToolOutput,
    ToolResult,
};
use haft_react::{Dialect as _, Effect, NativeCalls, Run, RunConfig, Step};
use proptest::{
    collection::vec,
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest},
    sample::Index,
};

use crate::pairing::assert_paired;

/// The calls of one reply: few ids, so that they collide.
type Calls = Vec<(&'static str, bool)>;

#[derive(Clone, Debug)]
struct Play {
    replies: Vec<Calls>,
    /// Which of the open calls is answered next.
    order: Vec<Index>,
}

fn plays() -> impl Strategy<Value = Play> {
    let id = prop_oneof![Just(""), Just("a"), Just("b"), Just("call_1"), Just("call_2")];
    let calls = vec((id, any::<bool>()), 1..5);
    (vec(calls, 0..4), vec(any::<Index>(), 16)).prop_map(|(replies, order)| Play { replies, order })
}

/// Plays to the end, or until so many events have happened. `between` is done to the run after each.
fn perform(play: &Play, mut events: usize, between: impl Fn(Run) -> Run) -> Run {
    let config = RunConfig { identical_calls: None, ..RunConfig::default() };
    let mut run = Run::new(&config, RunInput::new("Go.")).unwrap();
    let (mut replies, mut order) = (play.replies.iter(), play.order.iter());
    let tools = ToolList::default();
    let mut clock = 0;
    let mut happens = |run: Run| {
        clock += 1;
        (
            between(run),
            Timestamp::from_unix_millis(clock),
            events.checked_sub(1).map(|left| events = left).is_some(),
        )
    };
    loop {
        let (taken, now, goes_on) = happens(run);
        run = taken;
        if !goes_on {
            return run;
        }
        match run.next(&Step { tools: &tools, dialect: &NativeCalls, instructions: None, now }).unwrap() {
            Effect::Chat(request) => {
                crate::pairing::assert_request_paired(&request);
                run.on_chat(Ok(NativeCalls.fold(reply(replies.next()), None))).unwrap();
            }
            Effect::Call(batch) => {
                let mut open = batch.calls;
                while !open.is_empty() {
                    let place = order.next().map_or(0, |index| index.index(open.len()));
                    let call = open.remove(place);
                    run.on_result(&call.id, result(&call, now)).unwrap();
                    assert!(run.on_result(&call.id, result(&call, now)).is_err(), "one result a call");
                    let (taken, _, goes_on) = happens(run);
                    run = taken;
                    if !goes_on {
                        return run;
                    }
                }
            }
            Effect::Done(_) => return run,
            other => panic!("{other:?}"),
        }
    }
}

fn reply(calls: Option<&Calls>) -> ChatResponse {
    let Some(calls) = calls else { return ChatResponse::new("Done.") };
    let arguments = |fails: bool| if fails { "fails" } else { "goes well" };
    let tool_calls = calls.iter().map(|(id, fails)| ToolCall::new(*id, "tool", arguments(*fails))).collect();
    ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() })
}

fn result(call: &ToolCall, now: Timestamp) -> ToolResult {
    let result = match &*call.arguments {
        "fails" => ToolResult::failed("whatever", "whatever", &ToolError::failed("it did")),
        _ => ToolResult::done("whatever", "whatever", ToolOutput::from(call.id.as_str())),
    };
    ToolResult { started_at: now, ..result }
}

fn through_json(run: Run) -> Run {
    let saved = serde_json::to_string(&run).unwrap();
    let loaded: Run = serde_json::from_str(&saved).unwrap();
    assert_eq!(loaded, run);
    loaded
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any interleaving of results leaves every call answered once, in call order.
    #[test]
    fn every_call_has_one_result_in_call_order(play in plays()) {
        let run = perform(&play, usize::MAX, |run| run);
        assert_paired(run.transcript());
        let calls: usize = play.replies.iter().map(Vec::len).sum();
        prop_assert_eq!(run.transcript().len(), 1 + play.replies.len() + calls + 1);
    }

    /// BEHAVIOUR D38: cancelled at any point, every call has its result.
    #[test]
    fn cancelled_anywhere_every_call_is_closed(play in plays(), events in 0_usize..30) {
        let mut run = perform(&play, events, |run| run);
        run.cancel();
        assert_paired(run.transcript());
    }

    /// BEHAVIOUR D39: saved and loaded between any two steps, a run comes to the same end.
    #[test]
    fn saved_anywhere_the_outcome_is_the_same(play in plays(), events in 0_usize..30) {
        prop_assert_eq!(perform(&play, events, |run| run), perform(&play, events, through_json));
    }
}
