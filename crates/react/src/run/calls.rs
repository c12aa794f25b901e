use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    Timestamp, ToolCall, ToolResult,
    call::{Answer, Answers, Failure, FailureKind, Outcome, Pending, PendingCall, PendingKind, Resumed},
    toolset::ToolList,
};
use serde::{Deserialize, Serialize};

use super::{CallBatch, RunError};

/// The calls of the last reply, until each has its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct OpenCalls(Vec<OpenCall>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OpenCall {
    call: ToolCall,
    state: CallState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum CallState {
    /// It can be handed out.
    Ready {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed: Option<Resumed>,
    },
    /// It was handed out, with this budget of tries.
    UnderWay {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed: Option<Resumed>,
        retries: u32,
    },
    /// It waits for an answer.
    Waiting { pending: Pending },
    /// It is done.
    Finished { result: Arc<ToolResult> },
}

impl OpenCalls {
    pub(crate) fn new(calls: Vec<ToolCall>) -> Self {
        let ready = |call| OpenCall { call, state: CallState::Ready { resumed: None } };
        Self(calls.into_iter().map(ready).collect())
    }

    /// Hands out the calls that can be made. Each is handed out once.
    pub(crate) fn hand_out(&mut self, tools: &ToolList) -> CallBatch {
        let mut batch = CallBatch::default();
        for open in &mut self.0 {
            let CallState::Ready { resumed } = &mut open.state else { continue };
            let resumed = resumed.take();
            if let Some(resumed) = &resumed {
                batch.resumed.insert(open.call.id.clone(), resumed.clone());
            }
            let retries = tools.get(&open.call.name).map_or(0, |tool| tool.definition().policy().retries);
            open.state = CallState::UnderWay { resumed, retries };
            batch.calls.push(open.call.clone());
        }
        batch
    }

    /// Whether there is a call that can be handed out.
    pub(super) fn are_to_be_made(&self) -> bool {
        self.0.iter().any(|open| matches!(open.state, CallState::Ready { .. }))
    }

