//! Selection of messages for model requests. The transcript itself always contains all messages.

use std::{mem, ops::Range, sync::Arc};

use haft_core::{Message, agent::Limit, message::TranscriptView, usage::Usage};
use serde::{Deserialize, Serialize};

use super::{
    Run, RunConfig,
    head::{RunData, is_false, is_zero},
    message_metadata::{self, unsummarized_count},
    segments,
};

/// The configuration of the context: the part of the conversation that a model request contains.
///
/// Messages are omitted in whole segments: turns of earlier runs, and steps of this run. A step is
/// a reply with calls and all messages up to the next reply with calls. The input of this run and
/// its last step are always sent.
///
/// If the conversation was summarized, the latest summary is sent in place of the summarized
/// messages. Later runs of the conversation continue from this summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextConfig {
    /// The maximum number of turns and steps in a model request, in total. Older turns and steps
    /// are omitted. 0 has the same effect as 1. Default: no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<usize>,
    /// The maximum number of tokens in a model request and its reply together. After a request that
    /// exceeds this maximum, messages are summarized or omitted before the next request. Default:
    /// no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The maximum number of times that the oldest turn or step is omitted because the context is
    /// too long. The count restarts with each reply. With 0, nothing is omitted for this reason.
    /// Default: 3.
    pub omissions: u32,
    /// `true` if a context that is too long is first [summarized](super::Effect::Compact), except
    /// for its last step. If the context is still too long, or cannot be summarized, the oldest
    /// turn or step is omitted. A summary is a model request, and counts towards the
    /// [limits](super::RunConfig::limits). Default: `false`.
    pub compaction: bool,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self { latest: None, tokens: None, omissions: 3, compaction: false }
    }
}

/// The part of the transcript that is sent in model requests, as message indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ContextRange {
    /// The transcript index of the first message of an earlier run that is sent in model requests.
    /// Messages before this index are omitted or summarized.
    pub(super) earlier: usize,
    /// The transcript index of the first step of this run that is sent in model requests. Earlier
    /// steps of this run are hidden, omitted or summarized.
    pub(super) steps: usize,
    /// The transcript index up to which [`Run::hide_steps`] hides the steps of this run. Enqueued
    /// messages before this index are still sent. 0 if no step is hidden.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) hidden: usize,
    /// The transcript index of the latest summary, which replaces the messages before this range.
    /// `None` if there is no summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<usize>,
    /// The number of turns and steps that were omitted since the last reply.
    omissions: u32,
    /// `true` if a summary was requested since the last reply, even if the summary failed. Prevents
    /// a second request for a summary before the next reply. [`Run::reconfigure`] also resets this
    /// field.
    pub(super) is_summarized: bool,
    /// `true` from [`Effect::Compact`](super::Effect::Compact) until its outcome is reported.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) is_summary_in_flight: bool,
    /// The number of summaries that this run has requested. They count towards the request limit.
    pub(super) summaries: u32,
    /// The number of tokens in the last request and its reply. Reset to 0 when it exceeds
    /// [`ContextConfig::tokens`] or the limit of one request, so that one reply shortens the
    /// context only once.
    tokens: u64,
    /// `true` if the context was shortened since the last reply because of
    /// [`RunLimits::request_input_tokens`](haft_core::agent::RunLimits::request_input_tokens).
    #[serde(skip_serializing_if = "is_false")]
    is_shortened: bool,
    /// The number of input tokens of the last request, if the context was shortened for this
    /// request because of the limit of one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    shortened_tokens: Option<u64>,
}

impl ContextRange {
    /// Returns the range at the start of a run whose first message has the index `first_message`.
    /// If there is a summary, the range contains the latest summary and the messages that the
    /// summary does not cover. Without a summary, the range contains all earlier messages.
    pub(super) fn at_start(messages: &[Arc<Message>], first_message: usize) -> Self {
        let earlier = messages.iter().take(first_message);
        let summary =
            (0..).zip(earlier).filter_map(|(index, it)| Some((index, unsummarized_count(it)?))).last();
        let earlier = summary.map_or(0, |(index, kept)| usize::saturating_sub(index, kept));
        Self { earlier, steps: messages.len(), summary: summary.map(|(index, _)| index), ..Self::default() }
    }

    /// Returns the range after [`Run::reconfigure`]: the range at the start of the run, followed by
    /// the steps from message index `steps` on. Summaries made during this run are no longer sent,
    /// but still count towards `summaries`.
    pub(super) fn restarted(self, messages: &[Arc<Message>], first_message: usize, steps: usize) -> Self {
        Self { steps, summaries: self.summaries, ..Self::at_start(messages, first_message) }
    }
}

impl Run {
    /// Returns the view of the transcript for the next request.
    pub(super) fn view(&self) -> TranscriptView {
        let (earlier, steps) = self.latest_segment_starts();
        self.view_of(earlier, steps..self.transcript.len())
    }

    /// Returns a view of the summary (if any), the turns from message index `earlier` on, the input
    /// of the run, the enqueued messages of hidden steps, and the messages in the range `steps`.
    pub(super) fn view_of(&self, earlier: usize, steps: Range<usize>) -> TranscriptView {
        let (start, first_step) = (self.head.first_message, self.head.first_step);
        let messages = self.transcript.messages();
        let is_enqueued =
            |index: &usize| messages.get(*index).is_some_and(|it| message_metadata::is_enqueued(it));
        let enqueued =
            (first_step..self.head.context_range.hidden).filter(is_enqueued).map(|index| index..index + 1);
        let ranges = [earlier..start, start..first_step].into_iter().chain(enqueued).chain([steps]);
        let ranges = ranges.flat_map(|range| segments::without_notes(messages, range));
        let summary = self.head.context_range.summary.map(|summary| summary..summary + 1);
        let ranges = summary.into_iter().chain(ranges);
        if let Some(repairs) = &self.repairs {
            return repairs.view(messages, ranges, &self.replaced);
        }
        let view = self.transcript.view_ranges(ranges);
        if self.replaced.is_empty() { view } else { view.with_replacements(Arc::clone(&self.replaced)) }
    }

