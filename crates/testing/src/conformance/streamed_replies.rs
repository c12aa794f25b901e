//! The replies in the events of a streamed run, compared with the transcript and the answer.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haft_core::{
    Message, RunEvent, RunOutput, ToolCall, ToolResult,
    agent::{AgentErrorKind, GuardrailAction, GuardrailReport, GuardrailStage, RunAnswer, StopReason},
    content::Content,
    message::MessageBody,
};
use serde_json::Value;

use super::events::RunEnd;
use super::run_and_stream::to_json;
use super::{Report, Rule};

const TEXT_STREAMED: Rule = Rule {
    text: "the text deltas of a reply are its text",
    remedy: "yield each piece once and in order; yield `ReplyRejected` after a rejected reply",
};
const ANSWER_STREAMED: Rule = Rule {
    text: "the text deltas of the last reply are the answer",
    remedy: "yield the whole answer as `TextDelta`, without the syntax of the reply format",
};
const OUTPUT_STREAMED: Rule = Rule {
    text: "the last partial output is the output",
    remedy: "yield the complete output as the last `PartialOutput` of a reply",
};
const CALLS_ANNOUNCED: Rule = Rule {
    text: "an announced call has the id, the name and the arguments of the call in the transcript",
    remedy: "yield `CallAnnounced` with the final id, and each piece of the arguments once",
};
const CALLS_IN_ORDER: Rule =
    Rule { text: "calls start in the order of the transcript", remedy: "yield `CallStarted` in call order" };
const RESULTS_RECORDED: Rule = Rule {
    text: "the result in `CallFinished` is the result in the transcript",
    remedy: "yield the recorded result",
};
const SUSPENSION_STREAMED: Rule = Rule {
    text: "each call of a suspended run has a `CallPending`",
    remedy: "yield `CallPending` for each call that is suspended",
};

