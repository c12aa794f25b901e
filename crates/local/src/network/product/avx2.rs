//! Block formats and products with AVX2 instructions.
//!
//! `pulp` detects the instructions at run time, and its token [`V3`] makes them safe to use.

use std::arch::x86_64::{__m128i, __m256, __m256i};
use std::array;

use pulp::cast;
use pulp::x86::V3;

use super::activations::{ActivationGroup, Activations};
use super::blocks::{BlockFormat, Factors, GROUP, Q4_0, Q4K, Q5_0, Q5K, Q6K, Q8_0};

/// A block format whose integers can be unpacked with AVX2 instructions.
pub(super) trait Avx2Format: BlockFormat {
    /// Returns the integers of the group `group` of `block`, the same as
    /// [`quants`](BlockFormat::quants).
    fn unpack(simd: V3, block: &Self::Block, group: usize) -> __m256i;
}

/// Multiplies the rows in `blocks`, each with `row_blocks` blocks, with each of `tokens`. Writes
/// the products of the first row with each token to `products`, then those of the second row.
#[inline(always)]
pub(super) fn multiply_rows<F: Avx2Format>(
    simd: V3,
    blocks: &[F::Block],
    row_blocks: usize,
    tokens: &[Activations],
    products: &mut [f32],
) {
    // The sums of eight products stay in registers. For one token, four rows are read at a time,
    // far from each other, because the processor prefetches each of them.
    match tokens.len() {
        1 => multiply_parts::<F, 4, 1>(simd, blocks, row_blocks, tokens, products),
        2 => multiply_parts::<F, 4, 2>(simd, blocks, row_blocks, tokens, products),
        _ => multiply_parts::<F, 2, 4>(simd, blocks, row_blocks, tokens, products),
    }
}

/// Splits the rows into `ROWS` parts, and multiplies a row of each part with `TOKENS` tokens at a
/// time.
#[inline(always)]
fn multiply_parts<F: Avx2Format, const ROWS: usize, const TOKENS: usize>(
    simd: V3,
    blocks: &[F::Block],
    row_blocks: usize,
    tokens: &[Activations],
    products: &mut [f32],
) {
    let row = |index: usize| blocks.get(index * row_blocks..(index + 1) * row_blocks).unwrap_or_default();
    let rows = blocks.len() / row_blocks;
    let part = rows / ROWS;
    let mut store = |row: usize, token: usize, product: f32| {
        if let Some(stored) = products.get_mut(row * tokens.len() + token) {
            *stored = product;
        }
    };
    let last = tokens.len().saturating_sub(1);
    for index in 0..part {
        let indices: [usize; ROWS] = array::from_fn(|number| number * part + index);
        let rows = indices.map(row);
        for first in (0..tokens.len()).step_by(TOKENS) {
            // A group with fewer tokens repeats the last one.
            let group = array::from_fn(|number| tokens.get(last.min(first + number)));
            let products = multiply::<F, ROWS, TOKENS>(simd, rows, group);
            for (row, products) in indices.iter().zip(products) {
                let products = products.into_iter().take(tokens.len() - first);
                products.enumerate().for_each(|(number, product)| store(*row, first + number, product));
            }
        }
    }
    for index in part * ROWS..rows {
        for (number, token) in tokens.iter().enumerate() {
            let [[product]] = multiply::<F, 1, 1>(simd, [row(index)], [Some(token)]);
            store(index, number, product);
        }
    }
}

