//! A layer of the transformer.

use candle_core::{Result, Tensor};

use super::config::Config;
use super::kv_cache::KvCache;
use super::rotary::Rotation;
use super::weight::{QuantizedWeight, RmsNorm};
use crate::LoadError;
use crate::gguf::Gguf;

/// A transformer layer: attention and a feed-forward network, each preceded by a norm and followed
/// by a residual connection.
pub(super) struct Layer {
    attention_norm: RmsNorm,
    query: Projection,
    key: Projection,
    value: Projection,
    attention_output: QuantizedWeight,
    ffn_norm: RmsNorm,
    gate: QuantizedWeight,
    up: QuantizedWeight,
    down: QuantizedWeight,
    heads_per_kv_head: usize,
}

impl Layer {
    pub(super) fn read(
        gguf: &mut Gguf,
        config: &Config,
        index: usize,
    ) -> std::result::Result<Self, LoadError> {
        let name = |part: &str| format!("blk.{index}.{part}");
        Ok(Self {
            attention_norm: RmsNorm::read(gguf, &name("attn_norm.weight"), config.epsilon)?,
            query: Projection::read(gguf, config, &name("attn_q"), config.heads)?,
            key: Projection::read(gguf, config, &name("attn_k"), config.kv_heads)?,
            value: Projection::read(gguf, config, &name("attn_v"), config.kv_heads)?,
            attention_output: QuantizedWeight::read(gguf, &name("attn_output.weight"))?,
            ffn_norm: RmsNorm::read(gguf, &name("ffn_norm.weight"), config.epsilon)?,
            gate: QuantizedWeight::read(gguf, &name("ffn_gate.weight"))?,
            up: QuantizedWeight::read(gguf, &name("ffn_up.weight"))?,
            down: QuantizedWeight::read(gguf, &name("ffn_down.weight"))?,
            heads_per_kv_head: config.heads / config.kv_heads,
        })
    }

    /// Computes the hidden states of new tokens, the first of which is at position `start`. `input`
    /// and the result have the shape `[tokens, width]`.
    pub(super) fn forward(
        &self,
        input: &Tensor,
        cache: &mut KvCache,
        rotation: &Rotation,
        mask: Option<&Tensor>,
        start: usize,
    ) -> Result<Tensor> {
        let normed = self.attention_norm.forward(input)?;
        let attended = (input + self.attend(&normed, cache, rotation, mask, start)?)?;
        let normed = self.ffn_norm.forward(&attended)?;
        let gated = (candle_nn::ops::silu(&self.gate.forward(&normed)?)? * self.up.forward(&normed)?)?;
        attended + self.down.forward(&gated)?
    }

    fn attend(
        &self,
        input: &Tensor,
        cache: &mut KvCache,
        rotation: &Rotation,
        mask: Option<&Tensor>,
        start: usize,
    ) -> Result<Tensor> {
        let query = rotation.apply(&self.query.forward(input)?)?;
        let key = rotation.apply(&self.key.forward(input)?)?;
        let (keys, values) = cache.extend(&key, &self.value.forward(input)?, start)?;

        // Query heads with the same key head are multiplied as the rows of one matrix. This avoids
        // a copy of the keys for each query head.
        let (heads, tokens, size) = query.dims3()?;
        let (kv_heads, seen) = (heads / self.heads_per_kv_head, keys.dim(1)?);
        let query =
            (query * (size as f64).powf(-0.5))?.reshape((kv_heads, self.heads_per_kv_head * tokens, size))?;
        let mut scores = query.matmul(&keys.t()?)?.reshape((heads, tokens, seen))?;
        if let Some(mask) = mask {
            scores = scores.broadcast_add(mask)?;
        }
        let weights = candle_nn::ops::softmax_last_dim(&scores)?;
        let mixed = weights.reshape((kv_heads, self.heads_per_kv_head * tokens, seen))?.matmul(&values)?;
        let mixed = mixed.reshape((heads, tokens, size))?.transpose(0, 1)?.reshape((tokens, heads * size))?;
        self.attention_output.forward(&mixed)
    }
}

/// A linear projection to attention heads. It includes the bias (qwen2) and the norm (qwen3) if the
/// file contains them.
struct Projection {
    weight: QuantizedWeight,
    bias: Option<Tensor>,
    norm: Option<RmsNorm>,
    heads: usize,
    size: usize,
}

impl Projection {
    fn read(
        gguf: &mut Gguf,
        config: &Config,
        name: &str,
        heads: usize,
    ) -> std::result::Result<Self, LoadError> {
        let bias = format!("{name}.bias");
        let norm = format!("{name}_norm.weight");
        Ok(Self {
            weight: QuantizedWeight::read(gguf, &format!("{name}.weight"))?,
            bias: if gguf.has_tensor(&bias) { Some(gguf.read_dense(&bias)?) } else { None },
            norm: if gguf.has_tensor(&norm) {
                Some(RmsNorm::read(gguf, &norm, config.epsilon)?)
            } else {
                None
            },
            heads,
            size: config.head_size,
        })
    }

    /// Projects `input` from the shape `[tokens, width]` to the shape `[heads, tokens, size]`.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut projected = self.weight.forward(input)?;
        if let Some(bias) = &self.bias {
            projected = projected.broadcast_add(bias)?;
        }
        let mut heads = projected.reshape((input.dim(0)?, self.heads, self.size))?;
        if let Some(norm) = &self.norm {
            heads = norm.forward(&heads)?;
        }
        heads.transpose(0, 1)?.contiguous()
    }
}
