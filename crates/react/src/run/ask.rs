//! The requests of a run.

use haft_core::{agent::AgentErrorKind, model::ModelError, usage::Usage};

use super::{Effect, Phase, Run, RunError, Step};
use crate::{Prompt, Reply};

impl Run {
    pub(super) fn ask(&mut self, step: &Step<'_>) -> Result<Effect, AgentErrorKind> {
        if let (None, Some(limit)) = (self.head.last_request, self.exhausted()) {
            self.reach(limit)?;
        }
        self.placed.keep_up(&self.transcript);
        if let Some(compaction) = self.keep_within_tokens() {
            return Ok(compaction);
        }
        let tool_choice = self.choose(step)?;
        let request = step.dialect.request(&Prompt {
            messages: self.view(),
            tools: step.tools,
            instructions: step.instructions,
            outputs: self.outputs(),
            must_answer: self.head.must_answer(),
            tool_choice: &tool_choice,
            settings: step.settings.unwrap_or(&self.head.config.settings),
        });
        self.head.tool_choice = tool_choice;
        self.head.requests += 1;
        self.head.phase = Phase::Asked;
        Ok(Effect::Chat(Box::new(request)))
    }

    /// Tells what the model replied, as the dialect [folds](crate::Dialect::fold) it.
    ///
    /// A request that failed can be made again: the run is where it was before it. An empty or unreadable reply, and one that was cut, is
    /// tolerated as often as [`RunConfig::unusable_replies`](super::RunConfig::unusable_replies) says. Nothing of it is kept, and none of
    /// its calls is made.
    ///
    /// # Errors
    ///
    /// Gives the model's error back where the run cannot tolerate it.
    pub fn on_chat(&mut self, reply: Result<Reply, ModelError>) -> Result<(), AgentErrorKind> {
        if self.head.phase != Phase::Asked {
            return Err(RunError::NoRequest.into());
        }
        self.head.phase = Phase::Asking;
        match reply {
            Ok(reply) => {
                let usage = reply.usage.of_reply();
                self.head.usage += usage;
                self.note_tokens(usage.total_tokens());
                self.head.phase = Phase::Replied { reply: Box::new(reply) };
                Ok(())
            }
            Err(error) => {
                self.head.usage += Usage::of_failed_request();
                match decisive(&error) {
                    ModelError::ContextTooLong(_) => self.overflow(error),
                    // Nothing is asked after it: what had come says more than that there is a limit.
                    ModelError::Truncated { .. } if self.head.last_request.is_some() => Err(error.into()),
                    _ if is_broken_reply(&error) => self.tolerate(|| error.into()),
                    _ => Err(error.into()),
                }
            }
        }
    }
}

/// Whether there was a reply, and it is none that can be taken: another one may be.
pub(crate) fn is_broken_reply(error: &ModelError) -> bool {
    let error = decisive(error);
    matches!(error, ModelError::EmptyResponse | ModelError::InvalidResponse(_) | ModelError::Truncated { .. })
}

/// Where several models were asked, the last one had the last word.
fn decisive(error: &ModelError) -> &ModelError {
    match error {
        ModelError::NoneReplied { failures } => failures.last().map_or(error, |last| decisive(&last.error)),
        other => other,
    }
}
