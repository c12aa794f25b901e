//! Checks of the events of an agent run.

use std::collections::HashSet;

use super::{Report, Rule};
use haft_core::{
    RunEvent, RunOutput,
    agent::{AgentError, AgentErrorKind},
};

const ENDS_ONCE: Rule = Rule {
    text: "a run ends exactly once, with its output or an error",
    remedy: "yield `RunEvent::Done` or an error last, and nothing after it",
};
const CALLS_FINISH: Rule = Rule {
    text: "every started call finishes or is suspended",
    remedy: "yield `CallFinished` or `CallPending` with the id of each `CallStarted` before the run ends",
};
/// The output or the error at the end of a run.
pub(super) type RunEnd = Result<RunOutput, AgentError>;

/// Checks `events`, the events of one run, and adds violations to `report`. Returns the output or
/// the error at the end of the run. `None` if there is neither.
pub(super) fn check_events(events: Vec<Result<RunEvent, AgentError>>, report: &mut Report) -> Option<RunEnd> {
    let (mut open, mut end, mut after) = (HashSet::new(), None, 0);
    for event in events {
        if end.is_some() {
            after += 1;
            continue;
        }
        match event {
            Ok(RunEvent::CallStarted { call }) => drop(open.insert(call.id)),
            Ok(RunEvent::CallFinished { result }) => {
                let was_open = open.remove(&result.call_id);
                report.require(CALLS_FINISH, was_open, || {
                    format!("{:?} finishes without a start", result.call_id)
                });
            }
            Ok(RunEvent::CallPending { pending }) => drop(open.remove(&pending.call.id)),
            Ok(RunEvent::Done { output }) => end = Some(Ok(output)),
            Ok(_) => {}
            Err(error) => end = Some(Err(error)),
        }
    }
    report.require(ENDS_ONCE, after == 0, || format!("{after} events follow the end"));
    match &end {
        None => report.add_finding(ENDS_ONCE, "the stream ends with neither"),
        Some(Ok(_)) => {
            for id in open {
                report.add_finding(CALLS_FINISH, format!("{id:?} does neither"));
            }
        }
        Some(Err(error)) => {
            let is_complete = !matches!(*error.kind, AgentErrorKind::Incomplete);
            report.require(ENDS_ONCE, is_complete, || error.to_string());
        }
    }
    end
}