/// The calls of a transcript with their positions, by call id.
type Calls<'a> = HashMap<&'a str, (usize, &'a ToolCall)>;

/// The ids of the calls with a certain action of a call guardrail.
enum GuardedCalls<'a> {
    /// The end of the run contains no reports of guardrails.
    Unknown,
    Known(HashSet<&'a str>),
}

/// The content of the events of a run.
#[derive(Default)]
pub(super) struct StreamedRun {
    replies: Vec<StreamedReply>,
    started: Vec<ToolCall>,
    finished: Vec<Arc<ToolResult>>,
    /// The ids of the suspended calls, also in earlier parts of the run.
    pending: Vec<String>,
}

/// The events of one reply.
#[derive(Default)]
struct StreamedReply {
    text: String,
    calls: Vec<AnnouncedCall>,
    output: Option<Value>,
    is_finished: bool,
    is_rejected: bool,
    /// The number of calls started before the reply.
    started_before: usize,
}

struct AnnouncedCall {
    id: String,
    name: String,
    arguments: String,
}

impl StreamedRun {
    /// Creates the record of the next part of this run, after a suspension.
    pub(super) fn next_part(self) -> Self {
        Self { pending: self.pending, ..Self::default() }
    }

    pub(super) fn observe(&mut self, event: &RunEvent) {
        match event {
            RunEvent::RequestStarted { .. } => {
                let started_before = self.started.len();
                self.replies.push(StreamedReply { started_before, ..StreamedReply::default() });
            }
            RunEvent::CallStarted { call } => self.started.push(call.clone()),
            RunEvent::CallFinished { result } => self.finished.push(Arc::clone(result)),
            RunEvent::CallPending { pending } => self.pending.push(pending.call.id.clone()),
            event => {
                if let Some(reply) = self.replies.last_mut() {
                    reply.observe(event);
                }
            }
        }
    }

    /// Compares the events with the transcript and the output in `end`, the end of the run. If
    /// `compares_replies` is `false`, texts, outputs and announced calls are not compared.
    pub(super) fn check(&self, end: &RunEnd, compares_replies: bool, report: &mut Report) {
        let (messages, answer) = match end {
            Ok(RunOutput::Answer(answer)) => (answer.transcript.messages(), Some(&**answer)),
            Ok(RunOutput::Suspended(suspended)) => {
                let mut calls = suspended.pending.iter().map(|pending| &pending.call.id);
                let missing = calls.find(|id| !self.pending.contains(id));
                report.require(SUSPENSION_STREAMED, missing.is_none(), || {
                    format!("{missing:?} is suspended, but the events have {:?}", self.pending)
                });
                return;
            }
            Err(error) => (error.transcript.messages(), None),
        };
        let calls: Calls<'_> = messages
            .iter()
            .flat_map(|message| message.tool_calls())
            .enumerate()
            .map(|(position, call)| (call.id.as_str(), (position, call)))
            .collect();
        self.check_order(&calls, &calls_with_action(end, GuardrailAction::Block), report);
        self.check_results(messages, report);
        if !compares_replies {
            return;
        }
        self.check_announcements(&calls, &calls_with_action(end, GuardrailAction::Rewrite), report);
        self.check_texts(messages, answer, report);
        if let Some((answer, reply)) = answer.zip(self.replies.last()) {
            reply.check_answer(answer, report);
        }
    }

    /// Checks that calls start in the order of the recorded `calls`. A call in `blocked` ends
    /// before the other calls of its reply start.
    fn check_order(&self, calls: &Calls<'_>, blocked: &GuardedCalls<'_>, report: &mut Report) {
        let started = self.started.iter().filter(|call| !blocked.contains(&call.id));
        let positions: Vec<_> = started.filter_map(|call| Some(calls.get(&*call.id)?.0)).collect();
        report.require(CALLS_IN_ORDER, positions.is_sorted(), || {
            let ids: Vec<_> = self.started.iter().map(|call| &call.id).collect();
            format!("they start as {ids:?}")
        });
    }

    /// Compares the announced calls with the started calls and the recorded `calls`. A started call
    /// in `rewritten` has arguments from a guardrail.
    fn check_announcements(&self, calls: &Calls<'_>, rewritten: &GuardedCalls<'_>, report: &mut Report) {
        let announces = self.replies.iter().any(|reply| !reply.calls.is_empty());
        let ends = self.replies.iter().skip(1).map(|reply| reply.started_before).chain([self.started.len()]);
        for (reply, end) in
            self.replies.iter().zip(ends).filter(|(reply, _)| announces && reply.is_accepted())
        {
            let started = self.started.get(reply.started_before..end).unwrap_or_default();
            // Calls from the queue of a run are in no reply, and have no announcement.
            for call in started.iter().filter(|call| calls.contains_key(&*call.id)) {
                let is_announced = reply.calls.iter().any(|announced| {
                    announced.is_named(call)
                        && (rewritten.contains(&call.id) || announced.has_arguments(call))
                });
                report.require(CALLS_ANNOUNCED, is_announced, || format!("{call:?} is not announced"));
            }
            for announced in &reply.calls {
                let recorded = calls.get(&*announced.id).map(|(_, call)| *call);
                let is_recorded =
                    recorded.is_none_or(|call| announced.is_named(call) && announced.has_arguments(call));
                report.require(CALLS_ANNOUNCED, is_recorded, || {
                    format!("{recorded:?} is announced with {} and {}", announced.name, announced.arguments)
                });
            }
        }
    }

    fn check_results(&self, messages: &[Arc<Message>], report: &mut Report) {
        for result in &self.finished {
            let recorded = messages.iter().find_map(|message| match message.body() {
                MessageBody::Tool(recorded) if recorded.call_id == result.call_id => Some(recorded),
                _ => None,
            });
            let (recorded, result) = (recorded.map(|it| to_json(&**it)), to_json(&**result));
            let is_same = recorded.as_ref().is_none_or(|recorded| *recorded == result);
            report.require(RESULTS_RECORDED, is_same, || {
                format!("the transcript has {}, the event has {result}", recorded.unwrap_or_default())
            });
        }
    }

    fn check_texts(&self, messages: &[Arc<Message>], answer: Option<&RunAnswer>, report: &mut Report) {
        let is_assistant = |message: &&Arc<Message>| matches!(message.body(), MessageBody::Assistant(_));
        let recorded = messages.iter().filter(is_assistant).map(|message| message.text());
        let mut texts = recorded.chain(answer.map(|answer| answer.text.clone()));
        // An error can end the run because of the last reply, which is then not recorded.
        let count = self.replies.len() - usize::from(answer.is_none() && !self.replies.is_empty());
        let replies = self.replies.iter().take(count);
        // The text beside an output is not recorded.
        let is_text = |reply: &&StreamedReply| !reply.text.is_empty() && reply.output.is_none();
        let replies = replies.filter(|reply| reply.is_accepted()).filter(is_text);
        for StreamedReply { text, .. } in replies {
            let is_recorded = texts.any(|recorded| recorded == *text);
            report.require(TEXT_STREAMED, is_recorded, || {
                format!("no later reply in the transcript has the streamed text {text:?}")
            });
        }
    }
}

impl StreamedReply {
    fn observe(&mut self, event: &RunEvent) {
        match event {
            RunEvent::TextDelta { text } => self.text.push_str(text),
            RunEvent::CallAnnounced { call_id, tool_name } => self.calls.push(AnnouncedCall {
                id: call_id.clone(),
                name: tool_name.clone(),
                arguments: String::new(),
            }),
            RunEvent::ArgumentsDelta { call_id, arguments } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == *call_id) {
                    call.arguments.push_str(arguments);
                }
            }
            RunEvent::PartialOutput { value } => self.output = Some(value.clone()),
            RunEvent::RequestFinished { .. } => self.is_finished = true,
            RunEvent::ReplyRejected { .. } => self.is_rejected = true,
            _ => {}
        }
    }

    /// Returns `true` if the reply is complete and was not rejected.
    fn is_accepted(&self) -> bool {
        self.is_finished && !self.is_rejected
    }

    /// Compares this reply, the last reply of a run, with the answer of the run.
    fn check_answer(&self, answer: &RunAnswer, report: &mut Report) {
        let is_reply = matches!(answer.stop_reason, StopReason::Finished | StopReason::LimitReached);
        let is_changed = answer.guardrails.iter().any(|report| {
            report.stage == GuardrailStage::Answer
                && matches!(report.action, GuardrailAction::Rewrite | GuardrailAction::Block)
        });
        if !is_reply || is_changed || !self.is_accepted() {
            return;
        }
        if answer.value.is_none() && answer.outputs.is_empty() {
            report.require(ANSWER_STREAMED, self.text == answer.text, || {
                format!("the answer is {:?}, but the deltas are {:?}", answer.text, self.text)
            });
            return;
        }
        let outputs = Value::Object(answer.outputs.clone());
        let output = answer.value.as_ref().unwrap_or(&outputs);
        let is_streamed = self.output.as_ref().is_some_and(|streamed| {
            streamed == output || has_content(answer.transcript.messages(), streamed)
        });
        report.require(OUTPUT_STREAMED, is_streamed, || {
            format!("the output is {output}, but the last partial output is {:?}", self.output)
        });
    }
}

