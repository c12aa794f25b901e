//! The causal attention mask.

use candle_core::{Device, Result, Tensor};

/// Creates the attention mask for `tokens` new tokens, the first of which is at position `start`.
/// Each token attends only to itself and to earlier tokens, and only to the last `window` of them.
///
/// Returns `None` if each token attends to all cached tokens.
///
/// Source of the window: llama.cpp, `src/llama-hparams.h`, `llama_hparams::is_masked_swa`.
pub(super) fn causal_mask(
    tokens: usize,
    start: usize,
    window: Option<usize>,
    device: &Device,
) -> Result<Option<Tensor>> {
    let width = start + tokens;
    let window = window.unwrap_or(usize::MAX);
    if tokens < 2 && width <= window {
        return Ok(None);
    }
    let is_visible = |position: usize, column: usize| column <= position && position - column < window;
    let value = |row, column| if is_visible(start + row, column) { 0.0 } else { f32::NEG_INFINITY };
    let mask: Vec<f32> =
        (0..tokens).flat_map(|row| (0..width).map(move |column| value(row, column))).collect();
    Tensor::from_vec(mask, (tokens, width), device).map(Some)
}
