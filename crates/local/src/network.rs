//! The transformer: forward passes over quantized layers, with a key-value cache that can be
//! truncated.
//!
//! `candle_transformers` implements the same models, but its cache can only grow or be cleared. The
//! cache in this module can be truncated to the common prefix of two requests, so each step of an
//! agent costs only its new tokens.

mod attention;
mod config;
mod dense;
mod elementwise;
mod embedding;
mod kv_cache;
mod layer;
mod mask;
mod product;
mod rope_config;
mod rotary;
#[cfg(test)]
mod tests;
mod weight;

use std::ops::Range;

use candle_core::{IndexOp, Result, Tensor, bail};
use tracing::debug;

use self::config::{Config, LayerRotary};
use self::embedding::{Embedding, EmbeddingFile};
use self::kv_cache::KvCache;
use self::layer::{Layer, LayerPositions};
use self::rotary::Rotary;
use self::weight::{QuantizedWeight, RmsNorm};
use crate::LoadError;
use crate::gguf::Gguf;

/// The weights of a model and its key-value cache.
pub(crate) struct Network {
    embedding: Embedding,
    embedding_scale: Option<f64>,
    layers: Vec<Layer>,
    caches: Vec<KvCache>,
    norm: RmsNorm,
    output: QuantizedWeight,
    rotary: Rotary,
    /// The rotary embedding of the layers with a sliding window.
    local_rotary: Option<Rotary>,
    context: usize,
    cached: usize,
}

impl Network {
    /// Reads the weights from `gguf`. Calls `progress` with the fraction of the weights loaded so
    /// far, from 0 to 1. Fails if the shapes of the weights do not match each other, or if the
    /// model does not compute a logit for each of the `vocabulary` tokens.
    pub(crate) fn load(
        gguf: &mut Gguf,
        vocabulary: usize,
        progress: &mut dyn FnMut(f32),
    ) -> std::result::Result<Self, LoadError> {
        let config = Config::read(gguf)?;
        debug!(?config, "reading weights");
        // In a file without an output matrix, the embedding matrix is also the output matrix.
        let (embedding, output) = match gguf.has_tensor("output.weight") {
            true => (
                Embedding::File(EmbeddingFile::open(gguf, "token_embd.weight", vocabulary)?),
                QuantizedWeight::read(gguf, "output.weight")?,
            ),
            false => {
                let embedding = QuantizedWeight::read(gguf, "token_embd.weight")?;
                (Embedding::Weight(embedding.clone()), embedding)
            }
        };
        let mut layers = Vec::new();
        for index in 0..config.layers {
            progress(index as f32 / config.layers as f32);
            layers.push(Layer::read(gguf, &config, index)?);
        }
        let norm = RmsNorm::read(gguf, "output_norm.weight", config.epsilon)?;
        let rotary = Rotary::read(gguf, &config.rope)?;
        let local_rotary = config.local_rope.as_ref().map(|rope| Rotary::read(gguf, rope)).transpose()?;
        let caches = layers.iter().map(|_| KvCache::new(&config, gguf.device())).collect();
        let mut network = Self {
            embedding,
            embedding_scale: config.embedding_scale,
            layers,
            caches,
            norm,
            output,
            rotary,
            local_rotary,
            context: config.context,
            cached: 0,
        };
        network.check_shapes(gguf, vocabulary)?;
        progress(1.0);
        Ok(network)
    }

    /// Evaluates one token and counts the logits, so that weights with incompatible shapes are
    /// detected before the first request.
    fn check_shapes(&mut self, gguf: &Gguf, vocabulary: usize) -> std::result::Result<(), LoadError> {
        let logits = self.forward(&[0]).map_err(|error| gguf.invalid_entry("token_embd.weight", &error))?;
        self.truncate_cache(0);
        match logits.len() == vocabulary {
            true => Ok(()),
            false => {
                let sizes = format!("it has {} rows for {vocabulary} tokens", logits.len());
                Err(gguf.invalid_entry("output.weight", &sizes))
            }
        }
    }

