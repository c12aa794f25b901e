//! Compaction: a summary replaces the oldest messages in requests.

use haft_core::{
    agent::AgentErrorKind,
    model::{ChatResponse, ModelError},
    usage::Usage,
};

use super::{Effect, Run, RunError, message_metadata, state::State};

impl Run {
    /// Starts the compaction of all messages before the last step. Returns `false` if there are no
    /// such messages, if a summary was already requested since the last reply, or if the limits
    /// allow no further request.
    pub(super) fn begin_compaction(&mut self) -> bool {
        let Some(until) = self.compaction_end() else { return false };
        self.head.context_range.is_summarized = true;
        self.head.state.start_compaction(until);
        true
    }

    /// Returns the message index up to which a compaction would summarize the messages. `None` if
    /// no compaction can start.
    pub(super) fn compaction_end(&self) -> Option<usize> {
        let range = self.head.context_range;
        if range.is_summarized || self.reached_limit().is_some() {
            return None;
        }
        let steps = self.steps_from(range.steps);
        if steps.len() < 2 && range.earlier >= self.head.first_message {
            return None;
        }
        Some(steps.last().map_or(self.transcript.len(), |last| last.start))
    }

    /// Returns [`Effect::Compact`] with the messages to summarize if the run is in the state
    /// [`State::Compacting`]. Returns `None` in other states.
    pub(super) fn compact_effect(&mut self) -> Option<Effect> {
        let State::Compacting { until, .. } = *self.head.state.state() else { return None };
        let range = &mut self.head.context_range;
        // The effect may be returned repeatedly, but the request is counted once.
        range.summaries = range.summaries.saturating_add(u32::from(!range.is_summary_in_flight));
        range.is_summary_in_flight = true;
        let range = *range;
        Some(Effect::Compact(self.view_of(range.earlier, range.steps..until)))
    }

    /// Ends a compaction whose summary was not requested. The summary is requested later, if it is
    /// still needed.
    pub(super) fn discard_compaction(&mut self) {
        if let State::Compacting { .. } = self.head.state.state() {
            self.head.context_range.is_summarized = false;
            self.head.state.request_again();
        }
    }

    /// Ends the compaction. Adds `usage`, the usage of its request, to the usage of the run.
    pub(super) fn finish_compaction(&mut self, usage: Usage) {
        self.head.context_range.is_summary_in_flight = false;
        self.head.usage += usage;
        self.head.state.request_again();
    }

    /// Reports the summary that [`Effect::Compact`] requested, or the error of the model. If the
    /// request failed, or the summary is empty or truncated, the run omits the oldest turn or step.
    /// At most [`omissions`](super::ContextConfig::omissions) turns and steps are omitted between
    /// two replies.
    ///
    /// # Errors
    ///
    /// Fails if the last effect was not [`Effect::Compact`].
    pub fn on_compact(&mut self, summary: Result<ChatResponse, ModelError>) -> Result<(), AgentErrorKind> {
        let State::Compacting { until, .. } = *self.head.state.state() else {
            return Err(RunError::NoCompactionInProgress.into());
        };
        self.finish_compaction(match &summary {
            Ok(response) => response.usage.counted_as_request(),
            Err(_) => Usage::failed_request(),
        });
        match summary.and_then(summary_text) {
            Ok(text) => {
                let index = self.transcript.len();
                self.push(message_metadata::summary_message(text, index.saturating_sub(until)));
                let range = &mut self.head.context_range;
                (range.summary, range.earlier, range.steps) = (Some(index), self.head.first_message, until);
                // The summary covers the enqueued messages of hidden steps.
                range.hidden = 0;
            }
            Err(error) => {
                tracing::warn!(%error, "the conversation cannot be summarized");
                self.omit_oldest();
            }
        }
        Ok(())
    }
}

/// Returns the text of the summary in `response`. Fails if the summary is empty or truncated: a
/// truncated summary lacks the list of open work at its end.
fn summary_text(response: ChatResponse) -> Result<String, ModelError> {
    let text = response.message.text();
    match text.trim() {
        _ if response.finish_reason.is_cut() => Err(ModelError::Truncated {
            reason: "the summary is not whole".to_owned(),
            partial: Box::new(response.message),
        }),
        "" => Err(ModelError::EmptyResponse),
        _ => Ok(text),
    }
}
