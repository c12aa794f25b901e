//! Products and conversions of matrix rows, in parallel.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pulp::Arch;
#[cfg(target_arch = "x86_64")]
use pulp::x86::V3;
use rayon::prelude::*;
use tracing::debug;

use super::activations::Activations;
#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2Format as Format;
#[cfg(not(target_arch = "x86_64"))]
use super::blocks::BlockFormat as Format;
use super::blocks::{BlockFormat, Factors, GROUP};
use super::packed::{PackedActivations, PackedProducts};

/// The number of rows in a task of the thread pool.
const TASK_ROWS: usize = 64;
/// The number of rows in a task that converts them to floats.
const TASK_FLOAT_ROWS: usize = 48;
/// The number of columns that are converted to floats at a time, if a block is not larger.
const PART_COLUMNS: usize = 128;

/// The minimum size of a matrix with which [`RowOrder::fastest`] measures. A smaller matrix may
/// stay in the caches of the processor.
const MIN_MEASURED_BYTES: usize = 32 << 20;
/// The number of measurements of each order. The fastest counts.
const MEASUREMENTS: usize = 3;

/// The order in which the rows of a matrix are read by AVX2 instructions. It changes the products
/// by rounding only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// Reads one row after the other.
    Sequential,
    /// Reads several distant rows at a time. Some processors prefetch each of them.
    Interleaved,
}

impl RowOrder {
    /// Returns the fastest order on this processor, which is measured with the first large matrix
    /// of the process. Loading a model evaluates a token, so the measurement is a part of it.
    /// `bytes` is the size of the matrix, and `multiply` computes its products.
    pub(super) fn fastest<T>(bytes: usize, multiply: impl Fn(Self) -> T) -> Self {
        static FASTEST: OnceLock<RowOrder> = OnceLock::new();
        if let Some(order) = FASTEST.get() {
            return *order;
        }
        if bytes < MIN_MEASURED_BYTES || !has_avx2() {
            return Self::Sequential;
        }
        let order = Self::measure(multiply);
        debug!(?order, "measured the order of rows");
        *FASTEST.get_or_init(|| order)
    }

    fn measure<T>(multiply: impl Fn(Self) -> T) -> Self {
        let mut fastest = (Duration::MAX, Self::Sequential);
        for order in [Self::Sequential, Self::Interleaved].repeat(MEASUREMENTS) {
            let start = Instant::now();
            multiply(order);
            let time = start.elapsed();
            if time < fastest.0 {
                fastest = (time, order);
            }
        }
        fastest.1
    }
}

/// Returns `true` if the kernels in `avx2` are used.
fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return V3::try_new().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The operations on the rows of a matrix in one block format.
pub(super) trait RowKernels: Send + Sync {
    /// Multiplies the rows in `bytes`, each with `columns` weights, with the activations in
    /// `input`, which has `columns` numbers for each token. Returns the products of the first token
    /// with each row, then those of the second token.
    fn multiply(&self, order: RowOrder, bytes: &[u8], columns: usize, input: &[f32]) -> Vec<f32>;

    /// Does the same as [`multiply`](Self::multiply) with floats, which is faster for many tokens.
    fn multiply_floats(&self, bytes: &[u8], columns: usize, input: &[f32]) -> Vec<f32>;

    /// Returns the products of one token and the weights as floats, computed without SIMD
    /// instructions.
    #[cfg(test)]
    fn compute_portably(&self, bytes: &[u8], columns: usize, input: &[f32]) -> (Vec<f32>, Vec<f32>);
}

impl<F: Format + Send + Sync> RowKernels for F {
    fn multiply(&self, order: RowOrder, bytes: &[u8], columns: usize, input: &[f32]) -> Vec<f32> {
        let tokens = quantize(input, columns);
        let (blocks, row_blocks) = (F::blocks(bytes), row_blocks::<F>(columns));
        let mut products = vec![0.0; blocks.len() / row_blocks * tokens.len()];
        products
            .par_chunks_mut(TASK_ROWS * tokens.len().max(1))
            .zip(blocks.par_chunks(TASK_ROWS * row_blocks))
            .for_each(|(products, rows)| multiply_rows::<F>(rows, row_blocks, &tokens, order, products));
        transpose(products, tokens.len())
    }

    fn multiply_floats(&self, bytes: &[u8], columns: usize, input: &[f32]) -> Vec<f32> {
        let activations = PackedActivations::new(&quantize(input, columns), columns);
        let (blocks, row_blocks) = (F::blocks(bytes), row_blocks::<F>(columns));
        let mut products = vec![0.0; blocks.len() / row_blocks * activations.tokens()];
        products
            .par_chunks_mut(TASK_FLOAT_ROWS * activations.tokens().max(1))
            .zip(blocks.par_chunks(TASK_FLOAT_ROWS * row_blocks))
            .for_each_init(Vec::new, |floats, (products, rows)| {
                multiply_rows_of_floats::<F>(rows, row_blocks, &activations, products, floats);
            });
        transpose(products, activations.tokens())
    }

    #[cfg(test)]
    fn compute_portably(&self, bytes: &[u8], columns: usize, input: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (blocks, token) = (F::blocks(bytes), Activations::quantize(input));
        let mut floats = vec![0.0; blocks.len() * F::GROUPS * GROUP];
        write_floats_portably::<F>(blocks, &mut floats);
        let rows = blocks.chunks_exact(row_blocks::<F>(columns));
        (rows.map(|row| multiply_row::<F>(row, &token)).collect(), floats)
    }
}

fn quantize(input: &[f32], columns: usize) -> Vec<Activations> {
    input.par_chunks(columns.max(1)).map(Activations::quantize).collect()
}