    /// Returns the size of the context window in tokens.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Removes all but the first `keep` tokens from the key-value cache.
    pub(crate) fn truncate_cache(&mut self, keep: usize) {
        self.cached = self.cached.min(keep);
    }

    /// Returns the keys and values of the cached tokens in `range` as bytes, for
    /// [`import_cache`](Self::import_cache). The size is a multiple of
    /// [`cache_bytes_per_token`](Self::cache_bytes_per_token).
    pub(crate) fn export_cache(&self, range: Range<usize>) -> Result<Vec<u8>> {
        if range.end > self.cached {
            bail!("{} of {} tokens cannot be exported", range.end, self.cached);
        }
        let mut bytes = Vec::with_capacity(range.len() * self.cache_bytes_per_token());
        self.caches.iter().try_for_each(|cache| cache.export(range.clone(), &mut bytes))?;
        Ok(bytes)
    }

    /// Replaces the cached tokens from position `start` on by the tokens in `bytes`, which
    /// [`export_cache`](Self::export_cache) of the same model returned. Fails without a change if
    /// fewer than `start` tokens are cached or if the size of `bytes` is wrong.
    pub(crate) fn import_cache(&mut self, start: usize, bytes: &[u8]) -> Result<()> {
        let size = self.cache_bytes_per_token();
        let tokens = bytes.len() / size;
        if start > self.cached || !bytes.len().is_multiple_of(size) || start + tokens > self.context {
            bail!("{} bytes cannot be imported at position {start}", bytes.len());
        }
        self.cached = start;
        let mut rest = bytes;
        for cache in &mut self.caches {
            let (layer, next) = rest.split_at(tokens * cache.bytes_per_token());
            cache.import(start, tokens, layer)?;
            rest = next;
        }
        self.cached = start + tokens;
        Ok(())
    }

    /// Returns the size of the keys and values of a token in bytes, for all layers.
    pub(crate) fn cache_bytes_per_token(&self) -> usize {
        self.caches.iter().map(KvCache::bytes_per_token).sum::<usize>().max(1)
    }

    /// Evaluates `tokens`, appends their keys and values to the cache, and returns the logits after
    /// the last token.
    pub(crate) fn forward(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let first = tokens.len().saturating_sub(1);
        self.forward_from(tokens, first)?.flatten_all()?.to_vec1()
    }

    /// Evaluates `tokens`, appends their keys and values to the cache, and returns the logits after
    /// each token.
    pub(crate) fn forward_all(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.forward_from(tokens, 0)?.to_vec2()
    }

    /// Evaluates `tokens`. Returns the logits after each token from index `first` on.
    fn forward_from(&mut self, tokens: &[u32], first: usize) -> Result<Tensor> {
        // `scope` moves the pass to a thread of the pool. Outside of it, each of the about 200
        // parallel operations of a pass would wait until a thread of the pool has woken up.
        rayon::scope(|_| self.forward_in_pool(tokens, first))
    }

    fn forward_in_pool(&mut self, tokens: &[u32], first: usize) -> Result<Tensor> {
        let start = self.cached;
        let rotation = self.rotary.rotation(start, tokens.len())?;
        let local_rotary = self.local_rotary.as_ref();
        let local_rotation = local_rotary.map(|rotary| rotary.rotation(start, tokens.len())).transpose()?;
        let mut hidden = self.embedding.embed(tokens)?;
        if let Some(scale) = self.embedding_scale {
            hidden = (hidden * scale)?;
        }
        for (layer, cache) in self.layers.iter().zip(&mut self.caches) {
            let rotation = match layer.config.rotary {
                LayerRotary::None => None,
                LayerRotary::Global => Some(&rotation),
                LayerRotary::Local => local_rotation.as_ref(),
            };
            hidden = layer.forward(&hidden, cache, &LayerPositions { start, rotation })?;
        }
        let scored = hidden.i(first..)?.contiguous()?;
        let logits = self.output.forward(&self.norm.forward(&scored)?)?;
        self.cached = start + tokens.len();
        Ok(logits)
    }
}