/// Multiplies each of `rows` with each of `tokens`.
#[inline(always)]
fn multiply<F: Avx2Format, const ROWS: usize, const TOKENS: usize>(
    simd: V3,
    rows: [&[F::Block]; ROWS],
    tokens: [Option<&Activations>; TOKENS],
) -> [[f32; TOKENS]; ROWS] {
    let groups = tokens.map(|token| token.map_or(&[][..], |token| token.groups.as_slice()));
    let mut sums = [[simd.avx._mm256_setzero_ps(); TOKENS]; ROWS];
    let mut mins = [[0.0; TOKENS]; ROWS];
    let mut rows = rows.map(<[F::Block]>::iter);
    let blocks = groups.first().map_or(0, |groups| groups.len()) / F::GROUPS;
    for block in 0..blocks {
        for ((row, sums), mins) in rows.iter_mut().zip(&mut sums).zip(&mut mins) {
            let Some(bytes) = row.next() else { continue };
            let scales = F::scales(bytes);
            for index in 0..F::GROUPS {
                let quants = F::unpack(simd, bytes, index);
                let magnitudes = simd.avx2._mm256_abs_epi8(quants);
                let factors = F::factors(bytes, scales, index);
                for ((groups, sum), min) in groups.iter().zip(&mut *sums).zip(&mut *mins) {
                    let Some(group) = groups.get(block * F::GROUPS + index) else { continue };
                    let products =
                        simd.avx._mm256_cvtepi32_ps(multiply_group(simd, quants, magnitudes, group));
                    let scales = lane_scales::<F>(simd, factors.scales.map(|scale| scale * group.scale));
                    *sum = simd.fma._mm256_fmadd_ps(scales, products, *sum);
                    if F::HAS_MIN {
                        *min += factors.min * group.sum;
                    }
                }
            }
        }
    }
    let mut products = mins.map(|mins| mins.map(|min: f32| -min));
    for (products, sums) in products.iter_mut().zip(sums) {
        for (product, sum) in products.iter_mut().zip(sums) {
            *product += horizontal_sum(simd, sum);
        }
    }
    products
}

/// Returns the sum of the lanes of `sum`.
#[inline(always)]
fn horizontal_sum(simd: V3, sum: __m256) -> f32 {
    let halves =
        simd.sse._mm_add_ps(simd.avx._mm256_castps256_ps128(sum), simd.avx._mm256_extractf128_ps::<1>(sum));
    let pairs = simd.sse._mm_add_ps(halves, simd.sse._mm_movehl_ps(halves, halves));
    let [first, second, ..]: [f32; 4] = cast(pairs);
    first + second
}

/// Converts `blocks` to floats and writes them to `output`.
#[inline(always)]
pub(super) fn write_floats<F: Avx2Format>(simd: V3, blocks: &[F::Block], output: &mut [f32]) {
    let mut groups = output.as_chunks_mut::<GROUP>().0.iter_mut();
    for block in blocks {
        let block_scales = F::scales(block);
        for (index, output) in groups.by_ref().take(F::GROUPS).enumerate() {
            let quants = F::unpack(simd, block, index);
            let Factors { scales, min } = F::factors(block, block_scales, index);
            let halves =
                [simd.avx._mm256_castsi256_si128(quants), simd.avx2._mm256_extracti128_si256::<1>(quants)];
            let min = simd.avx._mm256_set1_ps(min);
            let quarters = halves
                .into_iter()
                .zip(scales)
                .flat_map(|(half, scale)| [(half, scale), (simd.sse2._mm_srli_si128::<8>(half), scale)]);
            for (output, (quarter, scale)) in output.as_chunks_mut::<8>().0.iter_mut().zip(quarters) {
                let floats = simd.avx._mm256_cvtepi32_ps(simd.avx2._mm256_cvtepi8_epi32(quarter));
                let scale = simd.avx._mm256_set1_ps(scale);
                *output = cast(simd.fma._mm256_fmsub_ps(floats, scale, min));
            }
        }
    }
}

/// Multiplies 32 integers of weights with those of activations. Returns the sums of 4 adjacent
/// products.
#[inline(always)]
fn multiply_group(simd: V3, quants: __m256i, magnitudes: __m256i, group: &ActivationGroup) -> __m256i {
    // The instruction multiplies unsigned with signed bytes, so the sign of the weight is moved to
    // the activation. No sum exceeds 16 bits, because the activations are at least -127.
    let activations = simd.avx2._mm256_sign_epi8(cast(group.quants), quants);
    let pairs = simd.avx2._mm256_maddubs_epi16(magnitudes, activations);
    simd.avx2._mm256_madd_epi16(pairs, simd.avx._mm256_set1_epi16(1))
}

/// Returns a vector with the first scale in the lower half and the second scale in the upper half.
#[inline(always)]
fn lane_scales<F: BlockFormat>(simd: V3, [low, high]: [f32; 2]) -> __m256 {
    if F::HAS_ONE_SCALE {
        return simd.avx._mm256_set1_ps(low);
    }
    simd.avx._mm256_setr_m128(simd.sse._mm_set1_ps(low), simd.sse._mm_set1_ps(high))
}

impl Avx2Format for Q4_0 {
    #[inline(always)]
    fn unpack(simd: V3, [_, _, nibbles @ ..]: &Self::Block, _: usize) -> __m256i {
        simd.avx2._mm256_sub_epi8(split_nibbles(simd, cast(*nibbles)), simd.avx._mm256_set1_epi8(8))
    }
}

