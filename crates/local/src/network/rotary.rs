//! Rotary position embedding.

use std::f64::consts::PI;

use candle_core::{D, Device, Result, Tensor};

use super::rope_config::{QueryTemperature, RopeConfig, RopeScaling};
use crate::LoadError;
use crate::gguf::Gguf;

/// The rotary position embedding. It rotates each pair of numbers in a head by an angle
/// proportional to the position of the token.
pub(super) struct Rotary {
    /// The rotation frequency of each dimension pair, in radians per token position. The shape is
    /// `[1, pairs]`.
    frequencies: Tensor,
    size: usize,
    magnitude: f64,
    rotates_neighbours: bool,
    temperature: Option<QueryTemperature>,
}

impl Rotary {
    pub(super) fn read(gguf: &mut Gguf, config: &RopeConfig) -> std::result::Result<Self, LoadError> {
        // The files of models with a long context contain a divisor for each frequency.
        let (name, factors) = match config.scaling {
            RopeScaling::Factors { tensor } => (tensor, Some(gguf.read_dense(tensor)?)),
            _ => ("rope.freq_base", None),
        };
        Self::new(config, factors.as_ref(), gguf.device()).map_err(|error| gguf.invalid_entry(name, &error))
    }

    fn new(config: &RopeConfig, factors: Option<&Tensor>, device: &Device) -> Result<Self> {
        let frequencies: Vec<f32> = (0..config.size / 2).map(|pair| frequency(config, pair) as f32).collect();
        let mut frequencies = Tensor::new(frequencies, device)?.unsqueeze(0)?;
        if let Some(factors) = factors {
            frequencies = frequencies.broadcast_div(factors)?;
        }
        Ok(Self {
            frequencies,
            size: config.size,
            magnitude: config.magnitude,
            rotates_neighbours: config.interleaved,
            temperature: config.temperature,
        })
    }

    /// Returns the rotation for `tokens` consecutive tokens, the first of which is at position
    /// `start`.
    pub(super) fn rotation(&self, start: usize, tokens: usize) -> Result<Rotation> {
        let device = self.frequencies.device();
        let positions = Tensor::arange(start as f32, (start + tokens) as f32, device)?.unsqueeze(1)?;
        let angles = positions.broadcast_mul(&self.frequencies)?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let (cos, sin) = match self.magnitude == 1.0 {
            true => (cos, sin),
            false => ((cos * self.magnitude)?, (sin * self.magnitude)?),
        };
        let query_scale = match self.temperature {
            None => None,
            Some(temperature) => {
                let scale = |position| temperature.at(position) as f32;
                let scales: Vec<f32> = (start..start + tokens).map(scale).collect();
                Some(Tensor::from_vec(scales, (tokens, 1), device)?)
            }
        };
        let (size, rotates_neighbours) = (self.size, self.rotates_neighbours);
        Ok(Rotation { cos, sin, size, rotates_neighbours, query_scale })
    }
}

/// Returns the frequency of the dimension pair `pair`, in radians per token position.
fn frequency(config: &RopeConfig, pair: usize) -> f64 {
    let size = config.size as f64;
    let frequency = config.base.powf(-(2.0 * pair as f64) / size);
    match config.scaling {
        RopeScaling::None | RopeScaling::Factors { .. } => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow } => {
            // Pairs below `low` make more than `beta_fast` rotations in the original context and
            // are unchanged. Pairs above `high` make fewer than `beta_slow` and are interpolated.
            let pair_with = |rotations: f64| {
                let rotations = original_context as f64 / (rotations * 2.0 * PI);
                size * rotations.ln() / (2.0 * config.base.ln())
            };
            let low = pair_with(beta_fast).floor().max(0.0);
            let high = pair_with(beta_slow).ceil().min(size - 1.0);
            let ramp = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            frequency / factor * ramp + frequency * (1.0 - ramp)
        }
    }
}

impl QueryTemperature {
    fn at(self, position: usize) -> f64 {
        1.0 + self.scale * ((position / self.period) as f64).ln_1p()
    }
}

/// The rotation for consecutive tokens, stored as the cosine and the sine of each angle.
pub(super) struct Rotation {
    cos: Tensor,
    sin: Tensor,
    size: usize,
    rotates_neighbours: bool,
    /// The factor of the query of each token, in the shape `[tokens, 1]`.
    query_scale: Option<Tensor>,
}

impl Rotation {
    /// Applies this rotation to `query`, a tensor of the shape `[heads, tokens, size]`.
    pub(super) fn apply_to_query(&self, query: &Tensor) -> Result<Tensor> {
        let query = self.apply(query)?;
        match &self.query_scale {
            None => Ok(query),
            Some(scale) => query.broadcast_mul(scale),
        }
    }

    /// Applies this rotation to `input`, a tensor of the shape `[heads, tokens, size]`.
    pub(super) fn apply(&self, input: &Tensor) -> Result<Tensor> {
        let head_size = input.dim(D::Minus1)?;
        if head_size == self.size {
            return self.rotate(input);
        }
        let rotated = self.rotate(&input.narrow(D::Minus1, 0, self.size)?.contiguous()?)?;
        let rest = input.narrow(D::Minus1, self.size, head_size - self.size)?;
        Tensor::cat(&[&rotated, &rest], D::Minus1)?.contiguous()
    }

    fn rotate(&self, input: &Tensor) -> Result<Tensor> {
        let input = input.unsqueeze(0)?;
        let rotated = match self.rotates_neighbours {
            true => candle_nn::rotary_emb::rope_i(&input, &self.cos, &self.sin)?,
            false => candle_nn::rotary_emb::rope(&input, &self.cos, &self.sin)?,
        };
        rotated.squeeze(0)
    }
}
