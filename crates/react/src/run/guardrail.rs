//! Guardrails of a run: the check of its input, and the effect of a guardrail's decision.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult,
    agent::{AgentErrorKind, GuardrailReport, StopReason},
    call::{FailureKind, Outcome, ToolError},
    content::Content,
    message::{AssistantMessage, MessageBody, ProviderData},
    schema::Repair,
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Output, Run, RunError, RunState,
    answer_calls::is_answer,
    head::{is_false, is_zero},
    message_metadata::{replaced_offset, replacement_message},
    segments::is_from_user,
    state::State,
};

/// The messages of an [`Effect::CheckInput`](super::Effect::CheckInput), for the input guardrails.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InputCheck {
    /// The new messages of the user, with the changes of earlier guardrails.
    pub messages: Vec<Arc<Message>>,
    /// `true` for the guardrails that run [in parallel](super::RunConfig::check_input_in_parallel)
    /// with the model request. `false` for the guardrails [before](super::RunConfig::check_input)
    /// it.
    pub is_parallel: bool,
    /// The transcript indices of `messages`.
    indices: Vec<usize>,
}

/// The combined decision of all guardrails at one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardrailOutcome<T> {
    /// The decision that applies to the checked data.
    pub decision: RulingDecision<T>,
    /// The reports of all guardrails that decided, in order. If the decision is
    /// [`Block`](RulingDecision::Block) or [`End`](RulingDecision::End), the last report is from
    /// the guardrail that made this decision.
    pub reports: Vec<GuardrailReport>,
}

/// The decision of a guardrail about a `T`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a driver has to apply every decision")]
pub enum RulingDecision<T> {
    /// The data is used unchanged.
    #[default]
    Pass,
    /// The data is replaced.
    Rewrite(T),
    /// The data is withheld. The model or the user reads this text instead.
    Block(String),
    /// The run ends with [`AgentErrorKind::Guardrail`].
    End,
}

/// The new arguments of a call that a guardrail rewrote or a [repair
/// hook](haft_core::pipeline::RepairHook) repaired.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a driver creates it")]
pub struct NewArguments {
    /// The arguments.
    pub arguments: Value,
    /// The repairs of the received arguments. The result of the call lists them.
    pub repairs: Vec<Repair>,
}

impl InputCheck {
    /// Returns the part of this check that `earlier`, another check of the run, does not contain:
    /// the messages after those of `earlier`. `None` if there are no such messages.
    ///
    /// A driver whose guardrails still check `earlier` in parallel with a request can start the
    /// guardrails for the remaining messages.
    #[must_use]
    pub fn after(&self, earlier: &Self) -> Option<Self> {
        let last = earlier.indices.last();
        let start = self.indices.partition_point(|index| Some(index) <= last);
        let indices = self.indices.get(start..).filter(|indices| !indices.is_empty())?.to_vec();
        let messages = self.messages.get(start..)?.to_vec();
        Some(Self { messages, is_parallel: self.is_parallel, indices })
    }
}

/// The progress of the input guardrails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct InputProgress {
    /// The transcript index up to which the guardrails before the request have checked the input.
    #[serde(skip_serializing_if = "is_zero")]
    checked: usize,
    /// The transcript index up to which the guardrails in parallel with the request have checked
    /// the input.
    #[serde(skip_serializing_if = "is_zero")]
    checked_in_parallel: usize,
    /// `true` if a guardrail ended the run because of the input that is not checked yet.
    #[serde(skip_serializing_if = "is_false")]
    is_rejected: bool,
}