impl Avx2Format for Q5_0 {
    #[inline(always)]
    fn unpack(simd: V3, [_, _, b0, b1, b2, b3, nibbles @ ..]: &Self::Block, _: usize) -> __m256i {
        let (avx, avx2) = (simd.avx, simd.avx2);
        // Byte `i` of the result gets byte `i / 8` of the bits, and then a test of bit `i % 8`.
        let bits = avx._mm256_set1_epi32(i32::from_le_bytes([*b0, *b1, *b2, *b3]));
        let sources = avx._mm256_setr_epi64x(0, EACH_BYTE, 2 * EACH_BYTE, 3 * EACH_BYTE);
        let bits = avx2._mm256_shuffle_epi8(bits, sources);
        let others = avx2._mm256_or_si256(bits, avx._mm256_set1_epi64x(!0x8040_2010_0804_0201_u64 as i64));
        let is_set = avx2._mm256_cmpeq_epi8(others, avx._mm256_set1_epi8(-1));
        // A quant with the fifth bit is the nibble, and a quant without it is the nibble minus 16.
        let minus_16 = avx2._mm256_andnot_si256(is_set, avx._mm256_set1_epi8(-16));
        avx2._mm256_or_si256(split_nibbles(simd, cast(*nibbles)), minus_16)
    }
}

/// A factor that copies a byte to all bytes of a 64-bit integer.
const EACH_BYTE: i64 = 0x0101_0101_0101_0101;

impl Avx2Format for Q8_0 {
    #[inline(always)]
    fn unpack(_: V3, [_, _, quants @ ..]: &Self::Block, _: usize) -> __m256i {
        cast(*quants)
    }
}

impl Avx2Format for Q4K {
    #[inline(always)]
    fn unpack(simd: V3, block: &Self::Block, group: usize) -> __m256i {
        low_bits::<0x0F>(simd, cast(Self::nibbles(block, group)), 4 * (group as u32 % 2))
    }
}

impl Avx2Format for Q5K {
    #[inline(always)]
    fn unpack(simd: V3, block: &Self::Block, group: usize) -> __m256i {
        let (nibbles, bits) = Self::nibbles_and_bits(block, group);
        let nibbles = low_bits::<0x0F>(simd, cast(nibbles), 4 * (group as u32 % 2));
        let bits = low_bits::<0x01>(simd, cast(bits), group as u32);
        simd.avx2._mm256_or_si256(nibbles, simd.avx2._mm256_slli_epi16::<4>(bits))
    }
}

impl Avx2Format for Q6K {
    #[inline(always)]
    fn unpack(simd: V3, block: &Self::Block, group: usize) -> __m256i {
        let (nibbles, bits) = Self::nibbles_and_bits(block, group);
        let (shift, bit_shift) = Self::shifts(group);
        let nibbles = low_bits::<0x0F>(simd, cast(nibbles), shift);
        let bits = low_bits::<0x03>(simd, cast(bits), bit_shift);
        let quants = simd.avx2._mm256_or_si256(nibbles, simd.avx2._mm256_slli_epi16::<4>(bits));
        simd.avx2._mm256_sub_epi8(quants, simd.avx._mm256_set1_epi8(32))
    }
}

/// Returns the low nibbles of `bytes`, followed by the high nibbles.
#[inline(always)]
fn split_nibbles(simd: V3, bytes: __m128i) -> __m256i {
    let high = simd.sse2._mm_srli_epi16::<4>(bytes);
    let both = simd.avx2._mm256_inserti128_si256::<1>(simd.avx._mm256_castsi128_si256(bytes), high);
    simd.avx2._mm256_and_si256(both, simd.avx._mm256_set1_epi8(0x0F))
}

/// Shifts each byte to the right by `shift` bits and applies `MASK`. The mask removes the bits of
/// the adjacent byte, because there is no shift of bytes.
#[inline(always)]
fn low_bits<const MASK: i8>(simd: V3, bytes: __m256i, shift: u32) -> __m256i {
    let shifted = simd.avx2._mm256_srl_epi16(bytes, simd.sse2._mm_cvtsi32_si128(shift as i32));
    simd.avx2._mm256_and_si256(shifted, simd.avx._mm256_set1_epi8(MASK))
}
