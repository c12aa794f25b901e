//! What a run makes of a reply.

use std::mem;

use haft_core::{
    Message,
    agent::{AgentErrorKind, Limit, StopReason},
    content::Content,
    message::AssistantMessage,
    model::{FinishReason, ModelError},
};

use super::{Phase, Run, mark, outputs};

impl Run {
    /// Takes the reply, if there is one, into the transcript. Afterwards the model is to be asked again, calls are
    /// open, or there is an answer.
    pub(super) fn hear(&mut self) -> Result<(), AgentErrorKind> {
        let reply = match mem::replace(&mut self.head.phase, Phase::Asking) {
            Phase::Replied { reply } => *reply,
            other => {
                self.head.phase = other;
                return Ok(());
            }
        };
        let message = reply.message;
        match reply.finish_reason {
            // What was cut is no call and no answer: it is in the error, not in the transcript.
            FinishReason::Length => return Err(truncated(message)),
            FinishReason::ContentFilter => return Err(filtered()),
            _ => {}
        }
        if let Some(problem) = reply.problem {
            return self.object(message, problem);
        }
        if message.refusal.is_some() {
            // Calls beside a refusal are none: nobody will answer them.
            self.push(Message::assistant(AssistantMessage { tool_calls: Vec::new(), ..message }));
            self.head.phase = Phase::Answered { stop_reason: StopReason::Refused, output: None };
            return Ok(());
        }
        if message.is_empty() {
            return self.tolerate(|| ModelError::EmptyResponse.into());
        }
        if let Some(problem) = self.unmet(&message) {
            return self.object(message, problem);
        }
        if message.tool_calls.is_empty() {
            self.conclude(message)
        } else if self.head.is_extracting {
            self.object(message, "No more calls can be made. Give the outputs.".to_owned())
        } else {
            self.open(message)
        }
    }

    /// Opens the calls of a reply.
    fn open(&mut self, mut message: AssistantMessage) -> Result<(), AgentErrorKind> {
        self.head.has_called = true;
        self.ids.adopt(&mut message.tool_calls);
        let calls = message.tool_calls.clone();
        self.push(Message::assistant(message));
        self.head.identical_calls = self.repetitions(calls.len());
        self.begin_calls(calls, false)
    }

    /// Takes an answer, if it has the form that was asked for.
    fn conclude(&mut self, message: AssistantMessage) -> Result<(), AgentErrorKind> {
        let message = match self.outputs() {
            None => message,
            Some(schema) => match outputs::read(schema, &message.content) {
                Ok(outputs) => AssistantMessage { content: vec![Content::json(outputs)], ..message },
                Err(problem) => return self.object(message, problem),
            },
        };
        if self.head.config.outputs.is_some() && self.outputs().is_none() {
            self.push(Message::assistant(message));
            self.head.is_extracting = true;
            self.head.unusable_replies = 0;
            self.push(mark::hint("Now give the outputs, from what was said and found."));
            return Ok(());
        }
        let limit = self.head.last_request;
        let stop_reason = limit.map_or(StopReason::Finished, |_| StopReason::LimitReached);
        self.settle(message, stop_reason);
        Ok(())
    }

    /// Tells the model what is wrong with its reply, unless that happened too often.
    fn object(&mut self, message: AssistantMessage, problem: String) -> Result<(), AgentErrorKind> {
        let said = AssistantMessage { tool_calls: Vec::new(), ..message };
        if !said.is_empty() {
            self.push(mark::unusable(Message::assistant(said)));
        }
        self.tell(problem)
    }

    /// What the model was told of replies that were not taken, from a message on.
    pub(crate) fn refused_since(&self, message: usize) -> Vec<String> {
        let new = self.transcript.messages().get(message..).unwrap_or_default();
        let pairs = new.iter().zip(new.iter().skip(1));
        let refused = pairs.filter(|(reply, next)| mark::is_unusable(reply) && mark::is_hint(next));
        refused.map(|(_, hint)| hint.text()).collect()
    }

    /// Tells the model what is wrong, unless that happened too often.
    pub(super) fn tell(&mut self, problem: String) -> Result<(), AgentErrorKind> {
        let limit = Limit::UnusableReplies(self.head.config.unusable_replies.saturating_add(1));
        self.tolerate(|| AgentErrorKind::LimitReached(limit))?;
        self.push(mark::hint(problem));
        Ok(())
    }

    /// How often in a row the model has asked for its last calls, a part of them, or a round that ends with them. It is told
    /// before it is stopped, also where one reply repeats a call more often than that.
    fn repetitions(&mut self, latest: usize) -> u32 {
        let Some(limit) = self.head.config.identical_calls else { return 1 };
        self.made.keep_up(self.transcript.messages().get(self.head.start..).unwrap_or_default());
        let times = self.made.repetitions(latest, limit);
        if self.head.identical_calls < limit { times.min(limit) } else { times }
    }
}

fn truncated(partial: AssistantMessage) -> AgentErrorKind {
    let reason = "it reached the limit of tokens of one reply".to_owned();
    ModelError::Truncated { reason, partial: Box::new(partial) }.into()
}

fn filtered() -> AgentErrorKind {
    AgentErrorKind::ContentFiltered
}
