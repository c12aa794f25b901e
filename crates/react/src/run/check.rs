//! The judgement of hooks about inputs, calls, results and answers: the state `Checking`.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    Message, RunEvent, ToolResult,
    agent::{AgentErrorKind, GuardrailAction, GuardrailReport, StopReason},
    call::{BoxError, FailureKind, ToolError},
    content::Content,
};

use super::{
    Check, CheckVerdict, Checked, Effect, NewArguments, Run, RunError,
    state::{Answer, Batch, Candidate, State, Transition},
};
use crate::{
    hook::{HookFailure, Verdict},
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
            Candidate::Input(indices) => Check::Input(self.sent_messages(indices)),
            Candidate::Calls(batch) => Check::Calls(self.calls_to_check(batch)),
            Candidate::Results(first) => Check::Results(self.calls_of_results(*first).into()),
            Candidate::Answer(answer) => Check::Answer(answer.output.clone()),
        };
        State::Checking(candidate).with(Effect::Check(check))
    }

    /// `Checking`: applies the verdicts of the hooks.
    pub(super) fn apply_check(&mut self, candidate: Candidate, checked: Checked) -> Transition {
        let Checked { verdict, reports } = checked;
        match (candidate, verdict) {
            (Candidate::Input(indices), CheckVerdict::Input(verdict)) => {
                self.apply_input_check(indices, verdict, reports)
            }
            (Candidate::Calls(batch), CheckVerdict::Calls(verdicts)) => {
                self.apply_call_checks(batch, verdicts, reports)
            }
            (Candidate::Results(first), CheckVerdict::Results(verdict)) => {
                self.apply_results_check(first, verdict, reports)
            }
            (Candidate::Answer(answer), CheckVerdict::Answer(verdict)) => {
                self.apply_answer_check(answer, verdict, reports)
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
    fn apply_input_check(
        &mut self,
        indices: Vec<usize>,
        verdict: Verdict<Vec<Message>>,
        reports: Vec<GuardrailReport>,
    ) -> Transition {
        if matches!(&verdict, Verdict::Replace(new) if new.len() != indices.len()) {
            return State::Checking(Candidate::Input(indices)).fail(RunError::OtherCheck);
        }
        self.record_reports(reports);
        let checked = indices.last().map_or(0, |last| last + 1);
        match verdict {
            Verdict::Pass => {}
            Verdict::Replace(new) => {
                let old = self.sent_messages(&indices);
                for ((index, old), new) in indices.into_iter().zip(old).zip(new) {
                    if new.content() != old.content() {
                        self.replace(index, new.content().to_vec());
                    }
                }
            }
            Verdict::Retry(_) => {
                return State::Checking(Candidate::Input(indices)).fail(RunError::OtherCheck);
            }
            Verdict::Block(text) => {
                self.withhold(&indices);
                self.push(Message::assistant(text.as_str()));
                self.data.checked_input = checked;
                return State::answered(StopReason::Blocked, None).go();
            }
            Verdict::End(_) => {
                self.data.is_input_rejected = true;
                return State::Checking(Candidate::Input(indices)).fail(self.guardrail_error());
            }
        }
        self.data.checked_input = checked;
        self.data.is_input_rejected = false;
        State::Ready.go()
    }

    /// Applies the verdicts about calls. No call of the batch has started: if a hook ends the run,
    /// none of them runs.
    fn apply_call_checks(
        &mut self,
        mut batch: Batch,
        verdicts: Vec<(String, Verdict<NewArguments>)>,
        reports: Vec<GuardrailReport>,
    ) -> Transition {
        let ids: BTreeSet<_> = verdicts.iter().map(|(id, _)| id.as_str()).collect();
        let expected = self.calls_to_check(&batch);
        if ids != expected.iter().map(|ready| ready.call.id.as_str()).collect() {
            return State::Checking(Candidate::Calls(batch)).fail(RunError::OtherCheck);
        }
        self.record_reports(reports);
        for (id, verdict) in verdicts {
            let applied = match verdict {
                Verdict::Pass => batch.calls.check(&id, None),
                Verdict::Replace(new) => batch.calls.check(&id, Some(new)),
                Verdict::Retry(text) => self.refuse_call(&mut batch, &id, &ToolError::retry(text)),
                Verdict::Block(text) => self.refuse_call(&mut batch, &id, &ToolError::Denied(text)),
                Verdict::End(_) => {
                    let why = "cancelled: a guardrail ended the run";
                    self.close_calls(batch, FailureKind::Cancelled, why);
                    return State::Ready.fail(self.guardrail_error());
                }
            };
            if let Err(error) = applied {
                return State::Checking(Candidate::Calls(batch)).fail(error);
            }
        }
        State::Calling(batch).go()
    }

    /// Stores the failure `error` for a call that a hook does not permit.
    fn refuse_call(&mut self, batch: &mut Batch, id: &str, error: &ToolError) -> Result<(), RunError> {
        let now = self.data.clock.now;
        let (call, result) = batch.calls.refuse(id, |call| {
            let failed = ToolResult::failed(call.id.as_str(), call.name.as_str(), error);
            Arc::new(ToolResult { started_at: now, ..failed })
        })?;
        self.events.extend([RunEvent::CallStarted { call }, RunEvent::CallFinished { result }]);
        Ok(())
    }

    /// Applies the verdict about the results from the index `first` on. A replacement is the
    /// answer.
    fn apply_results_check(
        &mut self,
        first: usize,
        verdict: Verdict<Output>,
        reports: Vec<GuardrailReport>,
    ) -> Transition {
        let state = State::Checking(Candidate::Results(first));
        let output = match verdict {
            Verdict::Replace(output) => match self.check_structure(output) {
                Ok(output) => output,
                Err(source) => return state.fail(invalid_replacement("results hook", source, &reports)),
            },
            Verdict::Block(text) => {
                self.record_reports(reports);
                self.push(Message::assistant(text.as_str()));
                return State::answered(StopReason::Blocked, None).go();
            }
            Verdict::End(_) => {
                self.record_reports(reports);
                return state.fail(self.guardrail_error());
            }
            Verdict::Pass | Verdict::Retry(_) => {
                self.record_reports(reports);
                if let Verdict::Retry(text) = verdict {
                    self.push(hint_message(text));
                }
                self.data.counts.rejected_replies = 0;
                return State::Ready.go();
            }
        };
        self.record_reports(reports);
        let sources = self.result_indices(first).collect();
        self.end_with_tool_output(Box::new(Output { stop_reason: StopReason::Tool, ..output }), sources).go()
    }

    /// Applies the verdict about an answer. The transcript keeps the original message of the model.
    /// If a hook changed only the structured data, the new JSON text replaces the text of the
    /// output.
    fn apply_answer_check(
        &mut self,
        answer: Answer,
        verdict: Verdict<Output>,
        reports: Vec<GuardrailReport>,
    ) -> Transition {
        let output = match verdict {
            Verdict::Pass => Output::clone(&answer.output),
            Verdict::Replace(changed) => match self.check_changed_output(&answer.output, changed) {
                Ok(output) => output,
                Err(source) => {
                    let error = invalid_replacement("answer hook", source, &reports);
                    return State::Checking(Candidate::Answer(answer)).fail(error);
                }
            },
            Verdict::Retry(problem) => {
                self.record_reports(reports);
                self.reject_unchecked(answer);
                // This text is sent to the model.
                return self
                    .request_correction(format!("Your answer was rejected: {problem}\nAnswer again."));
            }
            Verdict::Block(text) => {
                self.record_reports(reports);
                return self.block_answer(answer, text);
            }
            Verdict::End(_) => {
                self.record_reports(reports);
                return State::Checking(Candidate::Answer(answer)).fail(self.guardrail_error());
            }
        };
        self.record_reports(reports);
        let stop_reason = output.stop_reason;
        let is_message = answer.message.as_ref().is_some_and(|it| self.output_of(it, stop_reason) == output);
        if let Some(message) = answer.message {
            let message = self.answer_message(*message);
            self.push(message);
        }
        State::answered(stop_reason, (!is_message).then(|| Box::new(output))).go()
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

    /// Adds `reports` to the [reports](haft_core::agent::RunAnswer::guardrails) of the run.
    pub(super) fn record_reports(&mut self, reports: impl IntoIterator<Item = GuardrailReport>) {
        self.data.reports.extend(reports);
    }

    /// Returns the error of a run that a hook ended, with the report of this hook.
    pub(super) fn guardrail_error(&self) -> AgentErrorKind {
        let reports = self.data.reports.clone();
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

/// Returns the error for a replacement that the run cannot use. It names the last hook in `reports`
/// that replaced the data, if this hook has a name. `hook` is the kind of the hook.
fn invalid_replacement(hook: &'static str, source: BoxError, reports: &[GuardrailReport]) -> AgentErrorKind {
    let rewrite = reports.iter().rfind(|report| report.action == GuardrailAction::Rewrite);
    let source = match rewrite {
        Some(report) => HookFailure::new(report.guardrail.as_str(), "", source).into(),
        None => source,
    };
    AgentErrorKind::HookFailed { hook, source }
}
