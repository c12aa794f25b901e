//! The part of the transcript that is sent in model requests. The transcript itself always contains
//! all messages.

use std::{mem, ops::Range, sync::Arc};

use haft_core::{Message, agent::Limit, message::TranscriptView, usage::Usage};
use serde::{Deserialize, Serialize};

use super::{
    Run, RunConfig,
    data::{RunData, is_default},
    is_false,
    state::State,
};
use crate::transcript::{
    marks::{is_enqueued, unsummarized_count},
    segments,
};

/// The part of the transcript that is sent, as message indices. The input of the run is always
/// sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Window {
    /// The index of the first message that is sent. Earlier messages are omitted or summarized.
    from: usize,
    /// The index of the latest summary, which is sent in place of the messages before `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<usize>,
    /// The index up to which a hand-off hides the steps of this run. Enqueued messages before this
    /// index are still sent.
    #[serde(skip_serializing_if = "is_default")]
    hidden: usize,
}

/// The size of the last request, and the reactions to it since the last reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Pressure {
    /// The tokens in the last request and its reply. Reset to 0 when they exceed
    /// [`ContextConfig::tokens`](super::ContextConfig::tokens) or the limit of one request, so that
    /// one reply shortens the context only once.
    tokens: u64,
    /// The number of omitted turns and steps.
    omissions: u32,
    /// `true` if a summary was requested, even if it failed.
    pub(super) is_summarized: bool,
    /// `true` if the context was shortened because of the limit of one request.
    #[serde(skip_serializing_if = "is_false")]
    is_shortened: bool,
    /// The input tokens of the last request, if the context was shortened for it because of the
    /// limit of one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    shortened_tokens: Option<u64>,
}

impl Window {
    /// Returns the window at the start of a run whose first message has the index `first_message`:
    /// the latest summary, if there is one, and the messages that it does not cover.
    pub(super) fn at_start(messages: &[Arc<Message>], first_message: usize) -> Self {
        let earlier = (0..).zip(messages.iter().take(first_message));
        let summary = earlier.filter_map(|(index, it)| Some((index, unsummarized_count(it)?))).last();
        let from = summary.map_or(0, |(index, kept)| usize::saturating_sub(index, kept));
        Self { from, summary: summary.map(|(index, _)| index), hidden: 0 }
    }

    /// Replaces the messages before the index `until` by the summary at the index `summary`. It
    /// also covers the enqueued messages of hidden steps.
    pub(super) fn summarize(&mut self, summary: usize, until: usize) {
        *self = Self { from: until, summary: Some(summary), hidden: 0 };
    }

    /// Hides the steps of the run before the index `until`.
    pub(super) fn hide_steps(&mut self, until: usize) {
        self.hidden = until;
    }
}

impl Run {
    /// Returns the messages of the next or current model request: a view of the transcript.
    ///
    /// The view contains the latest summary, the earlier turns, the input and the steps of the run
    /// that the [configuration](super::ContextConfig) selects, with the replacements of hooks and
    /// the repairs of an [earlier conversation](RunConfig::repair_history).
    pub fn view(&self) -> TranscriptView {
        let (earlier, steps) = self.latest_segment_starts();
        self.view_of(earlier, steps..self.transcript.len())
    }

    /// Returns the view of the messages before the index `until`, for a summary.
    pub(super) fn view_until(&self, until: usize) -> TranscriptView {
        self.view_of(self.first_turn(), self.first_sent_step()..until)
    }

    /// Returns a view of the summary, the turns from the index `earlier` on, the input of the run,
    /// the enqueued messages of hidden steps, and the messages in the range `steps`.
    fn view_of(&self, earlier: usize, steps: Range<usize>) -> TranscriptView {
        let (start, first_step) = (self.data.first_message, self.data.first_step);
        let messages = self.transcript.messages();
        let is_enqueued = |index: &usize| messages.get(*index).is_some_and(|it| is_enqueued(it));
        let enqueued =
            (first_step..self.data.window.hidden).filter(is_enqueued).map(|index| index..index + 1);
        let ranges = [earlier..start, start..first_step].into_iter().chain(enqueued).chain([steps]);
        let ranges = ranges.flat_map(|range| segments::without_notes(messages, range));
        let summary = self.data.window.summary.map(|summary| summary..summary + 1);
        let ranges = summary.into_iter().chain(ranges);
        if let Some(repairs) = &self.repairs {
            return repairs.view(messages, ranges, &self.replaced);
        }
        let view = self.transcript.view_ranges(ranges);
        if self.replaced.is_empty() { view } else { view.with_replacements(Arc::clone(&self.replaced)) }
    }

    /// Stores the size of a request and its reply. A new summary and new omissions are then
    /// allowed.
    pub(super) fn record_reply_tokens(&mut self, usage: &Usage) {
        let pressure = &mut self.data.pressure;
        let shortened = mem::take(&mut pressure.is_shortened).then_some(usage.input_tokens);
        *pressure =
            Pressure { tokens: usage.total_tokens(), shortened_tokens: shortened, ..Pressure::default() };
    }

