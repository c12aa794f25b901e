//! Products of float matrices.

use std::array;
use std::ops::Range;

use pulp::{Simd, WithSimd};

/// The number of rows of the right matrix in a tile of products.
const TILE_ROWS: usize = 4;

/// The products of each row of `left` with each row of `right`, which have `columns` numbers each.
/// They are added to `products`, which has a row for each row of `right`.
pub(super) struct RowProducts<'a> {
    pub(super) left: Rows<'a>,
    pub(super) right: Rows<'a>,
    pub(super) columns: usize,
    pub(super) products: &'a mut [f32],
}

/// Rows of a matrix. Each begins `stride` numbers after the row before it.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) stride: usize,
    pub(super) count: usize,
}

impl<'a> Rows<'a> {
    /// Returns the rows in `range`.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        let numbers = self.numbers.get(range.start * self.stride..).unwrap_or_default();
        Self { numbers, count: range.len(), ..self }
    }

    #[inline(always)]
    fn row(self, index: usize, columns: usize) -> &'a [f32] {
        let start = index * self.stride;
        self.numbers.get(start..start + columns).unwrap_or_default()
    }
}

impl WithSimd for RowProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The sums of a tile stay in registers, with a register for each operand.
        match S::REGISTER_COUNT {
            0..32 => self.compute::<S, 3>(simd),
            _ => self.compute::<S, 6>(simd),
        }
    }
}

impl RowProducts<'_> {
    #[inline(always)]
    fn compute<S: Simd, const LEFT: usize>(mut self, simd: S) {
        for right in (0..self.right.count).step_by(TILE_ROWS) {
            let mut left = 0;
            while left + LEFT <= self.left.count {
                self.add_tile::<S, LEFT>(simd, left, right);
                left += LEFT;
            }
            while left < self.left.count {
                self.add_tile::<S, 1>(simd, left, right);
                left += 1;
            }
        }
    }

    /// Adds the products of `LEFT` rows from `left` on and [`TILE_ROWS`] rows from `right` on.
    #[inline(always)]
    fn add_tile<S: Simd, const LEFT: usize>(&mut self, simd: S, left: usize, right: usize) {
        // Rows after the last one repeat it. Their products are not stored.
        let last = self.right.count.saturating_sub(1);
        let right_rows: [_; TILE_ROWS] = array::from_fn(
            #[inline(always)]
            |row| self.right.row((right + row).min(last), self.columns),
        );
        let left_rows: [_; LEFT] = array::from_fn(
            #[inline(always)]
            |row| self.left.row(left + row, self.columns),
        );
        let tile = tile_products(simd, left_rows, right_rows);
        let rows = self.products.chunks_exact_mut(self.left.count).skip(right);
        for (index, products) in rows.take(TILE_ROWS).enumerate() {
            for (product, sums) in products.iter_mut().skip(left).zip(&tile) {
                *product += sums.get(index).copied().unwrap_or_default();
            }
        }
    }
}

/// Returns the products of each of `left` with each of `right`.
#[inline(always)]
fn tile_products<S: Simd, const LEFT: usize, const RIGHT: usize>(
    simd: S,
    left: [&[f32]; LEFT],
    right: [&[f32]; RIGHT],
) -> [[f32; RIGHT]; LEFT] {
    let left = left.map(
        #[inline(always)]
        |row| S::as_simd_f32s(row),
    );
    let right = right.map(
        #[inline(always)]
        |row| S::as_simd_f32s(row),
    );
    let length = right.first().map_or(0, |row| row.0.len());
    let left_vectors = left.map(
        #[inline(always)]
        |row| row.0.get(..length).unwrap_or_default(),
    );
    let right_vectors = right.map(
        #[inline(always)]
        |row| row.0.get(..length).unwrap_or_default(),
    );
    let mut sums = [[simd.splat_f32s(0.0); RIGHT]; LEFT];
    let is_equal = |rows: &[&[S::f32s]]| rows.iter().all(|row| row.len() == length);
    if !is_equal(&left_vectors) || !is_equal(&right_vectors) {
        return [[0.0; RIGHT]; LEFT];
    }
    for index in 0..length {
        let right = right_vectors.map(
            #[inline(always)]
            |row| row[index],
        );
        for (row, sums) in left_vectors.iter().zip(&mut sums) {
            for (number, sum) in right.iter().zip(sums) {
                *sum = simd.mul_add_f32s(row[index], *number, *sum);
            }
        }
    }
    let mut products = sums.map(
        #[inline(always)]
        |sums| {
            sums.map(
                #[inline(always)]
                |sum| simd.reduce_sum_f32s(sum),
            )
        },
    );
    for (products, (_, left)) in products.iter_mut().zip(left) {
        for (product, (_, right)) in products.iter_mut().zip(right) {
            *product += left.iter().zip(right).map(|(a, b)| a * b).sum::<f32>();
        }
    }
    products
}

