//! Choice of the most probable of several texts.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest as _, Sha256};

use super::{Engine, EngineError, NextAction, TokenListener};

/// The maximum number of prompts in [`KnownProbabilities`].
const MAX_KNOWN_PROMPTS: usize = 16;

/// A text that the model may write next.
pub(crate) struct Candidate {
    pub(crate) tokens: Vec<u32>,
    /// A bias that is added to the log-probability of the text.
    pub(crate) bias: f32,
}

/// The logits of the token that follows each beginning of a candidate.
pub(crate) type KnownLogits = HashMap<Vec<u32>, Vec<f32>>;

/// The best of several candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) index: usize,
    /// The log-probability of the candidate plus its bias.
    pub(crate) score: f32,
}

/// The beginning of one or several candidates.
struct Beginning {
    tokens: Vec<u32>,
    /// The log-probability of `tokens`.
    log_probability: f32,
    /// `log_probability` plus the largest bias of the candidates that begin with `tokens`.
    score: f32,
}

/// The results of the last calls of [`Engine::log_probabilities`].
#[derive(Default)]
pub(super) struct KnownProbabilities {
    /// The hash of prompt and candidates, and the log-probabilities of the candidates. The oldest
    /// result is the first.
    results: VecDeque<([u8; 32], Vec<f32>)>,
}

impl Engine {
    /// Returns the log-probability of each of `candidates` after `prompt`. The results for the last
    /// [`MAX_KNOWN_PROMPTS`] prompts are kept.
    pub(crate) fn log_probabilities(
        &mut self,
        prompt: &[u32],
        candidates: &[Vec<u32>],
        listener: TokenListener<'_>,
    ) -> Result<Vec<f32>, EngineError> {
        let hash = hash(prompt, candidates);
        if let Some((_, known)) = self.known_probabilities.results.iter().find(|(known, _)| *known == hash) {
            return Ok(known.clone());
        }
        let first = self.logits_after(prompt, listener)?;
        let mut probabilities = Vec::new();
        for candidate in candidates {
            probabilities.push(self.continue_with(prompt, &first, candidate, listener)?);
        }
        let results = &mut self.known_probabilities.results;
        if results.len() == MAX_KNOWN_PROMPTS {
            results.pop_front();
        }
        results.push_back((hash, probabilities.clone()));
        Ok(probabilities)
    }

    /// Returns the log-probability of `text` after `prompt`. `first` are the logits after `prompt`.
    fn continue_with(
        &mut self,
        prompt: &[u32],
        first: &[f32],
        text: &[u32],
        listener: TokenListener<'_>,
    ) -> Result<f32, EngineError> {
        let Some((last, head)) = text.split_last() else { return Ok(0.0) };
        if listener(&[]) == NextAction::Cancel {
            return Err(EngineError::Dropped);
        }
        let context = self.context_length();
        if prompt.len() + text.len() > context {
            return Err(EngineError::PromptTooLong { needed: prompt.len() + text.len(), context });
        }
        self.truncate_cache(prompt.len());
        let mut logits = vec![first.to_vec()];
        if !head.is_empty() {
            logits.extend(self.network.forward_all(head)?);
            self.cached_tokens.extend(head);
        }
        let tokens = head.iter().chain([last]);
        Ok(logits.iter().zip(tokens).map(|(logits, token)| log_probability(logits, *token)).sum())
    }

    /// Returns the [`Choice`] of the candidate with the highest log-probability after `prompt`,
    /// plus its bias. No candidate may be the beginning of another candidate. Returns `None` if
    /// `candidates` is empty.
    ///
    /// The probability of the whole text decides. A greedy choice of one token after another would
    /// prefer a candidate that only begins like a probable text: `get_current_datetime`, if the
    /// model would write `get_capital`. The search follows the most probable beginning, so it
    /// usually evaluates the tokens of one candidate only.
    ///
    /// `known` are the logits of earlier searches with the same prompt. Those of this search are
    /// added.
    pub(crate) fn choose_candidate(
        &mut self,
        prompt: &[u32],
        candidates: &[Candidate],
        known: &mut KnownLogits,
        listener: TokenListener<'_>,
    ) -> Result<Option<Choice>, EngineError> {
        best_candidate(candidates, known, |beginning| {
            self.logits_after(&[prompt, beginning].concat(), listener)
        })
    }
}

fn hash(prompt: &[u32], candidates: &[Vec<u32>]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for tokens in std::iter::once(prompt).chain(candidates.iter().map(Vec::as_slice)) {
        hasher.update((tokens.len() as u64).to_le_bytes());
        tokens.iter().for_each(|token| hasher.update(token.to_le_bytes()));
    }
    hasher.finalize().into()
}

/// Returns the best of `candidates`; see [`Engine::choose_candidate`]. `logits_after`
/// returns the logits of the token that follows a beginning.
fn best_candidate<E>(
    candidates: &[Candidate],
    known: &mut KnownLogits,
    mut logits_after: impl FnMut(&[u32]) -> Result<Vec<f32>, E>,
) -> Result<Option<Choice>, E> {
    let mut open = vec![Beginning { tokens: Vec::new(), log_probability: 0.0, score: 0.0 }];
    while let Some(best) = take_best(&mut open) {
        if let Some(index) = candidates.iter().position(|candidate| candidate.tokens == best.tokens) {
            return Ok(Some(Choice { index, score: best.score }));
        }
        if !known.contains_key(&best.tokens) {
            known.insert(best.tokens.clone(), logits_after(&best.tokens)?);
        }
        let logits = known.get(&best.tokens).map(Vec::as_slice).unwrap_or_default();
        open.extend(continuations(&best, candidates, logits));
    }
    Ok(None)
}

fn take_best(open: &mut Vec<Beginning>) -> Option<Beginning> {
    let by_score =
        |one: &(usize, &Beginning), other: &(usize, &Beginning)| one.1.score.total_cmp(&other.1.score);
    let (index, _) = open.iter().enumerate().max_by(by_score)?;
    Some(open.swap_remove(index))
}

/// Returns the beginnings of `candidates` that have one token more than `beginning`. `logits` are
/// the logits after `beginning`.
fn continuations(beginning: &Beginning, candidates: &[Candidate], logits: &[f32]) -> Vec<Beginning> {
    let normalizer = log_sum_exp(logits);
    let mut next: Vec<Beginning> = Vec::new();
    for candidate in candidates {
        let Some([token, ..]) = candidate.tokens.strip_prefix(beginning.tokens.as_slice()) else { continue };
        let logit = logits.get(*token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let log_probability = beginning.log_probability + logit - normalizer;
        let score = log_probability + candidate.bias;
        match next.iter_mut().find(|known| known.tokens.last() == Some(token)) {
            Some(known) => known.score = known.score.max(score),
            None => {
                let tokens = [beginning.tokens.as_slice(), &[*token]].concat();
                next.push(Beginning { tokens, log_probability, score });
            }
        }
    }
    next
}

/// Returns the log-probability of `token`.
fn log_probability(logits: &[f32], token: u32) -> f32 {
    logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY) - log_sum_exp(logits)
}

fn log_sum_exp(logits: &[f32]) -> f32 {
    let max = logits.iter().copied().max_by(f32::total_cmp).unwrap_or_default();
    max + logits.iter().map(|logit| (logit - max).exp()).sum::<f32>().ln()
}

#[cfg(test)]
mod tests;
