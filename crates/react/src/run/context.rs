//! What of the conversation a model is shown. The conversation itself keeps everything.

use std::{ops::Range, sync::Arc};

use haft_core::{Message, agent::AgentErrorKind, message::View, model::ModelError};
use serde::{Deserialize, Serialize};

use super::{Effect, Run, mark::summarised, pieces};

/// How much of a conversation a model is shown.
///
/// What is left out is left out whole: a turn of an earlier run, with all that was called in it, or a step, which is a reply
/// with calls, their results and what was said without a call after them. The question of the run (all messages that it was
/// given) and its last step are always shown. Of the summaries only the latest is shown, in the place of what it stands for; a later
/// run of the conversation goes on from it.
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
    /// How often in a row the oldest is left out when there is too much for the model; with 0 it never is, whether there are
    /// summaries or not. Default: 3.
    pub omissions: u32,
    /// Whether all but the last step is [summarised](Effect::Compact) when there is too much, once in a row, before the oldest is
    /// left out. A summary is a request, which the [limits](super::RunConfig::limits) must allow. Where it fails or is not enough,
    /// the oldest is left out. Default: no.
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
    pub(super) earlier: usize,
    /// From which message on, of the steps of the run.
    pub(super) steps: usize,
    /// The message that stands for what is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<usize>,
    /// How often in a row something was left out.
    omissions: u32,
    /// Whether a summary was asked for since the last reply.
    pub(super) is_summarised: bool,
    /// How often a summary was asked for.
    pub(super) summaries: u32,
    /// How many tokens the last request had with its reply.
    tokens: u64,
}

impl Shown {
    /// What a run begins with: its question, and all that was said before it, or the last summary and what that does not
    /// stand for.
    pub(super) fn of(messages: &[Arc<Message>], start: usize) -> Self {
        let earlier = messages.iter().take(start);
        let summary = (0..).zip(earlier).filter_map(|(index, it)| Some((index, summarised(it)?))).last();
        let earlier = summary.map_or(0, |(index, spared)| usize::saturating_sub(index, spared));
        Self { earlier, steps: messages.len(), summary: summary.map(|(index, _)| index), ..Self::default() }
    }

    /// What is shown where another model goes on from here: the steps of the run from `steps` on, and what the run began with.
    pub(super) fn anew(self, messages: &[Arc<Message>], start: usize, steps: usize) -> Self {
        Self { steps, summaries: self.summaries, ..Self::of(messages, start) }
    }
}

impl Run {
    /// What the model is shown.
    pub(super) fn view(&self) -> View {
        let (earlier, steps) = self.within_latest();
        self.view_of(earlier, steps..self.transcript.len())
    }

    /// The summary, the turns from `earlier` on, the question, and these steps.
    pub(super) fn view_of(&self, earlier: usize, steps: Range<usize>) -> View {
        let (start, first) = (self.head.start, self.head.first);
        let shown = [earlier..start, start..first, steps].into_iter();
        let messages = self.transcript.messages();
        let shown = shown.flat_map(|range| pieces::without_notes(messages, range));
        let summary = self.head.shown.summary.map(|summary| summary..summary + 1);
        let view = self.transcript.view_of(summary.into_iter().chain(shown));
        view.showing(Arc::clone(&self.placed.messages))
    }

    /// Notes how much the model has read and written.
    pub(super) fn note_tokens(&mut self, tokens: u64) {
        let shown = &mut self.head.shown;
        (shown.tokens, shown.omissions, shown.is_summarised) = (tokens, 0, false);
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

    /// Has something summarised, or leaves it out; whether there was anything.
    fn reduce(&mut self) -> bool {
        (self.head.config.context.compaction && self.begin_compaction()) || self.omit()
    }

    /// Leaves out the oldest turn or step; whether there was one that may be.
    pub(super) fn omit(&mut self) -> bool {
        if self.head.shown.omissions >= self.head.config.context.omissions {
            return false;
        }
        let turns = self.turns_from(self.head.shown.earlier);
        let steps = self.steps_from(self.head.shown.steps);
        let shown = &mut self.head.shown;
        match (turns.first(), steps.as_slice()) {
            (Some(oldest), _) => shown.earlier = oldest.end,
            (None, [oldest, _, ..]) => shown.steps = oldest.end,
            _ => return false,
        }
        shown.omissions += 1;
        tracing::warn!("there is too much for the model: it is no longer shown the oldest step");
        true
    }

    /// Where what is shown of the earlier turns and of the steps begins, when only the latest are.
    fn within_latest(&self) -> (usize, usize) {
        let Shown { earlier, steps, .. } = self.head.shown;
        let Some(latest) = self.head.config.context.latest else { return (earlier, steps) };
        let (turns, own) = (self.turns_from(earlier), self.steps_from(steps));
        let too_many = (turns.len() + own.len()).saturating_sub(latest.max(1));
        let from = |pieces: &[Range<usize>], number: usize| pieces.get(number).map(|piece| piece.start);
        (
            from(&turns, too_many).unwrap_or(self.head.start),
            from(&own, too_many.saturating_sub(turns.len())).unwrap_or(steps),
        )
    }

    /// The steps of the run from a message on.
    pub(super) fn steps_from(&self, from: usize) -> Vec<Range<usize>> {
        pieces::steps(self.transcript.messages(), from..self.transcript.len())
    }

    /// The turns before the run from a message on.
    fn turns_from(&self, from: usize) -> Vec<Range<usize>> {
        pieces::turns(self.transcript.messages(), from..self.head.start)
    }
}
