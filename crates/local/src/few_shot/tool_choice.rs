//! Choice of the tool for a need.

use std::collections::HashMap;

use haft_core::model::ModelError;
use tracing::debug;

use super::dialogue::{NEED_LABEL, NO_TOOL, TOOL};
use super::next_step::Stage;
use super::question::OpenQuestion;
use super::{ExampleReply, next_step, render_prompt};
use crate::engine::{Candidate, Choice, KnownLogits};
use crate::respond::with_question;

/// The maximum difference between the scores of two tools that the correction for the prior
/// probability can overcome.
const MAX_PRIOR_EFFECT: f32 = 4.0;
/// The bias of a candidate that must not be chosen.
const EXCLUDED_BIAS: f32 = -1e4;
/// The factor of [`ExampleProfile::word_bias`](crate::profile::ExampleProfile::word_bias) in the
/// choice among tools, after the decision that one of them fits.
const CHOICE_WORD_WEIGHT: f32 = 1.5;
/// A bias for the choice that no tool fits, if an earlier result may answer the question.
const KNOWN_RESULT_BIAS: f32 = 10.0;
/// A question without content, and the need for it. A small model prefers some names of tools, such
/// as `get_price`, to others in all cases. The probabilities after this question correct for it.
pub(super) const NEUTRAL_QUESTION: &str = "Can you help me with something?";
pub(super) const NEUTRAL_NEED: &str = "help me with something";

/// The name of a tool, and the score of its choice.
pub(super) type ScoredTool = (String, f32);

