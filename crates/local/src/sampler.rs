//! Sampling of the next token from the logits of the model.

#[cfg(test)]
mod tests;

use llguidance::toktrie::SimpleVob;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A token sampler with temperature and nucleus sampling.
pub(crate) struct Sampler {
    temperature: f32,
    top_p: f32,
    random: StdRng,
}

impl Sampler {
    /// Creates a sampler. Sampling is greedy at a temperature of 0. If `seed` is `None`, the
    /// operating system provides a seed.
    pub(crate) fn new(temperature: f64, top_p: f64, seed: Option<u64>) -> Self {
        let random = seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64);
        Self { temperature: temperature as f32, top_p: top_p as f32, random }
    }

    /// Samples a token from `allowed`, or from the whole vocabulary if `allowed` is `None`. Returns
    /// `None` if there is no token to choose from.
    pub(crate) fn choose(&mut self, logits: &[f32], allowed: Option<&SimpleVob>) -> Option<u32> {
        let allowed = |token: u32| allowed.is_none_or(|set| set.is_allowed(token));
        let candidates = (0u32..).zip(logits.iter().copied()).filter(|(token, _)| allowed(*token));
        // Damaged weights produce NaN, which `total_cmp` would order above all numbers.
        let candidates = candidates.filter(|(_, logit)| !logit.is_nan());
        if self.temperature <= 0.0 {
            return candidates.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(token, _)| token);
        }
        let mut candidates: Vec<_> = candidates.collect();
        candidates.sort_unstable_by(|(_, a), (_, b)| b.total_cmp(a));
        let (_, best) = *candidates.first()?;
        for (_, logit) in &mut candidates {
            *logit = ((*logit - best) / self.temperature).exp();
        }
        let total: f32 = candidates.iter().map(|(_, weight)| weight).sum();
        let limit = total * self.top_p.clamp(f32::EPSILON, 1.0);
        // The nucleus contains the token that crosses the limit, with its whole weight.
        let mut nucleus = 0.0;
        candidates.retain(|(_, weight)| {
            let is_inside = nucleus < limit;
            nucleus += if is_inside { *weight } else { 0.0 };
            is_inside
        });
        let mut left = self.random.random::<f32>() * nucleus;
        let chosen = candidates.iter().find(|(_, weight)| {
            left -= weight;
            left <= 0.0
        });
        chosen.or(candidates.first()).map(|(token, _)| *token)
    }
}
