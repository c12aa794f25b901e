//! Summaries of what a model is no longer shown.

use haft_core::{
    agent::AgentErrorKind,
    model::{ChatResponse, FinishReason, ModelError},
    usage::Usage,
};

use super::{Effect, Phase, Run, RunError, mark};

impl Run {
    /// Goes over to a summary of all but the last step, if there is more than that. A summary is a request too, and the limits
    /// must leave one.
    pub(super) fn begin_compaction(&mut self) -> bool {
        let shown = self.head.shown;
        if shown.is_summarised || self.exhausted().is_some() {
            return false;
        }
        let steps = self.steps_from(shown.steps);
        if steps.len() < 2 && shown.earlier >= self.head.start {
            return false;
        }
        let to = steps.last().map_or(self.transcript.len(), |last| last.start);
        self.head.shown.is_summarised = true;
        self.head.phase = Phase::Compacting { to };
        true
    }

    /// Asks for a summary where one is due.
    pub(super) fn compact(&mut self) -> Option<Effect> {
        let Phase::Compacting { to } = self.head.phase else { return None };
        self.placed.keep_up(&self.transcript);
        let shown = &mut self.head.shown;
        shown.summaries = shown.summaries.saturating_add(1);
        let (earlier, steps) = (shown.earlier, shown.steps);
        Some(Effect::Compact(self.view_of(earlier, steps..to)))
    }

    /// Tells of the summary that was [asked for](Effect::Compact). If there is none, or not a whole one, the oldest is left out
    /// instead, where something may be.
    ///
    /// # Errors
    ///
    /// Fails when no summary was asked for.
    pub fn on_compact(&mut self, summary: Result<ChatResponse, ModelError>) -> Result<(), AgentErrorKind> {
        let Phase::Compacting { to } = self.head.phase else {
            return Err(RunError::NoCompaction.into());
        };
        self.head.phase = Phase::Asking;
        self.head.usage += match &summary {
            Ok(response) => response.usage.of_reply(),
            Err(_) => Usage::of_failed_request(),
        };
        match summary.and_then(whole) {
            Ok(text) => {
                let place = self.transcript.len();
                self.push(mark::summary(text, place.saturating_sub(to)));
                let shown = &mut self.head.shown;
                (shown.summary, shown.earlier, shown.steps) = (Some(place), self.head.start, to);
            }
            Err(error) => {
                tracing::warn!(%error, "what was said cannot be summarised");
                self.omit();
            }
        }
        Ok(())
    }
}

/// The text of a summary. What was cut lacks what stands last: what is still to do.
fn whole(response: ChatResponse) -> Result<String, ModelError> {
    let text = response.message.text();
    match response.finish_reason {
        FinishReason::Length | FinishReason::ContentFilter => Err(ModelError::Truncated {
            reason: "the summary is not whole".to_owned(),
            partial: Box::new(response.message),
        }),
        _ if text.trim().is_empty() => Err(ModelError::EmptyResponse),
        _ => Ok(text),
    }
}
