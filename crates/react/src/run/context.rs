//! What of the conversation a model is shown. The conversation itself keeps everything.

use std::ops::Range;

use haft_core::{AgentErrorKind, ChatResponse, MessageBody, ModelError, Usage, View};
use serde::{Deserialize, Serialize};

use super::{Effect, Phase, Run, RunError, is_hint, mark};

/// How much of a conversation a model is shown.
///
/// What is left out is left out whole: a turn of an earlier run, with all that was called in it, or a step, which is a reply
/// with the results of its calls. The question of the run and its last step are always shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextConfig {
    /// How many of the latest turns and steps are shown. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<usize>,
    /// How many tokens a request and its reply may have together before the next request is made with less. Default: as many
    /// as the model takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// How often in a row the oldest is left out when there is too much for the model. Default: 3.
    pub omissions: u32,
    /// Whether all but the last step is [summarised](Effect::Compact) when there is too much, once, in place of leaving the
    /// oldest out. Where that fails, the oldest is left out. Default: no.
    pub compaction: bool,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self { latest: None, tokens: None, omissions: 3, compaction: false }
    }
}

/// What is shown of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Shown {
    /// From which message on, of those before the run.
    earlier: usize,
    /// From which message on, of the steps of the run.
    steps: usize,
    /// The message that stands for what is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<usize>,
    /// How often in a row something was left out.
    omissions: u32,
    /// How many tokens the last request had with its reply.
    tokens: u64,
}

impl Run {
    /// What the model is shown.
    pub(super) fn view(&self) -> View {
        let Shown { earlier, steps, summary, .. } = self.head.shown;
        let (start, first, end) = (self.head.start, self.first_step(), self.transcript.len());
        let (earlier, steps) = self.within_latest(earlier.min(start), steps.max(first));
        let shown = [earlier..start, start..first, steps..end];
        let Some(summary) = summary else { return self.transcript.view_of(shown) };
        let around = |range: Range<usize>| {
            [range.start..range.end.min(summary), range.start.max(summary + 1)..range.end]
        };
        let shown = shown.into_iter().flat_map(around).filter(|range| range.start < range.end);
        self.transcript.view_of(std::iter::once(summary..summary + 1).chain(shown))
    }

    /// Notes how much the model has read and written.
    pub(super) fn note_tokens(&mut self, tokens: u64) {
        self.head.shown.tokens = tokens;
        self.head.shown.omissions = 0;
    }

    /// Shows less where the last request had too many tokens. Whatever cannot be left out is sent.
    pub(super) fn keep_within_tokens(&mut self) -> Option<Effect> {
        let limit = self.head.config.context.tokens?;
        if self.head.shown.tokens <= limit {
            return None;
        }
        // Asked once for each reply.
        self.head.shown.tokens = 0;
        self.reduce().then(|| self.compact()).flatten()
    }

    /// Shows less, since the model says that there is too much.
    pub(super) fn overflow(&mut self, error: ModelError) -> Result<(), AgentErrorKind> {
        if self.reduce() { Ok(()) } else { Err(error.into()) }
    }

    /// Asks for a summary where one is due.
    pub(super) fn compact(&mut self) -> Option<Effect> {
        let Phase::Compacting { to } = self.head.phase else { return None };
        let Shown { earlier, steps, summary, .. } = self.head.shown;
        let (start, first) = (self.head.start, self.first_step());
        let summary = summary.map(|summary| summary..summary + 1);
        let parts =
            summary.into_iter().chain([earlier.min(start)..start, start..first, steps.max(first)..to]);
        Some(Effect::Compact(self.transcript.view_of(parts)))
    }

