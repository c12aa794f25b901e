//! Products of float rows with packed activations.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::activations::Activations;

/// The number of tokens in a panel.
pub(super) const PANEL_TOKENS: usize = 64;
/// The maximum number of weight rows whose sums are computed together.
const TILE_ROWS: usize = 6;

/// Activations in panels. A panel has the first activation of each of its tokens, then the second
/// activation of each of them. The last panel is filled with zeros.
pub(super) struct PackedActivations {
    numbers: Vec<f32>,
    columns: usize,
    tokens: usize,
}

impl PackedActivations {
    /// Packs the quantized activations of `tokens`, which have `columns` activations each.
    ///
    /// The quantized values are used, so that a prompt and its tokens one by one give the same
    /// products, up to rounding.
    pub(super) fn new(tokens: &[Activations], columns: usize) -> Self {
        let mut numbers = vec![0.0; tokens.len().next_multiple_of(PANEL_TOKENS) * columns];
        numbers.par_chunks_mut(PANEL_TOKENS * columns.max(1)).zip(tokens.par_chunks(PANEL_TOKENS)).for_each(
            |(panel, tokens)| {
                for (index, token) in tokens.iter().enumerate() {
                    let packed = panel.iter_mut().skip(index).step_by(PANEL_TOKENS);
                    packed.zip(token.floats()).for_each(|(packed, number)| *packed = number);
                }
            },
        );
        Self { numbers, columns, tokens: tokens.len() }
    }

    /// Returns the number of tokens.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }
}

/// Adds the products of weights and activations to `products`, which has the products of the first
/// weight row with each token, then those of the second row.
pub(super) struct PackedProducts<'a> {
    /// The weights of some columns, from `first_column` on, with `columns` weights in each row.
    pub(super) weights: &'a [f32],
    pub(super) first_column: usize,
    pub(super) columns: usize,
    pub(super) activations: &'a PackedActivations,
    pub(super) products: &'a mut [f32],
}

impl WithSimd for PackedProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // The sums stay in registers, beside the activations and a weight.
        let vectors = if S::REGISTER_COUNT < 32 { 2 } else { 4 };
        match self.activations.tokens.div_ceil(S::F32_LANES).min(vectors) {
            0 | 1 => self.add_panels::<S, 1>(simd),
            2 => self.add_panels::<S, 2>(simd),
            _ => self.add_panels::<S, 4>(simd),
        }
    }
}

impl PackedProducts<'_> {
    /// Computes the products of `VECTORS` vectors of tokens at a time.
    #[inline(always)]
    fn add_panels<S: Simd, const VECTORS: usize>(&mut self, simd: S) {
        let tokens = self.activations.tokens;
        let panels = self.activations.numbers.chunks_exact(PANEL_TOKENS * self.activations.columns);
        for (index, panel) in panels.enumerate() {
            let first_token = index * PANEL_TOKENS;
            let panel_tokens = PANEL_TOKENS.min(tokens - first_token);
            let panel = panel.get(self.first_column * PANEL_TOKENS..).unwrap_or_default();
            for first in (0..panel_tokens).step_by(VECTORS * S::F32_LANES) {
                let tile = Tile { panel: panel.get(first..).unwrap_or_default(), columns: self.columns };
                let rows = self.weights.chunks(TILE_ROWS * self.columns);
                for (weights, products) in rows.zip(self.products.chunks_mut(TILE_ROWS * tokens)) {
                    let sums = tile.sums::<S, VECTORS>(simd, weights);
                    let count = (VECTORS * S::F32_LANES).min(panel_tokens - first);
                    for (products, sums) in products.chunks_exact_mut(tokens).zip(&sums) {
                        let sums: &[f32] = pulp::bytemuck::cast_slice(sums);
                        let products = products.iter_mut().skip(first_token + first).take(count);
                        products.zip(sums).for_each(|(product, sum)| *product += sum);
                    }
                }
            }
        }
    }
}

/// The activations of some tokens.
struct Tile<'a> {
    panel: &'a [f32],
    columns: usize,
}

impl Tile<'_> {
    /// Returns the products of the first [`TILE_ROWS`] rows of `weights` with `VECTORS` vectors of
    /// tokens.
    #[inline(always)]
    fn sums<S: Simd, const VECTORS: usize>(
        &self,
        simd: S,
        weights: &[f32],
    ) -> [[S::f32s; VECTORS]; TILE_ROWS] {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; TILE_ROWS];
        // A tile with fewer rows repeats the last one.
        let last = (weights.len() / self.columns).saturating_sub(1);
        let mut rows = [weights; TILE_ROWS];
        for (index, row) in rows.iter_mut().enumerate() {
            let start = index.min(last) * self.columns;
            *row = weights.get(start..start + self.columns).unwrap_or_default();
        }
        let columns = self.columns.min(rows.iter().map(|row| row.len()).min().unwrap_or_default());
        for (column, tokens) in self.panel.chunks(PANEL_TOKENS).take(columns).enumerate() {
            let (tokens, _) = S::as_simd_f32s(tokens);
            let Some(tokens) = tokens.first_chunk::<VECTORS>() else { break };
            for (row, sums) in rows.iter().zip(&mut sums) {
                let weight = simd.splat_f32s(row[column]);
                for (activations, sum) in tokens.iter().zip(sums) {
                    *sum = simd.mul_add_f32s(weight, *activations, *sum);
                }
            }
        }
        sums
    }
}
