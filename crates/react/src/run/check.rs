//! The judgement of hooks about inputs, calls, results and answers: the state `Checking`.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    Message, RunEvent, ToolResult,
    agent::{AgentErrorKind, GuardrailAction, StopReason},
    call::{BoxError, FailureKind, ToolError},
    content::Content,
};

use super::{
    Check, CheckVerdict, Effect, NewArguments, Run, RunError,
    state::{Answer, Batch, Candidate, State, Transition},
};
use crate::{
    hook::{Judgement, Verdict},
    output::Output,
    transcript::{
        marks::{hint_message, mark_rejected, replacement_message},
        replacements::replacements,
        segments::is_from_user,
    },
};

impl Run {
    /// `Checking`: returns the data that the hooks judge.
    pub(super) fn request_check(&self, candidate: Candidate) -> Transition {
        let check = match &candidate {
            Candidate::Input { indices, .. } => Check::Input(self.sent_messages(indices)),
            Candidate::Calls(batch) => Check::Calls(self.calls_to_check(batch)),
            Candidate::Results(first) => Check::Results(self.calls_of_results(*first).into()),
            Candidate::Answer(answer) => Check::Answer(answer.output.clone()),
        };
        State::Checking(candidate).with(Effect::Check(check))
    }

    /// `Checking`: applies the verdicts of the hooks.
    pub(super) fn apply_check(&mut self, candidate: Candidate, verdict: CheckVerdict) -> Transition {
        match (candidate, verdict) {
            (Candidate::Input { indices, .. }, CheckVerdict::Input(judgement)) => {
                self.apply_input_check(indices, judgement)
            }
            (Candidate::Calls(batch), CheckVerdict::Calls(judgements)) => {
                self.apply_call_checks(batch, judgements)
            }
            (Candidate::Results(first), CheckVerdict::Results(judgement)) => {
                self.apply_results_check(first, judgement)
            }
            (Candidate::Answer(answer), CheckVerdict::Answer(judgement)) => {
                self.apply_answer_check(answer, judgement)
            }
            (candidate, _) => State::Checking(candidate).fail(RunError::OtherCheck),
        }
    }

    /// Returns the indices of the messages of the user that have no reply yet and that the hooks
    /// have not judged. `None` if there are none, or if no hook judges inputs.
    pub(super) fn unchecked_input(&self) -> Option<Vec<usize>> {
        if !self.data.config.checks.input {
            return None;
        }
        let start = self.data.checked_input.max(self.reply_end());
        let new = (start..).zip(self.transcript.messages().get(start..)?);
        let indices: Vec<_> = new.filter(|(_, it)| is_from_user(it)).map(|(index, _)| index).collect();
        (!indices.is_empty()).then_some(indices)
    }

    /// Returns the messages at `indices`, with the replacements of hooks.
    fn sent_messages(&self, indices: &[usize]) -> Vec<Arc<Message>> {
        let messages = self.transcript.messages();
        let sent = |index: &usize| self.replaced.get(index).or_else(|| messages.get(*index)).cloned();
        indices.iter().filter_map(sent).collect()
    }

    /// Applies the verdict about the messages at `indices`. Requests, also those of later runs,
    /// contain the replacements, or a note in place of messages that were blocked or ended the run.
    /// The transcript keeps the original messages.
    fn apply_input_check(&mut self, indices: Vec<usize>, judgement: Judgement<Vec<Message>>) -> Transition {
        let is_other = match &judgement.verdict {
            Verdict::Replace(new) => new.len() != indices.len(),
            Verdict::Retry(_) => true,
            _ => false,
        };
        if is_other {
            let candidate = Candidate::Input { indices, is_rejected: false };
            return State::Checking(candidate).fail(RunError::OtherCheck);
        }
        let checked = indices.last().map_or(0, |last| last + 1);
        match self.record_reports(judgement) {
            Verdict::Pass | Verdict::Retry(_) => {}
            Verdict::Replace(new) => {
                let old = self.sent_messages(&indices);
                for ((index, old), new) in indices.into_iter().zip(old).zip(new) {
                    if new.content() != old.content() {
                        self.replace(index, new.content().to_vec());
                    }
                }
            }
            Verdict::Block(text) => {
                self.withhold(&indices);
                self.push(Message::assistant(text.as_str()));
                self.data.checked_input = checked;
                return State::answered(StopReason::Blocked, None).go();
            }
            Verdict::End(_) => {
                let candidate = Candidate::Input { indices, is_rejected: true };
                return State::Checking(candidate).fail(self.guardrail_error());
            }
        }
        self.data.checked_input = checked;
        State::Ready.go()
    }

