//! Attention of new tokens to the tokens in the key-value cache.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor, bail};
use pulp::Arch;
use rayon::prelude::*;

use super::dense::{RowProducts, RowSums, Rows};
use super::elementwise::{elements, exp};
use super::mask::causal_mask;

/// The number of rows of scores that a task of the thread pool computes at a time.
const TASK_ROWS: usize = 32;

/// The attention of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Attention {
    /// The position of the first new token.
    pub(super) start: usize,
    /// The factor of the scores.
    pub(super) scale: f64,
    /// The number of tokens that a token attends to, including itself. `None` if it attends to all
    /// earlier tokens.
    pub(super) window: Option<usize>,
}

impl Attention {
    /// Returns the mean of `values` for each new token and head, weighted by the softmax of the
    /// scores. `query` has the shape `[heads, tokens, size]`, and `keys` and `values` have the
    /// shape `[kv_heads, positions, size]`. The result has the shape `[tokens, heads * size]`.
    pub(super) fn apply(self, query: &Tensor, keys: &Tensor, values: &Tensor) -> Result<Tensor> {
        match query.device().is_cpu() {
            true => query.apply_op3_no_bwd(keys, values, &self),
            false => self.apply_on_device(query, keys, values),
        }
    }

    /// Does the same as [`apply`](Self::apply) with operations of the tensor library.
    fn apply_on_device(self, query: &Tensor, keys: &Tensor, values: &Tensor) -> Result<Tensor> {
        let (heads, tokens, size) = query.dims3()?;
        let (kv_heads, positions, _) = keys.dims3()?;
        // Query heads with the same key head are multiplied as the rows of one matrix. This avoids
        // a copy of the keys for each query head.
        let rows = heads / kv_heads * tokens;
        let query = (query * self.scale)?.reshape((kv_heads, rows, size))?;
        let mut scores = query.matmul(&keys.t()?)?.reshape((heads, tokens, positions))?;
        if let Some(mask) = causal_mask(tokens, self.start, self.window, query.device())? {
            scores = scores.broadcast_add(&mask)?;
        }
        let weights = candle_nn::ops::softmax_last_dim(&scores)?;
        let mixed = weights.reshape((kv_heads, rows, positions))?.matmul(values)?;
        mixed.reshape((heads, tokens, size))?.transpose(0, 1)?.reshape((tokens, heads * size))
    }

    /// Returns the positions that the new token `token` attends to.
    fn visible(self, token: usize) -> Range<usize> {
        let end = self.start + token + 1;
        end.saturating_sub(self.window.unwrap_or(end))..end
    }
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        query: &CpuStorage,
        query_layout: &Layout,
        keys: &CpuStorage,
        key_layout: &Layout,
        values: &CpuStorage,
        value_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (heads, tokens, size) = query_layout.shape().dims3()?;
        let (kv_heads, positions, key_size) = key_layout.shape().dims3()?;
        if kv_heads == 0
            || !heads.is_multiple_of(kv_heads)
            || key_size != size
            || positions < self.start + tokens
        {
            bail!("a query of {:?} has keys of {:?}", query_layout.shape(), key_layout.shape())
        }
        let Some(query) = elements(query, query_layout)? else { bail!("the query is not contiguous") };
        let group = heads / kv_heads;
        let task_tokens = (TASK_ROWS / group).max(1);
        let tasks: Vec<_> = (0..kv_heads)
            .flat_map(|kv_head| (0..tokens).step_by(task_tokens).map(move |token| (kv_head, token)))
            .collect();
        let results: Vec<_> = tasks
            .into_par_iter()
            .map(|(kv_head, first)| {
                let heads = HeadGroup {
                    attention: *self,
                    tokens: first..tokens.min(first + task_tokens),
                    queries: query.chunks_exact(tokens * size).skip(kv_head * group).take(group),
                    keys: head_rows(keys, key_layout, kv_head)?,
                    values: head_rows(values, value_layout, kv_head)?,
                    size,
                };
                Ok((kv_head, heads.tokens.clone(), heads.compute()))
            })
            .collect::<Result<_>>()?;
        let mut output = vec![0.0; tokens * heads * size];
        for (kv_head, tokens, mixed) in results {
            for (index, row) in mixed.chunks_exact(size).enumerate() {
                let (head, token) =
                    (kv_head * group + index / tokens.len(), tokens.start + index % tokens.len());
                let start = (token * heads + head) * size;
                if let Some(output) = output.get_mut(start..start + size) {
                    output.copy_from_slice(row);
                }
            }
        }
        Ok((CpuStorage::F32(output), Shape::from((tokens, heads * size))))
    }
}