impl ExampleReply<'_> {
    /// Returns the first part of `need` if its parts need different tools. A small model quotes too
    /// much: "Lock the door and heat the hall". Returns `None` if `need` has parts for one tool
    /// only.
    pub(super) fn first_part(&mut self, need: &str) -> Result<Option<String>, ModelError> {
        let mut first: Option<(String, String)> = None;
        for part in OpenQuestion::new(need).parts() {
            let Some((tool, _)) = self.choose_tool(&part)? else { continue };
            match &first {
                None => first = Some((part, tool)),
                Some((_, first_tool)) if *first_tool == tool => {}
                Some(_) => return Ok(first.map(|(part, _)| part)),
            }
        }
        Ok(None)
    }

    /// Chooses the tool for `need`. Returns the tool and its score. Returns `None` if no tool fits.
    pub(super) fn choose_tool(&mut self, need: &str) -> Result<Option<ScoredTool>, ModelError> {
        self.choose_other_tool(need, &[], f32::NEG_INFINITY)
    }

    /// Chooses the tool for `need` after the calls of the tools in `discarded` were discarded. Does
    /// the same as [`choose_tool`](Self::choose_tool) for the other tools with a score of at least
    /// `min_score`.
    pub(super) fn choose_other_tool(
        &mut self,
        need: &str,
        discarded: &[String],
        min_score: f32,
    ) -> Result<Option<ScoredTool>, ModelError> {
        let request = self.writer.request;
        let mut tools = next_step::callable_tools(request);
        tools.retain(|tool| !discarded.contains(tool));
        let score = |name: &String| self.profile.word_bias * self.tool_words.score(need, name);
        let candidate = |name: &String, bias: f32| Candidate {
            tokens: self.encode_choice(&next_step::call_beginning(request, name)),
            bias,
        };
        let mut candidates: Vec<_> = tools.iter().map(|name| candidate(name, score(name))).collect();
        if !self.must_call() {
            let tokens = self.encode_choice(&format!(" {NO_TOOL}\n"));
            let known_result_bias = if self.may_be_answered { KNOWN_RESULT_BIAS } else { 0.0 };
            candidates.push(Candidate { tokens, bias: self.profile.no_tool_bias + known_result_bias });
        }
        let start = self.writer.prompt.len();
        self.writer.prefill(&format!("{NEED_LABEL}{need}\n{}", TOOL.trim_end()));
        let mut known = KnownLogits::new();
        let likeliest = self.writer.choose_candidate(&candidates, &mut known)?;
        candidates.truncate(tools.len());
        let chosen = match likeliest.filter(|choice| choice.index < tools.len()) {
            // Earlier calls in the reply change the probabilities, so the priors do not fit them.
            Some(likeliest) if self.stage == Stage::AfterQuestion => {
                self.correct_for_priors(&tools, &mut candidates, likeliest, min_score, &mut known)?
            }
            likeliest => likeliest,
        };
        self.writer.prompt.truncate(start);
        let chosen = chosen.filter(|choice| choice.score >= min_score);
        let chosen = chosen.and_then(|choice| tools.into_iter().nth(choice.index).zip(Some(choice.score)));
        debug!(need, ?chosen, none = ?likeliest, "chose a tool");
        Ok(chosen)
    }

    /// Returns the best of `candidates`, the names of `tools`, after the prior probabilities are
    /// subtracted. `likeliest` is the best of them before. The result is `likeliest`, if no other
    /// candidate has nearly the same score and a score of at least `min_score`.
    fn correct_for_priors(
        &mut self,
        tools: &[String],
        candidates: &mut [Candidate],
        likeliest: Choice,
        min_score: f32,
        known: &mut KnownLogits,
    ) -> Result<Option<Choice>, ModelError> {
        let min_score = min_score.max(likeliest.score - MAX_PRIOR_EFFECT);
        let Some(bias) = candidates.get(likeliest.index).map(|candidate| candidate.bias) else {
            return Ok(Some(likeliest));
        };
        let set_bias = |candidates: &mut [Candidate], bias: f32| {
            if let Some(candidate) = candidates.get_mut(likeliest.index) {
                candidate.bias = bias;
            }
        };
        set_bias(candidates, EXCLUDED_BIAS);
        let second = self.writer.choose_candidate(candidates, known)?;
        set_bias(candidates, bias);
        if second.is_none_or(|second| second.index == likeliest.index || second.score < min_score) {
            return Ok(Some(likeliest));
        }
        let priors = self.priors()?;
        let changes: Vec<_> = tools
            .iter()
            .zip(candidates.iter())
            .map(|(name, candidate)| {
                let prior = priors.get(name).copied().unwrap_or_default();
                (CHOICE_WORD_WEIGHT - 1.0) * candidate.bias - prior
            })
            .collect();
        candidates.iter_mut().zip(&changes).for_each(|(candidate, change)| candidate.bias += change);
        let corrected = self.writer.choose_candidate(candidates, known)?;
        let uncorrected = corrected.map(|choice| {
            let change = changes.get(choice.index).copied().unwrap_or_default();
            Choice { score: choice.score - change, ..choice }
        });
        Ok(Some(uncorrected.filter(|choice| choice.score >= min_score).unwrap_or(likeliest)))
    }

    /// Returns the log-probability of each tool after a question without content, times
    /// [`ExampleProfile::prior_weight`](crate::profile::ExampleProfile::prior_weight). The result
    /// is empty if the names do not fit into the context window.
    fn priors(&mut self) -> Result<HashMap<String, f32>, ModelError> {
        let request = with_question(self.writer.request, NEUTRAL_QUESTION);
        let (_, mut prompt) = render_prompt(self.writer.engine, self.profile, &request)?;
        prompt.extend(self.encode_choice(&format!("{NEED_LABEL}{NEUTRAL_NEED}\n{}", TOOL.trim_end())));
        let tools = next_step::callable_tools(&request);
        let texts = tools.iter().map(|name| next_step::call_beginning(&request, name));
        let candidates: Vec<_> = texts.map(|text| self.encode_choice(&text)).collect();
        let probabilities = self.writer.log_probabilities(&prompt, &candidates)?.unwrap_or_default();
        let weighted = probabilities.into_iter().map(|probability| self.profile.prior_weight * probability);
        Ok(tools.into_iter().zip(weighted).collect())
    }

    /// Returns `true` if `tool` is the best tool for `need`.
    pub(super) fn is_best_tool(&mut self, need: &str, tool: &str) -> Result<bool, ModelError> {
        Ok(self.choose_tool(need)?.is_some_and(|(best, _)| best == tool))
    }

    pub(super) fn encode_choice(&self, text: &str) -> Vec<u32> {
        self.writer.engine.tokenizer().encode_content(text)
    }
}