    /// Applies the verdicts about calls. No call of the batch has started: if a hook ends the run,
    /// none of them runs.
    fn apply_call_checks(
        &mut self,
        batch: Batch,
        judgements: Vec<(String, Judgement<NewArguments>)>,
    ) -> Transition {
        let ids: BTreeSet<_> = judgements.iter().map(|(id, _)| id.as_str()).collect();
        let expected = self.calls_to_check(&batch);
        let is_other = ids != expected.iter().map(|ready| ready.call.id.as_str()).collect();
        if is_other || ids.len() != judgements.len() {
            return State::Checking(Candidate::Calls(batch)).fail(RunError::OtherCheck);
        }
        let (mut checked, mut events, mut reports) = (batch.clone(), Vec::new(), Vec::new());
        let mut is_ended = false;
        for (id, judgement) in judgements {
            reports.extend(judgement.reports);
            let applied = match judgement.verdict {
                Verdict::Pass => checked.calls.check(&id, None),
                Verdict::Replace(new) => checked.calls.check(&id, Some(new)),
                Verdict::Retry(text) => self.refuse(&mut checked, &id, &ToolError::retry(text), &mut events),
                Verdict::Block(text) => self.refuse(&mut checked, &id, &ToolError::denied(text), &mut events),
                Verdict::End(_) => {
                    is_ended = true;
                    Ok(())
                }
            };
            if let Err(error) = applied {
                return State::Checking(Candidate::Calls(batch)).fail(error);
            }
        }
        self.record_reports(Judgement { verdict: Verdict::<()>::Pass, reports });
        if is_ended {
            self.close_calls(batch, FailureKind::Cancelled, "cancelled: a guardrail ended the run");
            return State::Ready.fail(self.guardrail_error());
        }
        self.events.append(&mut events);
        State::Calling(checked).go()
    }

    /// Stores the failure `error` for a call that a hook does not permit, and adds its events.
    fn refuse(
        &self,
        batch: &mut Batch,
        id: &str,
        error: &ToolError,
        events: &mut Vec<RunEvent>,
    ) -> Result<(), RunError> {
        let now = self.data.clock.now;
        let (call, result) = batch.calls.refuse(id, |call| {
            let failed = ToolResult::failed(call.id.as_str(), call.name.as_str(), error);
            Arc::new(ToolResult { started_at: now, ..failed })
        })?;
        events.extend([RunEvent::CallStarted { call }, RunEvent::CallFinished { result }]);
        Ok(())
    }

    /// Applies the verdict about the results from the index `first` on. A replacement is the
    /// answer.
    fn apply_results_check(&mut self, first: usize, judgement: Judgement<Output>) -> Transition {
        let state = State::Checking(Candidate::Results(first));
        let judgement = match self.check_replacement("results hook", judgement, Self::check_structure) {
            Ok(judgement) => judgement,
            Err(error) => return state.fail(error),
        };
        match self.record_reports(judgement) {
            Verdict::Replace(output) => {
                let output = Box::new(Output { stop_reason: StopReason::Tool, ..output });
                let sources = self.result_indices(first).collect();
                self.end_with_tool_output(output, sources).go()
            }
            Verdict::Block(text) => {
                self.push(Message::assistant(text.as_str()));
                State::answered(StopReason::Blocked, None).go()
            }
            Verdict::End(_) => state.fail(self.guardrail_error()),
            verdict @ (Verdict::Pass | Verdict::Retry(_)) => {
                if let Verdict::Retry(text) = verdict {
                    self.push(hint_message(text));
                }
                self.data.counts.rejected_replies = 0;
                State::Ready.go()
            }
        }
    }

