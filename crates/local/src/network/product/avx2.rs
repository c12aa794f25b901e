//! Block formats and products with AVX2 instructions.
//!
//! `pulp` detects the instructions at run time, and its token [`V3`] makes them safe to use.

use std::arch::x86_64::{__m128i, __m256, __m256i};
use std::array;

use pulp::cast;
use pulp::x86::V3;

use super::activations::Activations;
use super::blocks::{
    BlockFormat, BlockScales, Factors, GROUP, K_GROUPS, Q4_0, Q4K, Q5_0, Q5K, Q6K, Q8_0, k_integers, part,
};
use super::rows::RowOrder;

/// A block format with AVX2 instructions for its blocks.
pub(super) trait Avx2Format: BlockFormat {
    /// The integers of the groups of a block.
    type Quants: AsRef<[__m256i]>;
    /// The scales and the minimums of the groups of a block.
    type GroupScales;
    /// `true` if the integers are never negative.
    const IS_UNSIGNED: bool = false;

    /// Returns the integers of `block`, the same as [`quants`](BlockFormat::quants).
    fn unpack(simd: V3, block: &Self::Block) -> Self::Quants;

    /// Returns the scales and the minimums of `block`, the same as
    /// [`factors`](BlockFormat::factors).
    fn group_scales(simd: V3, block: &Self::Block) -> Self::GroupScales;

    /// Returns the scales of the group `group`: that of its first half in the lower half of the
    /// vector, and that of its second half in the upper half.
    fn lane_scales(simd: V3, scales: &Self::GroupScales, group: usize) -> __m256;

    /// Returns the minimum of each of the eight groups. `None` if the format has no minimums.
    fn mins(_scales: &Self::GroupScales) -> Option<__m256> {
        None
    }
}

/// Multiplies the rows in `blocks`, each with `row_blocks` blocks, with each of `tokens`. Writes
/// the products of the first row with each token to `output`, then those of the second row.
#[inline(always)]
pub(super) fn multiply_rows<F: Avx2Format>(
    simd: V3,
    blocks: &[F::Block],
    row_blocks: usize,
    tokens: &[Activations],
    order: RowOrder,
    output: &mut [f32],
) {
    // The sums of all products stay in registers. With several partial sums of a product, an
    // addition does not wait for the one before it.
    match (order, tokens.len()) {
        (RowOrder::Sequential, 1) => multiply_parts::<F, 1, 1, 4>(simd, blocks, row_blocks, tokens, output),
        (RowOrder::Sequential, 2) => multiply_parts::<F, 1, 2, 2>(simd, blocks, row_blocks, tokens, output),
        (RowOrder::Sequential, _) => multiply_parts::<F, 1, 4, 2>(simd, blocks, row_blocks, tokens, output),
        (RowOrder::Interleaved, 1) => multiply_parts::<F, 4, 1, 1>(simd, blocks, row_blocks, tokens, output),
        (RowOrder::Interleaved, 2) => multiply_parts::<F, 4, 2, 1>(simd, blocks, row_blocks, tokens, output),
        (RowOrder::Interleaved, _) => multiply_parts::<F, 2, 4, 1>(simd, blocks, row_blocks, tokens, output),
    }
}

/// Splits the rows into `ROWS` parts, and multiplies a row of each part with `TOKENS` tokens at a
/// time. A product has `SUMS` partial sums.
#[inline(always)]
fn multiply_parts<F: Avx2Format, const ROWS: usize, const TOKENS: usize, const SUMS: usize>(
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
            let products = multiply::<F, ROWS, TOKENS, SUMS>(simd, rows, group);
            for (row, products) in indices.iter().zip(products) {
                let products = products.into_iter().take(tokens.len() - first);
                products.enumerate().for_each(|(number, product)| store(*row, first + number, product));
            }
        }
    }
    for index in part * ROWS..rows {
        for (number, token) in tokens.iter().enumerate() {
            let [[product]] = multiply::<F, 1, 1, SUMS>(simd, [row(index)], [Some(token)]);
            store(index, number, product);
        }
    }
}