    /// Returns `true` if the last request and its reply exceeded
    /// [`ContextConfig::tokens`](super::ContextConfig::tokens) or the limit of one request. Returns
    /// `true` only once per reply.
    pub(super) fn exceeds_context(&mut self) -> bool {
        let RunConfig { context, limits, .. } = &self.data.config;
        let tokens = self.data.pressure.tokens;
        let is_above = |limit: Option<u64>| limit.is_some_and(|limit| tokens > limit);
        let is_limited = is_above(limits.request_input_tokens);
        let exceeds = is_limited || is_above(context.tokens);
        if exceeds {
            let pressure = &mut self.data.pressure;
            (pressure.tokens, pressure.is_shortened) = (0, is_limited);
        }
        exceeds
    }

    /// Returns the limit on the tokens of one request if the next request exceeds it and the
    /// context cannot be shortened, or if the last request exceeded it with a shortened context.
    pub(super) fn exceeded_request_limit(&self) -> Option<Limit> {
        let limit = self.data.config.limits.request_input_tokens?;
        let Pressure { tokens, shortened_tokens, .. } = self.data.pressure;
        let exceeded = |tokens| (tokens > limit).then_some(Limit::RequestInputTokens { limit, tokens });
        let can_shorten = || self.summary_end().is_some() || self.window_without_oldest().is_some();
        shortened_tokens.and_then(exceeded).or_else(|| exceeded(tokens).filter(|_| !can_shorten()))
    }

    /// Shortens the context: starts a summary of all messages before the last step, or omits the
    /// oldest turn or step if no summary is possible. Returns the next state, or `None` if neither
    /// is possible.
    pub(super) fn shorten_context(&mut self) -> Option<State> {
        if let Some(until) = self.summary_end() {
            self.data.pressure.is_summarized = true;
            return Some(State::Compacting { until, is_requested: false });
        }
        self.omit_oldest().then_some(State::Ready)
    }

    /// Returns the index up to which a summary would cover the messages. `None` if summaries are
    /// disabled, if one was already requested since the last reply, or if a limit is reached.
    fn summary_end(&self) -> Option<usize> {
        if !self.data.config.context.compaction
            || self.data.pressure.is_summarized
            || self.reached_limit().is_some()
        {
            return None;
        }
        let steps = self.steps_from(self.first_sent_step());
        if steps.len() < 2 && self.first_turn() >= self.data.first_message {
            return None;
        }
        Some(steps.last().map_or(self.transcript.len(), |last| last.start))
    }

    /// Omits the oldest turn or step from later requests. Returns `false` if none can be omitted,
    /// or if [`ContextConfig::omissions`](super::ContextConfig::omissions) turns and steps were
    /// already omitted since the last reply.
    pub(super) fn omit_oldest(&mut self) -> bool {
        let Some(window) = self.window_without_oldest() else { return false };
        self.data.window = window;
        self.data.pressure.omissions += 1;
        tracing::warn!("the context is too long for the model: the oldest turn or step is omitted");
        true
    }

    fn window_without_oldest(&self) -> Option<Window> {
        if self.data.pressure.omissions >= self.data.config.context.omissions {
            return None;
        }
        let (turns, steps) = (self.turns_from(self.first_turn()), self.steps_from(self.first_sent_step()));
        let from = match (turns.first(), steps.as_slice()) {
            (Some(oldest), _) => oldest.end,
            (None, [oldest, _, ..]) => oldest.end,
            _ => return None,
        };
        Some(Window { from, ..self.data.window })
    }

    /// Returns the indices of the first turn and the first step to send. At most
    /// [`ContextConfig::latest`](super::ContextConfig::latest) turns and steps are sent.
    fn latest_segment_starts(&self) -> (usize, usize) {
        let (earlier, steps) = (self.first_turn(), self.first_sent_step());
        let Some(latest) = self.data.config.context.latest else { return (earlier, steps) };
        let (turns, own) = (self.turns_from(earlier), self.steps_from(steps));
        let too_many = (turns.len() + own.len()).saturating_sub(latest.max(1));
        let from =
            |segments: &[Range<usize>], number: usize| segments.get(number).map(|segment| segment.start);
        (
            from(&turns, too_many).unwrap_or_else(|| self.turns_end()),
            from(&own, too_many.saturating_sub(turns.len())).unwrap_or(steps),
        )
    }

    /// Returns the index of the first message of earlier runs that is sent.
    fn first_turn(&self) -> usize {
        let Window { from, summary, .. } = self.data.window;
        match summary {
            None if from > self.data.first_message => self.turns_end(),
            _ => from.min(self.data.first_message),
        }
    }

    /// Returns the index of the first message after the input that is sent.
    fn first_sent_step(&self) -> usize {
        let Window { from, hidden, .. } = self.data.window;
        self.data.first_step.max(from).max(hidden)
    }

    /// Returns the ranges of the steps of this run from the index `from` on.
    fn steps_from(&self, from: usize) -> Vec<Range<usize>> {
        segments::steps(self.transcript.messages(), from..self.transcript.len())
    }

    /// Returns the ranges of the earlier turns that can be omitted, from the index `from` on.
    fn turns_from(&self, from: usize) -> Vec<Range<usize>> {
        segments::turns(self.transcript.messages(), from..self.turns_end())
    }

    /// Returns the index at which the earlier turns that can be omitted end. A run without messages
    /// of its own continues the last turn, which therefore is always sent.
    fn turns_end(&self) -> usize {
        let RunData { first_message, first_step, .. } = self.data;
        if first_message < first_step {
            return first_message;
        }
        let turns = segments::turns(self.transcript.messages(), 0..first_message);
        turns.last().map_or(first_message, |last| last.start)
    }
}
