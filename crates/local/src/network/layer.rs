//! A layer of the transformer.

use candle_core::{Result, Tensor};

use super::attention::Attention;
use super::config::{Activation, Config, LayerConfig};
use super::elementwise::Elementwise;
use super::kv_cache::KvCache;
use super::rotary::Rotation;
use super::weight::{QuantizedWeight, RmsNorm};
use crate::LoadError;
use crate::gguf::Gguf;

/// A transformer layer: attention and a feed-forward network, each preceded by a norm and followed
/// by a residual connection. A layer of Gemma 3 also has a norm before each residual connection.
pub(super) struct Layer {
    pub(super) config: LayerConfig,
    attention_norm: RmsNorm,
    query: Projection,
    key: Projection,
    value: Projection,
    attention_output: QuantizedWeight,
    attention_scale: f64,
    post_attention_norm: Option<RmsNorm>,
    ffn_norm: RmsNorm,
    gate: QuantizedWeight,
    up: QuantizedWeight,
    down: QuantizedWeight,
    activation: Activation,
    post_ffn_norm: Option<RmsNorm>,
}

/// The position-dependent inputs of a layer for new tokens.
pub(super) struct LayerPositions<'a> {
    /// The position of the first new token.
    pub(super) start: usize,
    /// `None` in layers without a rotary embedding.
    pub(super) rotation: Option<&'a Rotation>,
}

impl Layer {
    pub(super) fn read(
        gguf: &mut Gguf,
        config: &Config,
        index: usize,
    ) -> std::result::Result<Self, LoadError> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let epsilon = config.epsilon;
        let [query, key, value] = read_query_key_value(gguf, config, &name)?;
        let [gate, up] = read_gate_and_up(gguf, &name)?;
        Ok(Self {
            config: config.layer(index),
            attention_norm: RmsNorm::read(gguf, &name("attn_norm.weight"), epsilon)?,
            query: Projection::read(gguf, config, query, &name("attn_q"), config.heads)?,
            key: Projection::read(gguf, config, key, &name("attn_k"), config.kv_heads)?,
            value: Projection::read(gguf, config, value, &name("attn_v"), config.kv_heads)?,
            attention_output: QuantizedWeight::read(gguf, &name("attn_output.weight"))?,
            attention_scale: config.attention_scale,
            post_attention_norm: RmsNorm::read_optional(gguf, &name("post_attention_norm.weight"), epsilon)?,
            ffn_norm: RmsNorm::read(gguf, &name("ffn_norm.weight"), epsilon)?,
            gate,
            up,
            down: QuantizedWeight::read(gguf, &name("ffn_down.weight"))?,
            activation: config.activation,
            post_ffn_norm: RmsNorm::read_optional(gguf, &name("post_ffw_norm.weight"), epsilon)?,
        })
    }

    /// Computes the hidden states of new tokens. `input` and the result have the shape
    /// `[tokens, width]`.
    pub(super) fn forward(
        &self,
        input: &Tensor,
        cache: &mut KvCache,
        positions: &LayerPositions<'_>,
    ) -> Result<Tensor> {
        let normed = self.attention_norm.forward(input)?;
        let attention = self.attend(&normed, cache, positions)?;
        let attention = RmsNorm::forward_optional(self.post_attention_norm.as_ref(), attention)?;
        let attended = Elementwise::Sum.apply(input, &attention)?;
        let normed = self.ffn_norm.forward(&attended)?;
        let gated = Elementwise::Gated(self.activation)
            .apply(&self.gate.forward(&normed)?, &self.up.forward(&normed)?)?;
        let output = self.down.forward(&gated)?;
        let output = RmsNorm::forward_optional(self.post_ffn_norm.as_ref(), output)?;
        Elementwise::Sum.apply(&attended, &output)
    }

    fn attend(&self, input: &Tensor, cache: &mut KvCache, positions: &LayerPositions<'_>) -> Result<Tensor> {
        let (mut query, mut key) = (self.query.forward(input)?, self.key.forward(input)?);
        if let Some(rotation) = positions.rotation {
            query = rotation.apply_to_query(&query)?;
            key = rotation.apply(&key)?;
        }
        let (keys, values) = cache.extend(&key, &self.value.forward(input)?, positions.start)?;
        let attention =
            Attention { start: positions.start, scale: self.attention_scale, window: self.config.window };
        self.attention_output.forward(&attention.apply(&query, &keys, &values)?)
    }
}

/// Reads the projections of queries, keys and values. In the files of Phi-3 and Phi-4, they are the
/// rows of one matrix, in this order.
///
/// Source: llama.cpp, `src/models/phi3.cpp` and `src/llama-graph.cpp`,
/// `llm_graph_context::build_qkv`.
fn read_query_key_value(
    gguf: &mut Gguf,
    config: &Config,
    name: &dyn Fn(&str) -> String,
) -> std::result::Result<[QuantizedWeight; 3], LoadError> {
    let fused = name("attn_qkv.weight");
    if !gguf.has_tensor(&fused) {
        let mut read = |part: &str| QuantizedWeight::read(gguf, &name(part));
        return Ok([read("attn_q.weight")?, read("attn_k.weight")?, read("attn_v.weight")?]);
    }
    let [query, key] = [config.heads, config.kv_heads].map(|heads| heads * config.head_size);
    QuantizedWeight::read_parts(gguf, &fused, [query, key, key])
}

/// Reads the gate and the upward projection of the feed-forward network. In the files of Phi-3 and
/// Phi-4, they are the halves of one matrix, in this order.
///
/// Source: llama.cpp, `src/llama-graph.cpp`, `llm_graph_context::build_ffn`, case `LLM_FFN_SWIGLU`.
fn read_gate_and_up(
    gguf: &mut Gguf,
    name: &dyn Fn(&str) -> String,
) -> std::result::Result<[QuantizedWeight; 2], LoadError> {
    let up = name("ffn_up.weight");
    if gguf.has_tensor(&name("ffn_gate.weight")) {
        return Ok([
            QuantizedWeight::read(gguf, &name("ffn_gate.weight"))?,
            QuantizedWeight::read(gguf, &up)?,
        ]);
    }
    let rows = gguf.tensor_rows(&up).unwrap_or_default();
    QuantizedWeight::read_parts(gguf, &up, [rows / 2, rows / 2])
}

/// A linear projection to attention heads. It includes the bias (qwen2) and the norm (qwen3,
/// gemma3) if the file contains them.
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
        weight: QuantizedWeight,
        name: &str,
        heads: usize,
    ) -> std::result::Result<Self, LoadError> {
        let bias = format!("{name}.bias");
        let norm = format!("{name}_norm.weight");
        Ok(Self {
            weight,
            bias: if gguf.has_tensor(&bias) { Some(gguf.read_dense(&bias)?) } else { None },
            norm: RmsNorm::read_optional(gguf, &norm, config.epsilon)?,
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