impl InputProgress {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Replaced messages by their transcript index.
pub(super) type Replacements = Arc<BTreeMap<usize, Arc<Message>>>;

impl Run {
    /// Returns the input that must be checked before the run executes calls or returns an answer.
    /// `None` if the run has no input guardrails, or if they have passed the input.
    ///
    /// While [`Effect::Chat`](super::Effect::Chat) is performed, the result is the check for the
    /// guardrails in parallel with the request. A driver can start this check together with the
    /// request, and report its outcome at any time before the next request. If the outcome is not
    /// reported before the reply, [`next`](Self::next) returns
    /// [`Effect::CheckInput`](super::Effect::CheckInput) before it applies the reply.
    pub fn input_check(&self) -> Option<InputCheck> {
        self.unchecked(false).or_else(|| self.unchecked(true))
    }

    /// Returns the check for the guardrails before the request, if the input needs it.
    pub(super) fn check_before_request(&self) -> Option<InputCheck> {
        self.unchecked(false)
    }

    /// Returns the messages of the user that have no reply yet, and that the guardrails in parallel
    /// with or before the request have not checked. `None` if there are no such messages or
    /// guardrails.
    fn unchecked(&self, is_parallel: bool) -> Option<InputCheck> {
        let (config, progress) = (&self.head.config, self.head.input);
        let (has_guardrails, checked) = match is_parallel {
            false => (config.check_input, progress.checked),
            true => (config.check_input_in_parallel, progress.checked_in_parallel),
        };
        if !has_guardrails {
            return None;
        }
        let messages = self.transcript.messages();
        let is_reply =
            |it: &Arc<Message>| matches!(it.body(), MessageBody::Assistant(_) | MessageBody::Tool(_));
        let replied = messages.iter().rposition(is_reply).map_or(0, |index| index + 1);
        let start = checked.max(replied);
        let new = (start..).zip(messages.get(start..)?).filter(|(_, it)| is_from_user(it));
        let (indices, messages): (Vec<_>, Vec<_>) =
            new.map(|(index, it)| (index, Arc::clone(self.replaced.get(&index).unwrap_or(it)))).unzip();
        (!indices.is_empty()).then_some(InputCheck { messages, is_parallel, indices })
    }

    /// Reports the outcome of the guardrails for `check`.
    ///
    /// If the guardrails rewrote or blocked messages, requests contain the new text in place of
    /// these messages, also in later runs of the conversation. The transcript keeps the original
    /// messages. If the guardrails blocked the input, the run ends with their text as the answer,
    /// unless enqueued messages continue it. If they blocked the input or ended the run, a model
    /// request in flight is abandoned and counted as a failed request, and a received reply is
    /// discarded with its calls.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::Guardrail`] if a guardrail ended the run. The input then stays
    /// unchecked: if the run is driven again, it is checked again. Fails with
    /// [`AgentErrorKind::HookFailed`] if the guardrails run in parallel with the request but
    /// rewrote the input, or if they changed the number of messages or returned other messages than
    /// user messages. Fails if the guardrails of `check` have no check in progress, or a check that
    /// does not begin with the messages of `check`.
    pub fn on_input_check(
        &mut self,
        check: &InputCheck,
        outcome: GuardrailOutcome<Vec<Message>>,
    ) -> Result<(), AgentErrorKind> {
        let Some(until) = self
            .unchecked(check.is_parallel)
            .and_then(|it| it.indices.starts_with(&check.indices).then(|| check.indices.last().copied())?)
        else {
            return Err(RunError::NoInputCheckInProgress.into());
        };
        self.record_guardrails(outcome.reports);
        match outcome.decision {
            RulingDecision::Pass => {}
            RulingDecision::Rewrite(new) => {
                rewritable(check, &new).map_err(|problem| AgentErrorKind::HookFailed {
                    hook: "input guardrail",
                    source: problem.into(),
                })?;
                for ((index, old), new) in check.indices.iter().zip(&check.messages).zip(new) {
                    if new.content() != old.content() {
                        self.replace(*index, new.content().to_vec());
                    }
                }
            }
            RulingDecision::Block(text) => {
                self.abandon_reply();
                self.withhold(&check.indices);
                self.close_calls(FailureKind::Denied, "not run: the input was blocked");
                self.push(Message::assistant(text.as_str()));
                self.head.state.block_input();
            }
            RulingDecision::End => {
                self.abandon_reply();
                self.head.input.is_rejected = true;
                return Err(self.guardrail_error());
            }
        }
        let InputProgress { checked, checked_in_parallel, is_rejected } = &mut self.head.input;
        *(if check.is_parallel { checked_in_parallel } else { checked }) = until + 1;
        *is_rejected = false;
        Ok(())
    }

