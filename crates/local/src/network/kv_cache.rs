//! The key-value cache of one layer.

use candle_core::{DType, Device, Result, Tensor};

use super::config::Config;

/// The granularity of the cache capacity, in tokens. Cached keys and values are copied only when
/// the capacity grows.
const CACHE_GROWTH_TOKENS: usize = 512;

/// The keys and values of one layer, as tensors of the shape `[heads, tokens, head_size]` with
/// spare capacity.
pub(super) struct KvCache {
    heads: usize,
    head_size: usize,
    tensors: Option<(Tensor, Tensor)>,
}

impl KvCache {
    pub(super) fn new(config: &Config) -> Self {
        Self { heads: config.kv_heads, head_size: config.head_size, tensors: None }
    }

    /// Stores the keys and values of new tokens, the first of which is at position `start`. Returns
    /// the keys and the values of all tokens up to the last new token.
    pub(super) fn extend(
        &mut self,
        keys: &Tensor,
        values: &Tensor,
        start: usize,
    ) -> Result<(Tensor, Tensor)> {
        let end = start + keys.dim(1)?;
        let (all_keys, all_values) = self.tensors_with_room(start, end)?;
        all_keys.slice_set(keys, 1, start)?;
        all_values.slice_set(values, 1, start)?;
        Ok((all_keys.narrow(1, 0, end)?, all_values.narrow(1, 0, end)?))
    }

    fn tensors_with_room(&mut self, start: usize, end: usize) -> Result<(Tensor, Tensor)> {
        if let Some((keys, values)) = &self.tensors
            && keys.dim(1)? >= end
        {
            return Ok((keys.clone(), values.clone()));
        }
        let shape = (self.heads, end.next_multiple_of(CACHE_GROWTH_TOKENS), self.head_size);
        let larger = || Tensor::zeros(shape, DType::F32, &Device::Cpu);
        let (keys, values) = (larger()?, larger()?);
        if let Some((old_keys, old_values)) = &self.tensors
            && start > 0
        {
            keys.slice_set(&old_keys.narrow(1, 0, start)?.contiguous()?, 1, 0)?;
            values.slice_set(&old_values.narrow(1, 0, start)?.contiguous()?, 1, 0)?;
        }
        self.tensors = Some((keys.clone(), values.clone()));
        Ok((keys, values))
    }
}