    /// Tells of the summary that was [asked for](Effect::Compact). If there is none, the oldest step is left out instead.
    ///
    /// # Errors
    ///
    /// Fails when no summary was asked for, and with the model's error when nothing can be left out.
    pub fn on_compact(&mut self, summary: Result<ChatResponse, ModelError>) -> Result<(), AgentErrorKind> {
        let Phase::Compacting { to } = self.head.phase else {
            return Err(RunError::NoCompaction.into());
        };
        self.head.phase = Phase::Asking;
        let usage = summary.as_ref().map(|response| response.usage).unwrap_or_default();
        self.head.usage += Usage { requests: usage.requests.max(1), ..usage };
        let text = summary.and_then(|response| {
            let text = response.message.text();
            if text.trim().is_empty() { Err(ModelError::EmptyResponse) } else { Ok(text) }
        });
        match text {
            Ok(text) => {
                self.push(mark::summary(text));
                let shown = &mut self.head.shown;
                shown.summary = Some(self.transcript.len() - 1);
                (shown.earlier, shown.steps) = (self.head.start, to);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "what was said cannot be summarised");
                if self.omit() { Ok(()) } else { Err(error.into()) }
            }
        }
    }

    /// Leaves something out, or has it summarised first; whether there was anything.
    fn reduce(&mut self) -> bool {
        let shown = self.head.shown;
        if shown.omissions >= self.head.config.context.omissions {
            return false;
        }
        if !self.head.config.context.compaction {
            return self.omit();
        }
        let steps = self.steps_from(shown.steps.max(self.first_step()));
        let to = steps.last().map_or(self.transcript.len(), |last| last.start);
        if shown.omissions > 0 || (steps.len() < 2 && shown.earlier >= self.head.start) {
            return false;
        }
        self.head.shown.omissions += 1;
        self.head.phase = Phase::Compacting { to };
        true
    }

    /// Leaves out the oldest turn or step.
    fn omit(&mut self) -> bool {
        let Shown { earlier, steps, .. } = self.head.shown;
        let turns = self.turns_from(earlier);
        let steps = self.steps_from(steps.max(self.first_step()));
        match (turns.first(), steps.as_slice()) {
            (Some(oldest), _) => self.head.shown.earlier = oldest.end,
            (None, [oldest, _, ..]) => self.head.shown.steps = oldest.end,
            _ => return false,
        }
        self.head.shown.omissions += 1;
        tracing::warn!("there is too much for the model: it is no longer shown the oldest step");
        true
    }

    /// The later of these beginnings and those of the latest turns and steps, where only they are shown.
    fn within_latest(&self, earlier: usize, steps: usize) -> (usize, usize) {
        let Some(latest) = self.head.config.context.latest else { return (earlier, steps) };
        let (turns, own) = (self.turns_from(earlier), self.steps_from(steps));
        let too_many = (turns.len() + own.len()).saturating_sub(latest.max(1));
        let turns_left = turns.get(too_many..).unwrap_or_default();
        let own_left = own.get(too_many.saturating_sub(turns.len())..).unwrap_or_default();
        let beginning = |left: &[Range<usize>], end| left.first().map_or(end, |first| first.start);
        (
            beginning(turns_left, self.head.start),
            if own.is_empty() { steps } else { beginning(own_left, steps) },
        )
    }

    /// Where the first step of the run begins.
    fn first_step(&self) -> usize {
        let new = self.transcript.messages().iter().skip(self.head.start);
        let said = new.take_while(|message| !matches!(message.body(), MessageBody::Assistant(_)));
        self.head.start + said.count()
    }

    /// The steps of the run from a message on: each begins with a reply.
    fn steps_from(&self, from: usize) -> Vec<Range<usize>> {
        self.pieces(from..self.transcript.len(), |body, _| matches!(body, MessageBody::Assistant(_)))
    }

    /// The turns before the run from a message on: each begins with what a person said.
    fn turns_from(&self, from: usize) -> Vec<Range<usize>> {
        self.pieces(from..self.head.start, |body, is_hint| {
            matches!(body, MessageBody::User { .. }) && !is_hint
        })
    }

    fn pieces(&self, range: Range<usize>, begins: impl Fn(&MessageBody, bool) -> bool) -> Vec<Range<usize>> {
        let messages = self.transcript.messages().get(range.clone()).unwrap_or_default();
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for (index, message) in (range.start..).zip(messages) {
            match pieces.last_mut() {
                Some(piece) if !begins(message.body(), is_hint(message)) => piece.end = index + 1,
                _ => pieces.push(index..index + 1),
            }
        }
        pieces
    }
}