/// Multiplies each of `rows` with each of `tokens`.
#[inline(always)]
fn multiply<F: Avx2Format, const ROWS: usize, const TOKENS: usize, const SUMS: usize>(
    simd: V3,
    rows: [&[F::Block]; ROWS],
    tokens: [Option<&Activations>; TOKENS],
) -> [[f32; TOKENS]; ROWS] {
    let mut sums = [[[simd.avx._mm256_setzero_ps(); SUMS]; TOKENS]; ROWS];
    let mut tokens = tokens.map(|token| BlockActivations::of_blocks::<F>(token));
    let blocks = rows.first().map_or(0, |row| row.len());
    // A block with one group adds to one partial sum, so several blocks follow each other.
    let step = if F::GROUPS == 1 { SUMS } else { 1 };
    let whole = blocks / step * step;
    for first in (0..whole).step_by(step) {
        for offset in 0..step {
            let tokens = tokens.each_mut().map(|blocks| blocks.next().unwrap_or_default());
            for (row, sums) in rows.iter().zip(&mut sums) {
                let Some(block) = row.get(first + offset) else { continue };
                add_products::<F, TOKENS, SUMS>(simd, block, &tokens, offset, sums);
            }
        }
    }
    for index in whole..blocks {
        let tokens = tokens.each_mut().map(|blocks| blocks.next().unwrap_or_default());
        for (row, sums) in rows.iter().zip(&mut sums) {
            let Some(block) = row.get(index) else { continue };
            add_products::<F, TOKENS, SUMS>(simd, block, &tokens, 0, sums);
        }
    }
    sums.map(|sums| sums.map(|sums| horizontal_sum(simd, sums)))
}

/// The activations of a token for the groups of one block.
#[derive(Clone, Copy, Default)]
struct BlockActivations<'a> {
    quants: &'a [[i8; GROUP]],
    scales: &'a [f32],
    sums: &'a [f32],
}

impl<'a> BlockActivations<'a> {
    /// Returns the activations of `token` for each block of a row.
    #[inline(always)]
    fn of_blocks<F: BlockFormat>(token: Option<&'a Activations>) -> impl Iterator<Item = Self> {
        let (quants, scales, sums) = token.map_or((&[][..], &[][..], &[][..]), |token| {
            (token.quants.as_slice(), token.scales.as_slice(), token.sums.as_slice())
        });
        let factors = scales.chunks_exact(F::GROUPS).zip(sums.chunks_exact(F::GROUPS));
        let blocks = quants.chunks_exact(F::GROUPS).zip(factors);
        blocks.map(|(quants, (scales, sums))| Self { quants, scales, sums })
    }
}