/// Returns the number of blocks in a row with `columns` weights. The tensor library ensures that a
/// row consists of whole blocks.
fn row_blocks<F: BlockFormat>(columns: usize) -> usize {
    (columns / (F::GROUPS * GROUP)).max(1)
}

/// Multiplies the rows in `blocks` with each of `tokens`. Writes the products of the first row with
/// each token to `products`, then those of the second row. Without AVX2, `order` has no effect.
fn multiply_rows<F: Format>(
    blocks: &[F::Block],
    row_blocks: usize,
    tokens: &[Activations],
    order: RowOrder,
    products: &mut [f32],
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = V3::try_new() {
        return simd.vectorize(
            #[inline(always)]
            || avx2::multiply_rows::<F>(simd, blocks, row_blocks, tokens, order, products),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = order;
    let rows = blocks.chunks_exact(row_blocks);
    for (products, row) in products.chunks_exact_mut(tokens.len().max(1)).zip(rows) {
        for (product, token) in products.iter_mut().zip(tokens) {
            *product = multiply_row::<F>(row, token);
        }
    }
}

/// Multiplies `row`, the blocks of a row, with the activations of `token`.
fn multiply_row<F: BlockFormat>(row: &[F::Block], token: &Activations) -> f32 {
    let groups = row.iter().flat_map(|block| (0..F::GROUPS).map(move |index| (block, index)));
    let activations = token.quants.iter().zip(token.scales.iter().zip(&token.sums));
    let products = groups.zip(activations).map(|((block, index), (activations, (scale, sum)))| {
        let Factors { scales, min } = F::factors(block, F::scales(block), index);
        let quants = F::quants(block, index);
        let products = quants.iter().zip(activations).map(|(a, b)| i32::from(*a) * i32::from(*b));
        let mut halves = [0; 2];
        for (index, product) in products.enumerate() {
            halves[usize::from(index >= GROUP / 2)] += product;
        }
        let [low, high] = halves.map(|half| half as f32 * scale);
        low * scales[0] + high * scales[1] - min * sum
    });
    products.sum()
}

/// Does the same as [`multiply_rows`] with floats. `floats` is a buffer.
///
/// The blocks are converted to floats in parts of [`PART_COLUMNS`] columns, which stay in
/// the caches of the processor.
fn multiply_rows_of_floats<F: Format>(
    blocks: &[F::Block],
    row_blocks: usize,
    activations: &PackedActivations,
    products: &mut [f32],
    floats: &mut Vec<f32>,
) {
    let block_columns = F::GROUPS * GROUP;
    let part_blocks = (PART_COLUMNS / block_columns).max(1);
    for start in (0..row_blocks).step_by(part_blocks) {
        let part = start..row_blocks.min(start + part_blocks);
        let columns = part.len() * block_columns;
        floats.resize(blocks.len() / row_blocks * columns, 0.0);
        let rows = blocks.chunks_exact(row_blocks);
        for (row, floats) in rows.zip(floats.chunks_exact_mut(columns)) {
            write_floats::<F>(row.get(part.clone()).unwrap_or_default(), floats);
        }
        let first_column = start * block_columns;
        let weights = floats.as_slice();
        Arch::new().dispatch(PackedProducts { weights, first_column, columns, activations, products });
    }
}

/// Converts `blocks` to floats and writes them to `floats`.
fn write_floats<F: Format>(blocks: &[F::Block], floats: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = V3::try_new() {
        return simd.vectorize(
            #[inline(always)]
            || avx2::write_floats::<F>(simd, blocks, floats),
        );
    }
    write_floats_portably::<F>(blocks, floats);
}

/// Converts `blocks` to floats without instructions of a certain processor.
fn write_floats_portably<F: BlockFormat>(blocks: &[F::Block], floats: &mut [f32]) {
    let groups = blocks.iter().flat_map(|block| (0..F::GROUPS).map(move |index| (block, index)));
    for ((block, index), floats) in groups.zip(floats.as_chunks_mut::<GROUP>().0) {
        let Factors { scales, min } = F::factors(block, F::scales(block), index);
        let halves = floats.as_chunks_mut::<{ GROUP / 2 }>().0.iter_mut().zip(scales);
        let quants = F::quants(block, index);
        let halves = halves.zip(quants.as_chunks::<{ GROUP / 2 }>().0);
        for ((floats, scale), quants) in halves {
            for (float, quant) in floats.iter_mut().zip(quants) {
                *float = f32::from(*quant) * scale - min;
            }
        }
    }
}

/// Transposes a matrix with `columns` columns.
fn transpose(matrix: Vec<f32>, columns: usize) -> Vec<f32> {
    if columns < 2 {
        return matrix;
    }
    let rows = matrix.len() / columns;
    let mut transposed = vec![0.0; matrix.len()];
    transposed.par_chunks_mut(rows.max(1) * TRANSPOSED_ROWS).enumerate().for_each(|(part, rows_of_part)| {
        let first = part * TRANSPOSED_ROWS;
        for (index, row) in matrix.chunks_exact(columns).enumerate() {
            let numbers = row.get(first..).unwrap_or_default();
            for (column, number) in rows_of_part.chunks_exact_mut(rows).zip(numbers) {
                if let Some(transposed) = column.get_mut(index) {
                    *transposed = *number;
                }
            }
        }
    });
    transposed
}

/// The number of rows that a task of the thread pool transposes. They fill the cache lines that are
/// read.
const TRANSPOSED_ROWS: usize = 16;

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn the_faster_order_is_chosen() {
        for slow in [RowOrder::Sequential, RowOrder::Interleaved] {
            let pause = |order| sleep(Duration::from_millis(if order == slow { 20 } else { 0 }));
            assert_ne!(RowOrder::measure(pause), slow);
        }
    }
}