    /// The calls that were handed out and not answered.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &ToolCall> {
        let under_way = |open: &&OpenCall| matches!(open.state, CallState::UnderWay { .. });
        self.0.iter().filter(under_way).map(|open| &open.call)
    }

    /// Whether every call has its result.
    pub(crate) fn are_finished(&self) -> bool {
        self.0.iter().all(|open| matches!(open.state, CallState::Finished { .. }))
    }

    /// The calls that wait.
    pub(crate) fn pending(&self) -> Vec<PendingCall> {
        let pending = self.0.iter().filter_map(|open| match &open.state {
            CallState::Waiting { pending } => {
                Some(PendingCall { call: open.call.clone(), pending: pending.clone() })
            }
            _ => None,
        });
        pending.collect()
    }

    /// The result that ends the run, if there is one.
    pub(crate) fn fatal(&self) -> Option<&ToolResult> {
        self.results().map(|result| &**result).find(|result| is(result, FailureKind::Fatal))
    }

    /// A call that is under way, and how often in a row its tool may ask for another try.
    pub(crate) fn under_way_as(&self, id: &str) -> Result<(&ToolCall, u32), RunError> {
        let found = self.0.iter().find_map(|open| match open.state {
            CallState::UnderWay { retries, .. } if open.call.id == id => Some((&open.call, retries)),
            _ => None,
        });
        found.ok_or_else(|| RunError::NotUnderWay(id.to_owned()))
    }

    /// The ids of all.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|open| open.call.id.as_str())
    }

    /// The calls that have no result.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &ToolCall> {
        let unfinished = |open: &&OpenCall| !matches!(open.state, CallState::Finished { .. });
        self.0.iter().filter(unfinished).map(|open| &open.call)
    }

    /// The results that there are.
    pub(crate) fn results(&self) -> impl Iterator<Item = &Arc<ToolResult>> {
        self.0.iter().filter_map(|open| match &open.state {
            CallState::Finished { result } => Some(result),
            _ => None,
        })
    }

    /// The place of the first call that went well of a tool that ends the run.
    pub(super) fn ending(&self, tools: &BTreeSet<String>) -> Option<usize> {
        self.0.iter().position(|open| match &open.state {
            CallState::Finished { result } => result.is_success() && tools.contains(&result.name),
            _ => false,
        })
    }

    /// Takes the result of a call that is under way.
    pub(crate) fn finish(&mut self, id: &str, result: ToolResult) -> Result<&Arc<ToolResult>, RunError> {
        let open = self.find_under_way(id)?;
        open.state = CallState::Finished { result: Arc::new(result) };
        match &open.state {
            CallState::Finished { result } => Ok(result),
            _ => Err(RunError::NotUnderWay(id.to_owned())),
        }
    }

    /// Lets a call that is under way wait.
    pub(crate) fn suspend(&mut self, id: &str, pending: Pending) -> Result<(), RunError> {
        self.find_under_way(id)?.state = CallState::Waiting { pending };
        Ok(())
    }

    fn find_under_way(&mut self, id: &str) -> Result<&mut OpenCall, RunError> {
        let under_way = |open: &&mut OpenCall| matches!(open.state, CallState::UnderWay { .. });
        let mut open = self.0.iter_mut().filter(under_way);
        open.find(|open| open.call.id == id).ok_or_else(|| RunError::NotUnderWay(id.to_owned()))
    }

    /// Gives a call that waits its answer, so that it can be handed out again.
    pub(crate) fn answer(&mut self, id: &str, answer: Answer) -> Result<(), RunError> {
        let pending = self.pending();
        let leaves = pending.iter().flat_map(PendingCall::leaves).map(|leaf| leaf.call.id.as_str());
        let waiting = leaves.collect::<Vec<_>>().join(", ");
        let not_waiting = || RunError::NotWaiting { id: id.to_owned(), waiting };
        let open = self.0.iter_mut().find(|open| open.covers(id)).ok_or_else(not_waiting.clone())?;
        let inside = |mut answers: Answers, answer| {
            answers.insert(id.to_owned(), answer);
            Answer::Nested { answers }
        };
        let (pending, answer) = match &open.state {
            CallState::Waiting { pending } if open.call.id == id => (pending, answer),
            CallState::Waiting { pending } => (pending, inside(Answers::new(), answer)),
            // Another call of the same child was answered before.
            CallState::Ready { resumed: Some(resumed) } => match resumed.answer() {
                Answer::Nested { answers } if open.call.id != id && !answers.contains_key(id) => {
                    (resumed.pending(), inside(answers.clone(), answer))
                }
                _ => return Err(not_waiting()),
            },
            _ => return Err(not_waiting()),
        };
        let wrong = |source| RunError::WrongAnswer { id: id.to_owned(), source };
        let resumed = pending.clone().answered(answer).map_err(wrong)?;
        open.state = CallState::Ready { resumed: Some(resumed) };
        Ok(())
    }

    /// Lets calls that are under way go again if `may` says so, and gives the others a result.
    pub(crate) fn recover(&mut self, now: Timestamp, may: impl Fn(&ToolCall) -> bool) {
        for open in &mut self.0 {
            let CallState::UnderWay { resumed, .. } = &mut open.state else { continue };
            open.state = if may(&open.call) {
                CallState::Ready { resumed: resumed.take() }
            } else {
                let message =
                    "unconfirmed, it may or may not have happened: the process that made the call is gone";
                CallState::Finished { result: not_run(&open.call, FailureKind::Unconfirmed, message, now) }
            };
        }
    }

    /// Gives the calls that are under way a result that says that their time is up.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        for open in self.0.iter_mut().filter(|open| matches!(open.state, CallState::UnderWay { .. })) {
            let message = "timed out: the time of the run is up; it may or may not have happened";
            let result = not_run(&open.call, FailureKind::TimedOut, message, now);
            open.state = CallState::Finished { result };
        }
    }

    /// The results in call order; calls without one get one that says why.
    pub(crate) fn close(
        self,
        kind: FailureKind,
        why: &str,
        now: Timestamp,
    ) -> impl Iterator<Item = Arc<ToolResult>> {
        self.0.into_iter().map(move |OpenCall { call, state }| match state {
            CallState::Finished { result } => result,
            _ => not_run(&call, kind, why, now),
        })
    }
}

impl OpenCall {
    /// Whether an answer of this id is for this call or for one inside it.
    fn covers(&self, id: &str) -> bool {
        let pending = match &self.state {
            CallState::Waiting { pending } => Some(pending),
            CallState::Ready { resumed: Some(resumed) } => Some(resumed.pending()),
            _ => None,
        };
        let inner = pending.map(|pending| &pending.kind);
        self.call.id == id
            || matches!(inner, Some(PendingKind::Nested { pending }) if pending.iter().any(|inner| inner.covers(id)))
    }
}

pub(crate) fn is(result: &ToolResult, kind: FailureKind) -> bool {
    result.failure().is_some_and(|failure| failure.kind == kind)
}

/// The result of a call that was not made, or not to an end that anybody knows.
pub(crate) fn not_run(call: &ToolCall, kind: FailureKind, why: &str, now: Timestamp) -> Arc<ToolResult> {
    Arc::new(ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        outcome: Outcome::Failed(Failure { kind, message: why.to_owned() }),
        warnings: Vec::new(),
        repairs: Vec::new(),
        started_at: now,
        duration: std::time::Duration::ZERO,
    })
}
