//! Runs that one agent hands to another.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    ToolResult,
    agent::{RunAnswer, StopReason},
    message::MessageBody,
};

use super::{Output, Phase, Run, RunConfig, mark};
use crate::Carried;

impl Run {
    /// The first of these tools, in the order of the calls, that was done in the last step, if all of its calls have their results. They
    /// are in the transcript then.
    pub(crate) fn handed_off(&mut self, tools: &BTreeSet<String>) -> Option<Arc<ToolResult>> {
        if tools.is_empty() || !self.is_asking() {
            return None;
        }
        if let Phase::Calling { calls, .. } = &self.head.phase {
            if calls.fatal().is_some() {
                return None;
            }
            self.settle_calls();
        }
        let from = self.head.start.max(self.head.handed);
        let own = self.transcript.messages().get(from..).unwrap_or_default();
        let last = own.iter().rposition(|message| !message.tool_calls().is_empty())?;
        own.iter().skip(last).find_map(|message| match message.body() {
            MessageBody::Tool(result) if result.is_success() && tools.contains(&result.name) => {
                Some(Arc::clone(result))
            }
            _ => None,
        })
    }

    /// What the agent leaves that hands off: no answer of its own.
    pub(crate) fn so_far(&self) -> RunAnswer {
        self.answer(StopReason::Finished, Some(&Output::none(StopReason::Finished)))
    }

    /// Goes on as the run of another agent, within the same limits. What the question said of its run holds on.
    pub(crate) fn hand_over(&mut self, to: &str, config: &RunConfig, carried: Carried, reason: &str) {
        let head = &mut self.head;
        let limits = head.config.limits;
        head.config = RunConfig { limits, ..config.clone() };
        if !head.asked.overrule(&mut head.config) {
            head.has_called = false;
        }
        head.ended_by = None;
        head.unusable_replies = 0;
        head.retries.clear();
        let steps = match carried {
            Carried::Everything => head.first,
            Carried::Question => self.transcript.len(),
        };
        // What was left out, or summarised, was so for the model of the other agent.
        head.shown = head.shown.anew(self.transcript.messages(), head.start, steps);
        head.handed = self.transcript.len();
        self.push(mark::handed(to, format!("You go on from here: {}.", reason.trim_end_matches('.'))));
    }
}