    /// Stores the token counts in `usage`, the usage of a request and its reply. Also resets the
    /// number of omitted turns and steps, and allows a new summary.
    pub(super) fn record_reply_tokens(&mut self, usage: &Usage) {
        let range = &mut self.head.context_range;
        (range.tokens, range.omissions, range.is_summarized) = (usage.total_tokens(), 0, false);
        range.shortened_tokens = mem::take(&mut range.is_shortened).then_some(usage.input_tokens);
    }

    /// Returns `true` if the last request and its reply exceeded [`ContextConfig::tokens`] or the
    /// limit of one request. Returns `true` only once per reply.
    pub(super) fn take_tokens_exceeded(&mut self) -> bool {
        let RunConfig { context, limits, .. } = &self.head.config;
        let tokens = self.head.context_range.tokens;
        let is_above = |limit: Option<u64>| limit.is_some_and(|limit| tokens > limit);
        let is_limited = is_above(limits.request_input_tokens);
        let exceeds = is_limited || is_above(context.tokens);
        if exceeds {
            let range = &mut self.head.context_range;
            (range.tokens, range.is_shortened) = (0, is_limited);
        }
        exceeds
    }

    /// Returns the limit on the tokens of one request if the next request exceeds it and the
    /// context cannot be shortened, or if the last request exceeded it with a shortened context.
    pub(super) fn exceeded_request_limit(&self) -> Option<Limit> {
        let limit = self.head.config.limits.request_input_tokens?;
        let ContextRange { tokens, shortened_tokens, .. } = self.head.context_range;
        let exceeded = |tokens| (tokens > limit).then_some(Limit::RequestInputTokens { limit, tokens });
        shortened_tokens
            .and_then(exceeded)
            .or_else(|| exceeded(tokens).filter(|_| !self.can_shorten_context()))
    }

    /// Returns `true` if [`shorten_context`](Self::shorten_context) would start a compaction or
    /// omit a turn or step.
    fn can_shorten_context(&self) -> bool {
        let can_compact = self.head.config.context.compaction && self.compaction_end().is_some();
        can_compact || self.range_without_oldest().is_some()
    }

    /// Shortens the context: starts a compaction, or omits the oldest turn or step if compaction is
    /// disabled or not possible. Returns `false` if neither is possible.
    pub(super) fn shorten_context(&mut self) -> bool {
        (self.head.config.context.compaction && self.begin_compaction()) || self.omit_oldest()
    }

    /// Omits the oldest turn or step from later requests. Returns `false` if none can be omitted,
    /// or if [`ContextConfig::omissions`] turns and steps were already omitted since the last
    /// reply.
    pub(super) fn omit_oldest(&mut self) -> bool {
        let Some(range) = self.range_without_oldest() else { return false };
        self.head.context_range = range;
        tracing::warn!("the context is too long for the model: the oldest turn or step is omitted");
        true
    }

    /// Returns the context without its oldest turn or step. `None` if none can be omitted.
    fn range_without_oldest(&self) -> Option<ContextRange> {
        let mut range = self.head.context_range;
        if range.omissions >= self.head.config.context.omissions {
            return None;
        }
        let (turns, steps) = (self.turns_from(range.earlier), self.steps_from(range.steps));
        match (turns.first(), steps.as_slice()) {
            (Some(oldest), _) => range.earlier = oldest.end,
            (None, [oldest, _, ..]) => range.steps = oldest.end,
            _ => return None,
        }
        range.omissions += 1;
        Some(range)
    }

    /// Returns the message indices of the first turn and the first step to send. At most
    /// [`ContextConfig::latest`] turns and steps are sent.
    fn latest_segment_starts(&self) -> (usize, usize) {
        let ContextRange { earlier, steps, .. } = self.head.context_range;
        let Some(latest) = self.head.config.context.latest else { return (earlier, steps) };
        let (turns, own) = (self.turns_from(earlier), self.steps_from(steps));
        let too_many = (turns.len() + own.len()).saturating_sub(latest.max(1));
        let from =
            |segments: &[Range<usize>], number: usize| segments.get(number).map(|segment| segment.start);
        (
            from(&turns, too_many).unwrap_or_else(|| self.turns_end()),
            from(&own, too_many.saturating_sub(turns.len())).unwrap_or(steps),
        )
    }

    /// Returns the message ranges of the steps of this run, starting at message index `from`.
    pub(super) fn steps_from(&self, from: usize) -> Vec<Range<usize>> {
        segments::steps(self.transcript.messages(), from..self.transcript.len())
    }

    /// Returns the message ranges of the earlier turns that can be omitted, starting at message
    /// index `from`.
    fn turns_from(&self, from: usize) -> Vec<Range<usize>> {
        segments::turns(self.transcript.messages(), from..self.turns_end())
    }

    /// Returns the message index at which the earlier turns that can be omitted end. A run without
    /// messages of its own continues the last turn, which therefore is always sent.
    fn turns_end(&self) -> usize {
        let RunData { first_message, first_step, .. } = self.head;
        if first_message < first_step {
            return first_message;
        }
        let turns = segments::turns(self.transcript.messages(), 0..first_message);
        turns.last().map_or(first_message, |last| last.start)
    }
}
