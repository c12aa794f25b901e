//! The key-value cache of one layer.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor, bail};

use super::config::Config;

/// The granularity of the cache capacity, in tokens. Cached keys and values are copied only when
/// the capacity grows.
const CACHE_GROWTH_TOKENS: usize = 512;

/// The keys and values of one layer, as tensors of the shape `[heads, tokens, head_size]` with
/// spare capacity.
pub(super) struct KvCache {
    heads: usize,
    head_size: usize,
    device: Device,
    tensors: Option<(Tensor, Tensor)>,
}

impl KvCache {
    /// Creates an empty cache in the memory of `device`.
    pub(super) fn new(config: &Config, device: &Device) -> Self {
        Self { heads: config.kv_heads, head_size: config.head_size, device: device.clone(), tensors: None }
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

    /// Appends the keys and values of the tokens in `range` to `bytes`: 32-bit floats in
    /// little-endian order, keys before values, in the shape `[heads, tokens, head_size]`.
    pub(super) fn export(&self, range: Range<usize>, bytes: &mut Vec<u8>) -> Result<()> {
        let Some((keys, values)) = &self.tensors else { bail!("the key-value cache is empty") };
        for tensor in [keys, values] {
            let numbers = tensor.narrow(1, range.start, range.len())?.flatten_all()?.to_vec1::<f32>()?;
            bytes.extend(numbers.into_iter().flat_map(f32::to_le_bytes));
        }
        Ok(())
    }

    /// Stores `tokens` tokens of an [export](Self::export) at position `start`. `bytes` has exactly
    /// [`bytes_per_token`](Self::bytes_per_token) bytes for each token.
    pub(super) fn import(&mut self, start: usize, tokens: usize, bytes: &[u8]) -> Result<()> {
        let (all_keys, all_values) = self.tensors_with_room(start, start + tokens)?;
        let (keys, values) = bytes.split_at(bytes.len() / 2);
        for (tensor, bytes) in [(all_keys, keys), (all_values, values)] {
            let numbers: Vec<f32> =
                bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
            let part = Tensor::from_vec(numbers, (self.heads, tokens, self.head_size), &self.device)?;
            tensor.slice_set(&part, 1, start)?;
        }
        Ok(())
    }

    /// Returns the size of an exported token in bytes.
    pub(super) fn bytes_per_token(&self) -> usize {
        2 * self.heads * self.head_size * size_of::<f32>()
    }

    fn tensors_with_room(&mut self, start: usize, end: usize) -> Result<(Tensor, Tensor)> {
        if let Some((keys, values)) = &self.tensors
            && keys.dim(1)? >= end
        {
            return Ok((keys.clone(), values.clone()));
        }
        let shape = (self.heads, end.next_multiple_of(CACHE_GROWTH_TOKENS), self.head_size);
        let larger = || Tensor::zeros(shape, DType::F32, &self.device);
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