/// The weighted sums of `rows`, which have `columns` numbers each. `weights` has a row of weights
/// for each sum. `sums`, which is overwritten, has a row of `columns` numbers for each sum.
pub(super) struct RowSums<'a> {
    pub(super) weights: &'a [f32],
    pub(super) rows: Rows<'a>,
    pub(super) columns: usize,
    pub(super) sums: &'a mut [f32],
}

impl WithSimd for RowSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let weights = self.weights.chunks(TILE_ROWS * self.rows.count);
        for (weights, sums) in weights.zip(self.sums.chunks_mut(TILE_ROWS * self.columns)) {
            // A tile with fewer sums repeats the last one.
            let last = (sums.len() / self.columns).saturating_sub(1);
            let weights: [_; TILE_ROWS] = array::from_fn(
                #[inline(always)]
                |sum| {
                    let start = sum.min(last) * self.rows.count;
                    weights.get(start..start + self.rows.count).unwrap_or_default()
                },
            );
            let vectors = self.columns / S::F32_LANES;
            let mut vector = 0;
            while vector < vectors {
                match vectors - vector {
                    1 => self.rows.write_sums::<S, 1>(simd, self.columns, weights, vector, sums),
                    _ => self.rows.write_sums::<S, 2>(simd, self.columns, weights, vector, sums),
                }
                vector += 2;
            }
            for column in vectors * S::F32_LANES..self.columns {
                for (sums, weights) in sums.chunks_exact_mut(self.columns).zip(weights) {
                    let numbers = self.rows.numbers.iter().skip(column).step_by(self.rows.stride);
                    let sum = numbers.zip(weights).map(|(number, weight)| number * weight).sum();
                    if let Some(stored) = sums.get_mut(column) {
                        *stored = sum;
                    }
                }
            }
        }
    }
}

impl Rows<'_> {
    /// Computes the numbers of `VECTORS` vectors from `vector` on for [`TILE_ROWS`] sums.
    #[inline(always)]
    fn write_sums<S: Simd, const VECTORS: usize>(
        self,
        simd: S,
        columns: usize,
        weights: [&[f32]; TILE_ROWS],
        vector: usize,
        sums: &mut [f32],
    ) {
        let columns_of_vectors = vector * S::F32_LANES..(vector + VECTORS) * S::F32_LANES;
        let mut vectors = [[simd.splat_f32s(0.0); VECTORS]; TILE_ROWS];
        for index in 0..self.count {
            let start = index * self.stride;
            let numbers = self.numbers.get(start + columns_of_vectors.start..start + columns_of_vectors.end);
            let (numbers, _) = S::as_simd_f32s(numbers.unwrap_or_default());
            let Some(numbers) = numbers.first_chunk::<VECTORS>() else { continue };
            for (weights, vectors) in weights.iter().zip(&mut vectors) {
                let weight = simd.splat_f32s(weights.get(index).copied().unwrap_or_default());
                for (number, vector) in numbers.iter().zip(vectors) {
                    *vector = simd.mul_add_f32s(weight, *number, *vector);
                }
            }
        }
        for (sums, vectors) in sums.chunks_exact_mut(columns).zip(vectors) {
            let (sums, _) = S::as_mut_simd_f32s(sums.get_mut(columns_of_vectors.clone()).unwrap_or_default());
            sums.copy_from_slice(&vectors);
        }
    }
}
