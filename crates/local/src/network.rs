//! The transformer: one forward pass over quantised layers, with a key-value cache that can be cut back.
//!
//! `candle_transformers` has these models too, but its cache can only grow or be cleared. Keeping the common
//! prefix of two requests needs one that can be truncated, which is what makes a step of an agent cost its new
//! tokens only.

mod attention;
mod cache;
mod config;
mod layer;
mod weight;

use candle_core::{Device, IndexOp, Result, Tensor};
use tracing::debug;

use self::attention::{Rotary, causal_mask};
use self::cache::LayerCache;
use self::config::Config;
use self::layer::Layer;
use self::weight::{Norm, Weight};
use crate::LoadError;
use crate::gguf::Gguf;

/// A loaded model and the tokens that its cache holds.
pub(crate) struct Network {
    embedding: Weight,
    layers: Vec<Layer>,
    caches: Vec<LayerCache>,
    norm: Norm,
    output: Weight,
    rotary: Rotary,
    context: usize,
    cached: usize,
}

impl Network {
    /// Reads the weights, telling `progress` the share that is done, from 0 to 1.
    pub(crate) fn load(
        gguf: &mut Gguf,
        progress: &mut dyn FnMut(f32),
    ) -> std::result::Result<Self, LoadError> {
        let config = Config::read(gguf)?;
        debug!(?config, "reading weights");
        let embedding = Weight::read(gguf, "token_embd.weight")?;
        // A file without an output matrix ties it to the embedding.
        let output = match gguf.has_tensor("output.weight") {
            true => Weight::read(gguf, "output.weight")?,
            false => embedding.clone(),
        };
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            progress(index as f32 / config.layers as f32);
            layers.push(Layer::read(gguf, &config, index)?);
        }
        let norm = Norm::read(gguf, "output_norm.weight", config.epsilon)?;
        let rotary = Rotary::new(gguf, &config)?;
        let caches = layers.iter().map(|_| LayerCache::new(&config)).collect();
        progress(1.0);
        Ok(Self { embedding, layers, caches, norm, output, rotary, context: config.context, cached: 0 })
    }

    /// How many tokens the model can hold in all.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Forgets every token from position `keep` on.
    pub(crate) fn truncate(&mut self, keep: usize) {
        self.cached = self.cached.min(keep);
    }

    /// Appends `tokens` to the cache and returns the logits that follow the last of them.
    pub(crate) fn forward(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let start = self.cached;
        let ids = Tensor::new(tokens, &Device::Cpu)?;
        let mask = causal_mask(tokens.len(), start)?;
        let mut hidden = self.embedding.lookup(&ids)?;
        for (layer, cache) in self.layers.iter().zip(&mut self.caches) {
            hidden = layer.forward(&hidden, cache, &self.rotary, mask.as_ref(), start)?;
        }
        let last = hidden.i(tokens.len().saturating_sub(1)..)?.contiguous()?;
        let logits = self.output.forward(&self.norm.forward(&last)?)?;
        self.cached = start + tokens.len();
        logits.flatten_all()?.to_vec1()
    }
}
