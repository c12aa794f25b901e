//! The end of a run.

use haft_core::{Content, MessageBody, RunAnswer, StopReason};

use super::{Run, steps};

impl Run {
    pub(super) fn answer(&self, stop_reason: StopReason) -> RunAnswer {
        let (messages, head) = (self.transcript.messages(), &self.head);
        let (text, outputs) = match messages.last().map(|message| message.body()) {
            Some(MessageBody::Assistant(last)) => match (&last.refusal, last.content.as_slice()) {
                (Some(refusal), _) => (refusal.clone(), None),
                (None, [Content::Json { value }]) if head.config.outputs.is_some() => {
                    (last.text(), value.as_object())
                }
                (None, _) => (last.text(), None),
            },
            _ => (String::new(), None),
        };
        RunAnswer {
            text,
            outputs: outputs.cloned().unwrap_or_default(),
            steps: steps(messages.get(head.start..).unwrap_or_default()),
            usage: head.usage,
            stop_reason,
            transcript: self.transcript.clone(),
        }
    }
}