/// Returns the rows of the head `head` in a tensor of keys or values.
fn head_rows<'a>(storage: &'a CpuStorage, layout: &Layout, head: usize) -> Result<Rows<'a>> {
    let ([head_stride, stride, 1], (_, count, size)) = (layout.stride(), layout.shape().dims3()?) else {
        bail!("the rows of keys or values are not contiguous")
    };
    let start = layout.start_offset() + head * head_stride;
    let end = start + count.saturating_sub(1) * stride + size;
    match storage.as_slice()?.get(start..end) {
        Some(numbers) => Ok(Rows { numbers, stride: *stride, count }),
        None => bail!("the keys or values are too short"),
    }
}

/// The attention of some tokens and of the heads that share a head of keys.
struct HeadGroup<'a, Q> {
    attention: Attention,
    /// The new tokens.
    tokens: Range<usize>,
    /// The queries of each head, for all new tokens.
    queries: Q,
    keys: Rows<'a>,
    values: Rows<'a>,
    /// The size of a head.
    size: usize,
}

impl<'a, Q: Iterator<Item = &'a [f32]>> HeadGroup<'a, Q> {
    /// Returns the result for the tokens of the first head, then for those of the second head.
    fn compute(self) -> Vec<f32> {
        let (attention, tokens, size) = (self.attention, self.tokens, self.size);
        let positions = attention.visible(tokens.start).start..attention.visible(tokens.end - 1).end;
        let scale = attention.scale as f32;
        let queries: Vec<f32> = self
            .queries
            .flat_map(|head| head.get(tokens.start * size..tokens.end * size).unwrap_or_default())
            .map(|number| number * scale)
            .collect();
        let right = Rows { numbers: &queries, stride: size, count: queries.len() / size };
        let mut scores = vec![0.0; right.count * positions.len()];
        let arch = Arch::new();
        let left = self.keys.part(positions.clone());
        arch.dispatch(RowProducts { left, right, columns: size, products: &mut scores });
        for (index, scores) in scores.chunks_exact_mut(positions.len()).enumerate() {
            let visible = attention.visible(tokens.start + index % tokens.len());
            let (before, rest) = scores.split_at_mut(visible.start - positions.start);
            let (scores, behind) = rest.split_at_mut(visible.len());
            before.fill(0.0);
            behind.fill(0.0);
            arch.dispatch(
                #[inline(always)]
                || softmax(scores),
            );
        }
        let mut mixed = vec![0.0; queries.len()];
        let rows = self.values.part(positions);
        arch.dispatch(RowSums { weights: &scores, rows, columns: size, sums: &mut mixed });
        mixed
    }
}

/// Replaces `scores` by their exponentials, divided by the sum of the exponentials.
#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let (chunks, rest) = scores.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (largest, score) in largest.iter_mut().zip(chunk) {
            *largest = if *score > *largest { *score } else { *largest };
        }
    }
    let largest = largest.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    for score in &mut *scores {
        *score = exp(*score - largest);
    }
    let (chunks, rest) = scores.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (sum, weight) in sums.iter_mut().zip(chunk) {
            *sum += weight;
        }
    }
    let inverse = (sums.iter().sum::<f32>() + rest.iter().sum::<f32>()).recip();
    for score in scores {
        *score *= inverse;
    }
}

/// The number of partial sums in a loop that the compiler vectorizes.
const LANES: usize = 32;

#[cfg(test)]
mod tests;
