//! Rotary position embedding and the causal mask.

use candle_core::{Device, Result, Tensor};

use super::config::Config;
use crate::LoadError;
use crate::gguf::Gguf;

/// The rotary position embedding. It rotates each pair of numbers in a head by an angle
/// proportional to the position of the token.
pub(super) struct Rotary {
    /// The rotation frequency of each dimension pair, in radians per token position. The shape is
    /// `[1, pairs]`.
    frequencies: Tensor,
    rotates_neighbours: bool,
}

impl Rotary {
    pub(super) fn new(gguf: &mut Gguf, config: &Config) -> std::result::Result<Self, LoadError> {
        // The files of Llama models with a long context contain a divisor for each frequency.
        let factors = match gguf.has_tensor("rope_freqs.weight") {
            true => Some(gguf.read_dense("rope_freqs.weight")?),
            false => None,
        };
        Self::from_config(config, factors.as_ref())
            .map_err(|error| gguf.invalid_entry("rope_freqs.weight", &error))
    }

    fn from_config(config: &Config, factors: Option<&Tensor>) -> Result<Self> {
        let size = config.head_size as f64;
        let frequencies: Vec<f32> = (0..config.head_size)
            .step_by(2)
            .map(|index| config.rope_base.powf(-(index as f64) / size) as f32)
            .collect();
        let mut frequencies = Tensor::new(frequencies, &Device::Cpu)?.unsqueeze(0)?;
        if let Some(factors) = factors {
            frequencies = frequencies.broadcast_div(factors)?;
        }
        Ok(Self { frequencies, rotates_neighbours: config.architecture.is_interleaved() })
    }

    /// Returns the rotation for `tokens` consecutive tokens, the first of which is at position
    /// `start`.
    pub(super) fn rotation(&self, start: usize, tokens: usize) -> Result<Rotation> {
        let positions = Tensor::arange(start as f32, (start + tokens) as f32, &Device::Cpu)?.unsqueeze(1)?;
        let angles = positions.broadcast_mul(&self.frequencies)?;
        Ok(Rotation { cos: angles.cos()?, sin: angles.sin()?, rotates_neighbours: self.rotates_neighbours })
    }
}

/// The rotation for consecutive tokens, stored as the cosine and the sine of each angle.
pub(super) struct Rotation {
    cos: Tensor,
    sin: Tensor,
    rotates_neighbours: bool,
}

impl Rotation {
    /// Applies this rotation to `input`, a tensor of the shape `[heads, tokens, size]`.
    pub(super) fn apply(&self, input: &Tensor) -> Result<Tensor> {
        let input = input.unsqueeze(0)?;
        let rotated = match self.rotates_neighbours {
            true => candle_nn::rotary_emb::rope_i(&input, &self.cos, &self.sin)?,
            false => candle_nn::rotary_emb::rope(&input, &self.cos, &self.sin)?,
        };
        rotated.squeeze(0)
    }
}

/// Creates the attention mask for `tokens` new tokens, the first of which is at position `start`.
/// Each token attends only to itself and to earlier tokens.
///
/// Returns `None` for a single new token, which attends to all tokens.
pub(super) fn causal_mask(tokens: usize, start: usize) -> Result<Option<Tensor>> {
    if tokens < 2 {
        return Ok(None);
    }
    let width = start + tokens;
    let visible = |row: usize, column: usize| if column <= start + row { 0.0 } else { f32::NEG_INFINITY };
    let mask: Vec<f32> =
        (0..tokens).flat_map(|row| (0..width).map(move |column| visible(row, column))).collect();
    Tensor::from_vec(mask, (tokens, width), &Device::Cpu).map(Some)
}
