//! Choice of the most probable of several texts.

use super::{Engine, EngineError, TokenListener};

/// A text that the model may write next.
pub(crate) struct Candidate {
    pub(crate) tokens: Vec<u32>,
    /// A bias that is added to the log-probability of the text.
    pub(crate) bias: f32,
}

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

impl Engine {
    /// Returns the [`Choice`] of the candidate with the highest log-probability after `prompt`,
    /// plus its bias. No candidate may be the beginning of another candidate. Returns `None` if
    /// `candidates` is empty.
    ///
    /// The probability of the whole text decides. A greedy choice of one token after another would
    /// prefer a candidate that only begins like a probable text: `get_current_datetime`, if the
    /// model would write `get_capital`. The search follows the most probable beginning, so it
    /// usually evaluates the tokens of one candidate only.
    pub(crate) fn choose_candidate(
        &mut self,
        prompt: &[u32],
        candidates: &[Candidate],
        listener: TokenListener<'_>,
    ) -> Result<Option<Choice>, EngineError> {
        best_candidate(candidates, |beginning| self.logits_after(&[prompt, beginning].concat(), listener))
    }
}

/// Returns the best of `candidates`; see [`Engine::choose_candidate`]. `logits_after`
/// returns the logits of the token that follows a beginning.
fn best_candidate<E>(
    candidates: &[Candidate],
    mut logits_after: impl FnMut(&[u32]) -> Result<Vec<f32>, E>,
) -> Result<Option<Choice>, E> {
    let mut open = vec![Beginning { tokens: Vec::new(), log_probability: 0.0, score: 0.0 }];
    while let Some(best) = take_best(&mut open) {
        if let Some(index) = candidates.iter().position(|candidate| candidate.tokens == best.tokens) {
            return Ok(Some(Choice { index, score: best.score }));
        }
        let logits = logits_after(&best.tokens)?;
        open.extend(continuations(&best, candidates, &logits));
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

fn log_sum_exp(logits: &[f32]) -> f32 {
    let max = logits.iter().copied().max_by(f32::total_cmp).unwrap_or_default();
    max + logits.iter().map(|logit| (logit - max).exp()).sum::<f32>().ln()
}

#[cfg(test)]
mod tests;
