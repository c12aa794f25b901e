//! The key-value cache of one layer.

use candle_core::{DType, Device, Result, Tensor};

use super::config::Config;

/// The cache grows by this number of tokens. Earlier tokens are copied only when it grows.
const STEP: usize = 512;

/// The keys and values of one layer, as tensors of the shape `[heads, tokens, size]` with spare
/// capacity.
pub(super) struct LayerCache {
    heads: usize,
    size: usize,
    room: Option<(Tensor, Tensor)>,
}

impl LayerCache {
    pub(super) fn new(config: &Config) -> Self {
        Self { heads: config.kv_heads, size: config.head_size, room: None }
    }

    /// Writes the keys and values of new tokens from position `start` on. Returns the keys and
    /// values of all tokens up to the last new one.
    pub(super) fn extend(
        &mut self,
        keys: &Tensor,
        values: &Tensor,
        start: usize,
    ) -> Result<(Tensor, Tensor)> {
        let end = start + keys.dim(1)?;
        let (all_keys, all_values) = self.room_for(start, end)?;
        all_keys.slice_set(keys, 1, start)?;
        all_values.slice_set(values, 1, start)?;
        Ok((all_keys.narrow(1, 0, end)?, all_values.narrow(1, 0, end)?))
    }

    fn room_for(&mut self, start: usize, end: usize) -> Result<(Tensor, Tensor)> {
        if let Some((keys, values)) = &self.room
            && keys.dim(1)? >= end
        {
            return Ok((keys.clone(), values.clone()));
        }
        let shape = (self.heads, end.next_multiple_of(STEP), self.size);
        let larger = || Tensor::zeros(shape, DType::F32, &Device::Cpu);
        let (keys, values) = (larger()?, larger()?);
        if let Some((old_keys, old_values)) = &self.room
            && start > 0
        {
            keys.slice_set(&old_keys.narrow(1, 0, start)?.contiguous()?, 1, 0)?;
            values.slice_set(&old_values.narrow(1, 0, start)?.contiguous()?, 1, 0)?;
        }
        self.room = Some((keys.clone(), values.clone()));
        Ok((keys, values))
    }
}