    /// Adds `reports` to the [reports](haft_core::agent::RunAnswer::guardrails) of the run. A
    /// driver calls this method for guardrails over calls and results.
    pub fn record_guardrails(&mut self, reports: impl IntoIterator<Item = GuardrailReport>) {
        self.head.guardrails.extend(reports);
    }

    /// Ends the run because a guardrail over a call or a result ended it. Closes the open calls,
    /// and returns the error of the run, which contains the last
    /// [recorded](Self::record_guardrails) report. The run remains valid.
    pub fn end_by_guardrail(&mut self) -> AgentErrorKind {
        self.close_calls(FailureKind::Cancelled, "cancelled: a guardrail ended the run");
        self.guardrail_error()
    }

    /// Reports the outcome of the call guardrails for the call with this `id`, which the driver has
    /// [returned](Self::return_calls). Returns the result of the call if the guardrails blocked it.
    ///
    /// New arguments replace the arguments of the call, or the arguments in the decision about a
    /// resumed call. If the call is suspended or repeated later, it has the new arguments, and is
    /// not checked again. The transcript keeps the arguments of the model.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::Guardrail`] if a guardrail ended the run. All open calls are
    /// then closed. Fails if no call with this id is ready for execution.
    pub fn on_call_check(
        &mut self,
        id: &str,
        outcome: GuardrailOutcome<NewArguments>,
    ) -> Result<Option<&Arc<ToolResult>>, AgentErrorKind> {
        let not_ready = || RunError::NotReady(id.to_owned());
        let calls = &mut self.head.state.batch_mut().ok_or_else(not_ready)?.calls;
        let (arguments, blocked) = match outcome.decision {
            RulingDecision::Pass => (None, None),
            RulingDecision::Rewrite(new) => (Some(new), None),
            RulingDecision::Block(text) => (None, Some(text)),
            RulingDecision::End => {
                self.record_guardrails(outcome.reports);
                return Err(self.end_by_guardrail());
            }
        };
        calls.guard(id, arguments)?;
        let blocked =
            blocked.map(|text| calls.start(id).map(|call| blocked_result(call, text))).transpose()?;
        self.record_guardrails(outcome.reports);
        Ok(blocked.map(|result| self.on_result(id, result)).transpose()?)
    }

    pub(super) fn guardrail_error(&self) -> AgentErrorKind {
        let reports = self.head.guardrails.clone();
        match reports.last().cloned() {
            Some(report) => AgentErrorKind::Guardrail { report: Box::new(report), reports },
            None => {
                AgentErrorKind::UnexpectedOutcome("a guardrail ended the run without a report".to_owned())
            }
        }
    }

    /// Applies the text of a guardrail that blocked the output which is being validated. The run
    /// ends with `text` as its answer, and later requests contain `text` in place of the output.
    pub(super) fn block_output(&mut self, text: String) {
        let Some((_, message, sources)) = self.head.state.take_output() else { return };
        match message {
            Some(message) => {
                self.push(Message::assistant(message));
                self.replace(self.transcript.len() - 1, vec![Content::text(text.as_str())]);
            }
            None => {
                self.push(Message::assistant(text.as_str()));
                self.withhold(&sources);
            }
        }
        let output = Output { text, ..Output::empty(StopReason::Blocked) };
        self.head.state.finish_check(State::finishing(StopReason::Blocked, Some(Box::new(output))));
    }