impl AnnouncedCall {
    fn is_named(&self, call: &ToolCall) -> bool {
        self.id == call.id && self.name == call.name
    }

    fn has_arguments(&self, call: &ToolCall) -> bool {
        let arguments = serde_json::from_str::<Value>(&self.arguments);
        match (arguments, call.arguments.value()) {
            (Ok(announced), Ok(arguments)) => announced == *arguments,
            _ => self.arguments == call.arguments.as_str(),
        }
    }
}

impl GuardedCalls<'_> {
    fn contains(&self, id: &str) -> bool {
        match self {
            Self::Unknown => true,
            Self::Known(ids) => ids.contains(id),
        }
    }
}

/// Returns the calls for which a call guardrail took `action` in a run that ended with `end`.
fn calls_with_action(end: &RunEnd, action: GuardrailAction) -> GuardedCalls<'_> {
    let reports = match end {
        Ok(RunOutput::Answer(answer)) => &answer.guardrails,
        Ok(RunOutput::Suspended(_)) => return GuardedCalls::Unknown,
        Err(error) => match &*error.kind {
            AgentErrorKind::Guardrail { reports, .. } => reports,
            _ => return GuardedCalls::Unknown,
        },
    };
    let has_action =
        |report: &&GuardrailReport| report.stage == GuardrailStage::Call && report.action == action;
    let reports = reports.iter().filter(has_action);
    GuardedCalls::Known(reports.filter_map(|report| report.call_id.as_deref()).collect())
}

/// Returns `true` if a reply in `messages` has the content `output`, before its validation.
fn has_content(messages: &[Arc<Message>], output: &Value) -> bool {
    messages.iter().any(|message| match message.body() {
        MessageBody::Assistant(message) => message
            .content
            .iter()
            .any(|content| matches!(content, Content::Json { value } if value == output)),
        _ => false,
    })
}