    /// Applies the verdict about an answer. The transcript keeps the original message of the model.
    /// If a hook changed only the structured data, the new JSON text replaces the text of the
    /// output.
    fn apply_answer_check(&mut self, answer: Answer, judgement: Judgement<Output>) -> Transition {
        let check = |run: &Self, changed| run.check_changed_output(&answer.output, changed);
        let judgement = match self.check_replacement("answer hook", judgement, check) {
            Ok(judgement) => judgement,
            Err(error) => return State::Checking(Candidate::Answer(answer)).fail(error),
        };
        let output = match self.record_reports(judgement) {
            Verdict::Pass => Output::clone(&answer.output),
            Verdict::Replace(output) => output,
            Verdict::Retry(problem) => {
                self.reject_unchecked(answer);
                // This text is sent to the model.
                return self
                    .request_correction(format!("Your answer was rejected: {problem}\nAnswer again."));
            }
            Verdict::Block(text) => return self.block_answer(answer, text),
            Verdict::End(_) => {
                return State::Checking(Candidate::Answer(answer)).fail(self.guardrail_error());
            }
        };
        let stop_reason = output.stop_reason;
        let is_message = answer.message.as_ref().is_some_and(|it| self.output_of(it, stop_reason) == output);
        if let Some(message) = answer.message {
            let message = self.answer_message(*message);
            self.push(message);
        }
        State::answered(stop_reason, (!is_message).then(|| Box::new(output))).go()
    }

    /// Checks a replacement in `judgement` with `check`. `hook` is the kind of the hook in the
    /// error.
    fn check_replacement(
        &self,
        hook: &'static str,
        judgement: Judgement<Output>,
        check: impl Fn(&Self, Output) -> Result<Output, BoxError>,
    ) -> Result<Judgement<Output>, AgentErrorKind> {
        let Judgement { verdict, reports } = judgement;
        let verdict = match verdict {
            Verdict::Replace(output) => match check(self, output) {
                Ok(output) => Verdict::Replace(output),
                Err(source) => return Err(AgentErrorKind::HookFailed { hook, source }),
            },
            other => other,
        };
        Ok(Judgement { verdict, reports })
    }

    /// Ends the run with `text` in place of `answer`, which a hook blocked. Later requests contain
    /// `text` in place of the answer.
    fn block_answer(&mut self, answer: Answer, text: String) -> Transition {
        match answer.message {
            Some(message) => {
                self.push(Message::assistant(*message));
                self.replace(self.transcript.len() - 1, vec![Content::text(text.as_str())]);
            }
            None => {
                self.push(Message::assistant(text.as_str()));
                self.withhold(&answer.sources);
            }
        }
        let output = Output { text, ..Output::empty(StopReason::Blocked) };
        State::answered(StopReason::Blocked, Some(Box::new(output))).go()
    }

    /// Records the message of an answer that is not accepted as
    /// [rejected](crate::transcript::is_rejected).
    pub(super) fn reject_unchecked(&mut self, answer: Answer) {
        if let Some(message) = answer.message {
            self.push(mark_rejected(Message::assistant(*message)));
        }
    }

    /// Adds the reports in `judgement` to the [reports](haft_core::agent::RunAnswer::guardrails) of
    /// the run. Returns the verdict.
    pub(super) fn record_reports<T>(&mut self, judgement: Judgement<T>) -> Verdict<T> {
        if !judgement.reports.is_empty() {
            Arc::make_mut(&mut self.data.reports).extend(judgement.reports);
        }
        judgement.verdict
    }

    /// Returns the error of a run that a hook ended, with the report of this hook.
    pub(super) fn guardrail_error(&self) -> AgentErrorKind {
        let reports = Vec::clone(&self.data.reports);
        match reports.iter().rfind(|report| report.action == GuardrailAction::End).cloned() {
            Some(report) => AgentErrorKind::Guardrail { report: Box::new(report), reports },
            None => AgentErrorKind::UnexpectedOutcome("a hook ended the run without a report".to_owned()),
        }
    }

    /// Replaces the content of the messages at `indices` with a note in later requests.
    pub(super) fn withhold(&mut self, indices: &[usize]) {
        for index in indices {
            self.replace(*index, vec![Content::text("[a guardrail withheld this message]")]);
        }
    }

    /// Replaces the content of the message at `index` in later requests. Appends a note to the
    /// transcript, so that later runs of the conversation replace it, too.
    pub(super) fn replace(&mut self, index: usize, content: Vec<Content>) {
        let offset = self.transcript.len() - index;
        self.push(replacement_message(content, offset));
        let new = replacements(self.transcript.messages(), self.transcript.len() - 1);
        Arc::make_mut(&mut self.replaced).extend(new);
    }
}