    /// Prepares the cancellation of a run whose input is not checked: discards the reply, and
    /// withholds the input from later requests if a guardrail ended the run because of it.
    pub(super) fn cancel_input_check(&mut self) {
        let Some(check) = self.input_check() else { return };
        if self.state() == RunState::ReplyReceived {
            self.abandon_reply();
        }
        if self.head.input.is_rejected {
            self.withhold(&check.indices);
        }
    }

    /// Abandons the model request in flight, also for a summary, or the received reply, if any.
    fn abandon_reply(&mut self) {
        match self.state() {
            RunState::AwaitingReply => {
                self.head.usage += Usage::failed_request();
                self.head.state.request_again();
            }
            RunState::Compacting => {
                self.count_abandoned_request();
                self.head.state.request_again();
            }
            RunState::ReplyReceived => {
                // The usage of the reply is already counted.
                if let Some((request, _)) = self.head.state.take_reply() {
                    self.head.state.finish_reply(State::ReadyToRequest { purpose: request.purpose });
                }
            }
            _ => self.head.state.discard_inputs(),
        }
    }

    /// Replaces the content of the messages at `indices` with a note in later requests.
    fn withhold(&mut self, indices: &[usize]) {
        for index in indices {
            self.replace(*index, vec![Content::text("[a guardrail withheld this message]")]);
        }
    }

    /// Replaces the content of the message at `index` in later requests. Appends a note to the
    /// transcript, so that later runs of the conversation replace it, too.
    fn replace(&mut self, index: usize, content: Vec<Content>) {
        let offset = self.transcript.len() - index;
        self.push(replacement_message(content, offset));
        Arc::make_mut(&mut self.replaced)
            .extend(replacements(self.transcript.messages(), self.transcript.len() - 1));
    }
}

/// Returns the replacements in the notes of `messages` from the index `from` on.
pub(super) fn replacements(
    messages: &[Arc<Message>],
    from: usize,
) -> impl Iterator<Item = (usize, Arc<Message>)> {
    let notes = messages.get(from..).unwrap_or_default();
    (from..).zip(notes).filter_map(|(note_index, note)| {
        let index = usize::checked_sub(note_index, replaced_offset(note)?)?;
        let original = messages.get(index)?;
        let replacement = match original.body() {
            MessageBody::Assistant(reply) => Message::assistant(AssistantMessage {
                content: note.content().to_vec(),
                tool_calls: reply.tool_calls.iter().map(without_answer).collect(),
                // The provider could restore the original reply from its data.
                provider_data: ProviderData::default(),
                reasoning: None,
                refusal: reply.refusal.clone(),
            }),
            MessageBody::Tool(result) => {
                let output = ToolOutput { content: note.content().to_vec(), ..ToolOutput::default() };
                let outcome = Outcome::Done(output);
                Message::tool(ToolResult { outcome, warnings: Vec::new(), ..ToolResult::clone(result) })
            }
            _ => Message::new(MessageBody::User { content: note.content().to_vec() }),
        };
        Some((index, Arc::new(replacement.with_metadata(original.metadata().clone()))))
    })
}

fn blocked_result(call: &ToolCall, text: String) -> ToolResult {
    ToolResult::failed(call.id.as_str(), call.name.as_str(), &ToolError::Denied(text))
}

/// Returns `call` without its arguments if it gives the answer.
fn without_answer(call: &ToolCall) -> ToolCall {
    match is_answer(call) {
        true => ToolCall::new(call.id.as_str(), call.name.as_str(), "{}"),
        false => call.clone(),
    }
}

/// Fails with an error text for the user if `new` cannot replace the messages of `check`.
fn rewritable(check: &InputCheck, new: &[Message]) -> Result<(), &'static str> {
    if check.is_parallel {
        return Err(
            "a guardrail in parallel with the request cannot rewrite the input: run it before the request",
        );
    }
    if new.len() != check.messages.len() || !new.iter().all(is_from_user) {
        return Err("a guardrail must rewrite each message of the user to one message of the user");
    }
    Ok(())
}