/// Adds the products of `block` and the activations of each of `tokens` to `sums`, the partial sums
/// of each token. The product of the first group is added to the partial sum `first`.
#[inline(always)]
fn add_products<F: Avx2Format, const TOKENS: usize, const SUMS: usize>(
    simd: V3,
    block: &F::Block,
    tokens: &[BlockActivations<'_>; TOKENS],
    first: usize,
    sums: &mut [[__m256; SUMS]; TOKENS],
) {
    let quants = F::unpack(simd, block);
    let scales = F::group_scales(simd, block);
    for (token, sums) in tokens.iter().zip(sums) {
        let activations = token.quants.iter().zip(token.scales);
        for (group, (quants, (activations, scale))) in quants.as_ref().iter().zip(activations).enumerate() {
            let products = multiply_group::<F>(simd, *quants, activations);
            let scale =
                simd.avx._mm256_mul_ps(F::lane_scales(simd, &scales, group), simd.avx._mm256_set1_ps(*scale));
            let sum = &mut sums[(first + group) % SUMS];
            *sum = simd.fma._mm256_fmadd_ps(scale, simd.avx._mm256_cvtepi32_ps(products), *sum);
        }
        if let (Some(mins), Some(token_sums)) = (F::mins(&scales), token.sums.first_chunk::<8>()) {
            let sum = &mut sums[first % SUMS];
            *sum = simd.fma._mm256_fnmadd_ps(mins, cast(*token_sums), *sum);
        }
    }
}

/// Returns the sum of the lanes of all `sums`.
#[inline(always)]
fn horizontal_sum<const SUMS: usize>(simd: V3, sums: [__m256; SUMS]) -> f32 {
    let zero = simd.avx._mm256_setzero_ps();
    let sum = sums.into_iter().fold(zero, |sum, other| simd.avx._mm256_add_ps(sum, other));
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
        let quants = F::unpack(simd, block);
        let groups = quants.as_ref().iter().zip(groups.by_ref());
        for (index, (quants, output)) in groups.enumerate() {
            let quants = *quants;
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
fn multiply_group<F: Avx2Format>(simd: V3, quants: __m256i, activations: &[i8; GROUP]) -> __m256i {
    // The instruction multiplies unsigned with signed bytes, so the sign of the weight is moved to
    // the activation. No sum exceeds 16 bits, because the activations are at least -127.
    let activations = cast(*activations);
    let (magnitudes, activations) = match F::IS_UNSIGNED {
        true => (quants, activations),
        false => (simd.avx2._mm256_abs_epi8(quants), simd.avx2._mm256_sign_epi8(activations, quants)),
    };
    let pairs = simd.avx2._mm256_maddubs_epi16(magnitudes, activations);
    simd.avx2._mm256_madd_epi16(pairs, simd.avx._mm256_set1_epi16(1))
}

/// The parts of [`Avx2Format`] for a format with one group and one scale in a block.
macro_rules! one_group {
    () => {
        type Quants = [__m256i; 1];
        type GroupScales = f32;

        #[inline(always)]
        fn group_scales(_: V3, block: &Self::Block) -> f32 {
            Self::scales(block).scale
        }

        #[inline(always)]
        fn lane_scales(simd: V3, scale: &f32, _: usize) -> __m256 {
            simd.avx._mm256_set1_ps(*scale)
        }
    };
}

impl Avx2Format for Q4_0 {
    one_group!();

    #[inline(always)]
    fn unpack(simd: V3, [_, _, nibbles @ ..]: &Self::Block) -> [__m256i; 1] {
        [simd.avx2._mm256_sub_epi8(split_nibbles(simd, cast(*nibbles)), simd.avx._mm256_set1_epi8(8))]
    }
}

impl Avx2Format for Q5_0 {
    one_group!();

    #[inline(always)]
    fn unpack(simd: V3, [_, _, b0, b1, b2, b3, nibbles @ ..]: &Self::Block) -> [__m256i; 1] {
        let (avx, avx2) = (simd.avx, simd.avx2);
        // Byte `i` of the result gets byte `i / 8` of the bits, and then a test of bit `i % 8`.
        let bits = avx._mm256_set1_epi32(i32::from_le_bytes([*b0, *b1, *b2, *b3]));
        let sources = avx._mm256_setr_epi64x(0, EACH_BYTE, 2 * EACH_BYTE, 3 * EACH_BYTE);
        let bits = avx2._mm256_shuffle_epi8(bits, sources);
        let others = avx2._mm256_or_si256(bits, avx._mm256_set1_epi64x(!0x8040_2010_0804_0201_u64 as i64));
        let is_set = avx2._mm256_cmpeq_epi8(others, avx._mm256_set1_epi8(-1));
        // A quant with the fifth bit is the nibble, and a quant without it is the nibble minus 16.
        let minus_16 = avx2._mm256_andnot_si256(is_set, avx._mm256_set1_epi8(-16));
        [avx2._mm256_or_si256(split_nibbles(simd, cast(*nibbles)), minus_16)]
    }
}

/// A factor that copies a byte to all bytes of a 64-bit integer.
const EACH_BYTE: i64 = 0x0101_0101_0101_0101;

impl Avx2Format for Q8_0 {
    one_group!();

    #[inline(always)]
    fn unpack(_: V3, [_, _, quants @ ..]: &Self::Block) -> [__m256i; 1] {
        [cast(*quants)]
    }
}

/// The scales and minimums of the eight groups of a `Q4_K` or `Q5_K` block.
#[derive(Clone, Copy)]
pub(super) struct KScales {
    scales: [f32; K_GROUPS],
    mins: __m256,
}

impl KScales {
    #[inline(always)]
    fn new(simd: V3, block: &[u8], of_block: BlockScales) -> Self {
        let (scales, mins) = k_integers(block);
        let floats = |integers: u64, factor: f32| {
            let bytes = simd.sse2._mm_set_epi64x(0, integers as i64);
            let integers = simd.avx._mm256_cvtepi32_ps(simd.avx2._mm256_cvtepu8_epi32(bytes));
            simd.avx._mm256_mul_ps(integers, simd.avx._mm256_set1_ps(factor))
        };
        Self { scales: cast(floats(scales, of_block.scale)), mins: floats(mins, of_block.min) }
    }
}

/// The parts of [`Avx2Format`] for `Q4_K` and `Q5_K`.
macro_rules! k_groups {
    () => {
        type Quants = [__m256i; K_GROUPS];
        type GroupScales = KScales;
        const IS_UNSIGNED: bool = true;

        #[inline(always)]
        fn group_scales(simd: V3, block: &Self::Block) -> KScales {
            KScales::new(simd, block, Self::scales(block))
        }

        #[inline(always)]
        fn lane_scales(simd: V3, scales: &KScales, group: usize) -> __m256 {
            simd.avx._mm256_set1_ps(scales.scales[group])
        }

        #[inline(always)]
        fn mins(scales: &KScales) -> Option<__m256> {
            Some(scales.mins)
        }
    };
}

impl Avx2Format for Q4K {
    k_groups!();

    #[inline(always)]
    fn unpack(simd: V3, block: &Self::Block) -> [__m256i; K_GROUPS] {
        let [a, b, c, d] = [0, 2, 4, 6].map(
            #[inline(always)]
            |group| nibble_pair(simd, cast(Self::nibbles(block, group))),
        );
        [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
    }
}

impl Avx2Format for Q5K {
    k_groups!();

    #[inline(always)]
    fn unpack(simd: V3, block: &Self::Block) -> [__m256i; K_GROUPS] {
        array::from_fn(
            #[inline(always)]
            |group| {
                let (nibbles, bits) = Self::nibbles_and_bits(block, group);
                let nibbles = nibble_pair(simd, cast(nibbles))[group % 2];
                let bits = low_bits::<0x01>(simd, cast(bits), group as u32);
                simd.avx2._mm256_or_si256(nibbles, simd.avx2._mm256_slli_epi16::<4>(bits))
            },
        )
    }
}

impl Avx2Format for Q6K {
    type Quants = [__m256i; K_GROUPS];
    type GroupScales = [[f32; 2]; K_GROUPS];

    #[inline(always)]
    fn unpack(simd: V3, block: &Self::Block) -> [__m256i; K_GROUPS] {
        array::from_fn(
            #[inline(always)]
            |group| {
                let (nibbles, bits) = Self::nibbles_and_bits(block, group);
                let (shift, bit_shift) = Self::shifts(group);
                let nibbles = nibble_pair(simd, cast(nibbles))[shift as usize / 4];
                let bits = low_bits::<0x03>(simd, cast(bits), bit_shift);
                let quants = simd.avx2._mm256_or_si256(nibbles, simd.avx2._mm256_slli_epi16::<4>(bits));
                simd.avx2._mm256_sub_epi8(quants, simd.avx._mm256_set1_epi8(32))
            },
        )
    }

    #[inline(always)]
    fn group_scales(simd: V3, block: &Self::Block) -> [[f32; 2]; K_GROUPS] {
        let factor = simd.avx._mm256_set1_ps(Self::scales(block).scale);
        let integers: __m128i = cast(part::<16>(block, Self::SCALES));
        let halves = [integers, simd.sse2._mm_srli_si128::<8>(integers)].map(
            #[inline(always)]
            |half| {
                let floats = simd.avx._mm256_cvtepi32_ps(simd.avx2._mm256_cvtepi8_epi32(half));
                simd.avx._mm256_mul_ps(floats, factor)
            },
        );
        cast(halves)
    }

    #[inline(always)]
    fn lane_scales(simd: V3, scales: &[[f32; 2]; K_GROUPS], group: usize) -> __m256 {
        let [low, high] = scales[group];
        simd.avx._mm256_setr_m128(simd.sse._mm_set1_ps(low), simd.sse._mm_set1_ps(high))
    }
}

/// Returns the low nibbles of `bytes`, followed by the high nibbles.
#[inline(always)]
fn split_nibbles(simd: V3, bytes: __m128i) -> __m256i {
    let high = simd.sse2._mm_srli_epi16::<4>(bytes);
    let both = simd.avx2._mm256_inserti128_si256::<1>(simd.avx._mm256_castsi128_si256(bytes), high);
    simd.avx2._mm256_and_si256(both, simd.avx._mm256_set1_epi8(0x0F))
}

/// Returns the low and the high nibbles of `bytes`.
#[inline(always)]
fn nibble_pair(simd: V3, bytes: __m256i) -> [__m256i; 2] {
    [low_bits::<0x0F>(simd, bytes, 0), low_bits::<0x0F>(simd, bytes, 4)]
}

/// Shifts each byte to the right by `shift` bits and applies `MASK`. The mask removes the bits of
/// the adjacent byte, because there is no shift of bytes.
#[inline(always)]
fn low_bits<const MASK: i8>(simd: V3, bytes: __m256i, shift: u32) -> __m256i {
    let shifted = simd.avx2._mm256_srl_epi16(bytes, simd.sse2._mm_cvtsi32_si128(shift as i32));
    simd.avx2._mm256_and_si256(shifted, simd.avx._mm256_set1_epi8(MASK))
}
