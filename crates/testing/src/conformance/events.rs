//! The events of a run, from its beginning to its end.

use std::collections::HashSet;

use super::{Promise, Report};
use haft_core::{
    RunEvent, RunOutput,
    agent::{AgentError, AgentErrorKind},
};

const ENDS: Promise = Promise {
    what: "a run ends with its output or an error, once",
    remedy: "yield `RunEvent::Done` or an error last, and nothing after it",
};
const CALLS: Promise = Promise {
    what: "a call that begins ends, or waits",
    remedy: "yield `CallFinished` or `CallPending` with the id of each `CallStarted` before the run ends",
};
const REQUESTS: Promise = Promise {
    what: "requests are counted from 1",
    remedy: "number `RequestStarted` in the order of the requests of this run, on from where it was parked",
};

/// How a run ended.
pub(super) type Ended = Result<RunOutput, AgentError>;

/// Judges the events of a whole run, or of one that goes on after so many `requests`, and gives its end. Then `requests` is how many it had.
pub(super) fn check(
    events: Vec<Result<RunEvent, AgentError>>,
    requests: &mut u32,
    report: &mut Report,
) -> Option<Ended> {
    let (mut open, mut ended, mut after) = (HashSet::new(), None, 0);
    for event in events {
        if ended.is_some() {
            after += 1;
            continue;
        }
        match event {
            Ok(RunEvent::CallStarted { call }) => drop(open.insert(call.id)),
            Ok(RunEvent::CallFinished { result }) => {
                let was_open = open.remove(&result.call_id);
                report.hold(CALLS, was_open, || format!("{:?} ends and never began", result.call_id));
            }
            Ok(RunEvent::CallPending { pending }) => drop(open.remove(&pending.call.id)),
            Ok(RunEvent::RequestStarted { request }) => {
                let number = *requests + 1;
                *requests = request;
                report.hold(REQUESTS, request == number, || format!("request {number} is told as {request}"));
            }
            Ok(RunEvent::Done { output }) => ended = Some(Ok(output)),
            Ok(_) => {}
            Err(error) => ended = Some(Err(error)),
        }
    }
    report.hold(ENDS, after == 0, || format!("{after} events come after the end"));
    match &ended {
        None => report.add(ENDS, "its stream ends with neither"),
        Some(Ok(_)) => {
            for id in open {
                report.add(CALLS, format!("{id:?} does neither"));
            }
        }
        Some(Err(error)) => {
            let is_told = !matches!(*error.kind, AgentErrorKind::Incomplete);
            report.hold(ENDS, is_told, || error.to_string());
        }
    }
    ended
}
