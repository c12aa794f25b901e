//! Selection of messages for model requests. The transcript itself always contains all messages.

use std::{ops::Range, sync::Arc};

use haft_core::{Message, message::TranscriptView};
use serde::{Deserialize, Serialize};

use super::{
    Resolver, Run,
    head::{is_false, is_zero},
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
    /// [`ContextConfig::tokens`], so that one reply shortens the context only once.
    tokens: u64,
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
    pub(super) fn view(&self, resolver: Option<&dyn Resolver>) -> TranscriptView {
        let (earlier, steps) = self.latest_segment_starts();
        self.view_of(earlier, steps..self.transcript.len(), resolver)
    }

    /// Returns a view of the summary (if any), the turns from message index `earlier` on, the input
    /// of the run, the enqueued messages of hidden steps, and the messages in the range `steps`.
    pub(super) fn view_of(
        &self,
        earlier: usize,
        steps: Range<usize>,
        resolver: Option<&dyn Resolver>,
    ) -> TranscriptView {
        let (start, first_step) = (self.head.first_message, self.head.first_step);
        let messages = self.transcript.messages();
        let is_enqueued =
            |index: &usize| messages.get(*index).is_some_and(|it| message_metadata::is_enqueued(it));
        let enqueued =
            (first_step..self.head.context_range.hidden).filter(is_enqueued).map(|index| index..index + 1);
        let ranges = [earlier..start, start..first_step].into_iter().chain(enqueued).chain([steps]);
        let ranges = ranges
            .flat_map(|range| segments::without_summaries_and_results(messages, range, resolver.is_some()));
        let summary = self.head.context_range.summary.map(|summary| summary..summary + 1);
        let view = self.transcript.view_ranges(summary.into_iter().chain(ranges));
        match resolver {
            Some(resolver) => view.with_replacements(resolver.messages(&self.transcript)),
            None => view,
        }
    }

    /// Stores the token count of a request and its reply. Also resets the number of omitted turns
    /// and steps, and allows a new summary.
    pub(super) fn record_reply_tokens(&mut self, tokens: u64) {
        let range = &mut self.head.context_range;
        (range.tokens, range.omissions, range.is_summarized) = (tokens, 0, false);
    }

    /// Returns `true` if the last request and its reply exceeded [`ContextConfig::tokens`]. Returns
    /// `true` only once per reply.
    pub(super) fn take_tokens_exceeded(&mut self) -> bool {
        let limit = self.head.config.context.tokens;
        let exceeds = limit.is_some_and(|limit| self.head.context_range.tokens > limit);
        if exceeds {
            self.head.context_range.tokens = 0;
        }
        exceeds
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
        if self.head.context_range.omissions >= self.head.config.context.omissions {
            return false;
        }
        let turns = self.turns_from(self.head.context_range.earlier);
        let steps = self.steps_from(self.head.context_range.steps);
        let range = &mut self.head.context_range;
        match (turns.first(), steps.as_slice()) {
            (Some(oldest), _) => range.earlier = oldest.end,
            (None, [oldest, _, ..]) => range.steps = oldest.end,
            _ => return false,
        }
        range.omissions += 1;
        tracing::warn!("the context is too long for the model: the oldest turn or step is omitted");
        true
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
            from(&turns, too_many).unwrap_or(self.head.first_message),
            from(&own, too_many.saturating_sub(turns.len())).unwrap_or(steps),
        )
    }

    /// Returns the message ranges of the steps of this run, starting at message index `from`.
    pub(super) fn steps_from(&self, from: usize) -> Vec<Range<usize>> {
        segments::steps(self.transcript.messages(), from..self.transcript.len())
    }

    /// Returns the message ranges of the turns before this run, starting at message index `from`.
    fn turns_from(&self, from: usize) -> Vec<Range<usize>> {
        segments::turns(self.transcript.messages(), from..self.head.first_message)
    }
}
