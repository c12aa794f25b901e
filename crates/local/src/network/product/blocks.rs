//! The block formats of GGUF files, as groups of 32 small integers with factors.
//!
//! Source of the layouts: ggml, `src/ggml-common.h` (structures) and `src/ggml-quants.c`
//! (`dequantize_row_…`).

/// The number of weights in a group.
pub(super) const GROUP: usize = 32;
/// The number of groups in a block of the K formats.
pub(super) const K_GROUPS: usize = 8;

/// The factors of a group of weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Factors {
    /// The scales of the first and the second half of the group. A weight is `scale * quant - min`.
    pub(super) scales: [f32; 2],
    pub(super) min: f32,
}

/// The scales of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BlockScales {
    /// The scale of the block, or of the scales of its groups.
    pub(super) scale: f32,
    /// The scale of the minimums of the groups. 0 if the format has no minimums.
    pub(super) min: f32,
}

/// A block format of quantized weights.
pub(super) trait BlockFormat {
    /// The bytes of a block.
    type Block: Copy + Sync;
    /// The number of groups in a block.
    const GROUPS: usize;

    /// Returns the blocks of `bytes`.
    fn blocks(bytes: &[u8]) -> &[Self::Block];

    /// Returns the scales of `block`, from which [`factors`](Self::factors) computes the factors of
    /// its groups.
    fn scales(block: &Self::Block) -> BlockScales;

    /// Returns the factors of the group `group` of `block`. `scales` are the scales of `block`. By
    /// default, all groups have the scale of the block.
    #[inline(always)]
    fn factors(_block: &Self::Block, scales: BlockScales, _group: usize) -> Factors {
        Factors { scales: [scales.scale; 2], min: 0.0 }
    }

    /// Returns the integers of the group `group` of `block`.
    fn quants(block: &Self::Block, group: usize) -> [i8; GROUP];
}

/// Four-bit integers with a scale.
pub(super) struct Q4_0;
/// Five-bit integers with a scale. The fifth bits are apart from the others.
pub(super) struct Q5_0;
/// Eight-bit integers with a scale.
pub(super) struct Q8_0;
/// Four-bit integers with a scale and a minimum, which are six-bit integers themselves.
pub(super) struct Q4K;
/// Five-bit integers with a scale and a minimum, which are six-bit integers themselves.
pub(super) struct Q5K;
/// Six-bit integers with a scale for each 16 weights, which is an eight-bit integer itself.
pub(super) struct Q6K;

impl BlockFormat for Q4_0 {
    type Block = [u8; 18];
    const GROUPS: usize = 1;

    fn blocks(bytes: &[u8]) -> &[Self::Block] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn scales([low, high, ..]: &Self::Block) -> BlockScales {
        BlockScales { scale: half([*low, *high]), min: 0.0 }
    }

    fn quants([_, _, nibbles @ ..]: &Self::Block, _: usize) -> [i8; GROUP] {
        split_nibbles(nibbles).map(|nibble| nibble as i8 - 8)
    }
}

impl BlockFormat for Q5_0 {
    type Block = [u8; 22];
    const GROUPS: usize = 1;

    fn blocks(bytes: &[u8]) -> &[Self::Block] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn scales([low, high, ..]: &Self::Block) -> BlockScales {
        BlockScales { scale: half([*low, *high]), min: 0.0 }
    }

    fn quants([_, _, b0, b1, b2, b3, nibbles @ ..]: &Self::Block, _: usize) -> [i8; GROUP] {
        let mut bits = u32::from_le_bytes([*b0, *b1, *b2, *b3]);
        split_nibbles(nibbles).map(|nibble| {
            let quant = (nibble | ((bits & 1) << 4) as u8) as i8 - 16;
            bits >>= 1;
            quant
        })
    }
}

impl BlockFormat for Q8_0 {
    type Block = [u8; 34];
    const GROUPS: usize = 1;

    fn blocks(bytes: &[u8]) -> &[Self::Block] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn scales([low, high, ..]: &Self::Block) -> BlockScales {
        BlockScales { scale: half([*low, *high]), min: 0.0 }
    }

    fn quants([_, _, quants @ ..]: &Self::Block, _: usize) -> [i8; GROUP] {
        quants.map(|byte| byte as i8)
    }
}

impl BlockFormat for Q4K {
    type Block = [u8; 144];
    const GROUPS: usize = K_GROUPS;

    fn blocks(bytes: &[u8]) -> &[Self::Block] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn scales([s0, s1, m0, m1, ..]: &Self::Block) -> BlockScales {
        BlockScales { scale: half([*s0, *s1]), min: half([*m0, *m1]) }
    }

    #[inline(always)]
    fn factors(block: &Self::Block, scales: BlockScales, group: usize) -> Factors {
        k_factors(block, scales, group)
    }

    fn quants(block: &Self::Block, group: usize) -> [i8; GROUP] {
        let shift = 4 * (group % 2);
        Self::nibbles(block, group).map(|byte| ((byte >> shift) & 0x0F) as i8)
    }
}

impl Q4K {
    /// Returns the bytes with the integers of the group `group`. Two groups share the bytes: the
    /// first has the low nibbles.
    #[inline(always)]
    pub(super) fn nibbles(block: &[u8; 144], group: usize) -> [u8; GROUP] {
        part(block, 16 + group / 2 * GROUP)
    }
}

impl BlockFormat for Q5K {
    type Block = [u8; 176];
    const GROUPS: usize = K_GROUPS;

    fn blocks(bytes: &[u8]) -> &[Self::Block] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn scales([s0, s1, m0, m1, ..]: &Self::Block) -> BlockScales {
        BlockScales { scale: half([*s0, *s1]), min: half([*m0, *m1]) }
    }

    #[inline(always)]
    fn factors(block: &Self::Block, scales: BlockScales, group: usize) -> Factors {
        k_factors(block, scales, group)
    }

    fn quants(block: &Self::Block, group: usize) -> [i8; GROUP] {
        let (nibbles, bits) = Self::nibbles_and_bits(block, group);
        let shift = 4 * (group % 2);
        let mut quants = [0; GROUP];
        for (quant, (byte, bits)) in quants.iter_mut().zip(nibbles.into_iter().zip(bits)) {
            *quant = (((byte >> shift) & 0x0F) | (((bits >> group) & 1) << 4)) as i8;
        }
        quants
    }
}

impl Q5K {
    /// Returns the bytes with the low bits of the group `group`, as in [`Q4K::nibbles`], and the
    /// bytes with the fifth bits. The bit `group` belongs to this group.
    #[inline(always)]
    pub(super) fn nibbles_and_bits(block: &[u8; 176], group: usize) -> ([u8; GROUP], [u8; GROUP]) {
        (part(block, 48 + group / 2 * GROUP), part(block, 16))
    }
}

impl BlockFormat for Q6K {
    type Block = [u8; 210];
    const GROUPS: usize = K_GROUPS;

    fn blocks(bytes: &[u8]) -> &[Self::Block] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn scales(block: &Self::Block) -> BlockScales {
        BlockScales { scale: half(part(block, 208)), min: 0.0 }
    }

    #[inline(always)]
    fn factors(block: &Self::Block, scales: BlockScales, group: usize) -> Factors {
        let scales = part(block, Self::SCALES + 2 * group).map(|byte| scales.scale * f32::from(byte as i8));
        Factors { scales, min: 0.0 }
    }

    fn quants(block: &Self::Block, group: usize) -> [i8; GROUP] {
        let (nibbles, bits) = Self::nibbles_and_bits(block, group);
        let (shift, bit_shift) = Self::shifts(group);
        let mut quants = [0; GROUP];
        for (quant, (byte, bits)) in quants.iter_mut().zip(nibbles.into_iter().zip(bits)) {
            *quant = (((byte >> shift) & 0x0F) | (((bits >> bit_shift) & 3) << 4)) as i8 - 32;
        }
        quants
    }
}

impl Q6K {
    /// The position of the scales of the half groups in a block.
    pub(super) const SCALES: usize = 192;

    /// Returns the bytes with the low four bits of the group `group`, and the bytes with the high
    /// two bits. Several groups share the bytes, see [`shifts`](Self::shifts).
    #[inline(always)]
    pub(super) fn nibbles_and_bits(block: &[u8; 210], group: usize) -> ([u8; GROUP], [u8; GROUP]) {
        let half = group / 4;
        (part(block, half * 64 + group % 2 * GROUP), part(block, 128 + half * GROUP))
    }

    /// Returns the positions of the bits of the group `group` in the bytes of
    /// [`nibbles_and_bits`](Self::nibbles_and_bits).
    #[inline(always)]
    pub(super) fn shifts(group: usize) -> (u32, u32) {
        let quarter = group as u32 % 4;
        (quarter / 2 * 4, quarter * 2)
    }
}

/// Returns the integers of the scales and of the minimums of the groups of a `Q4_K` or `Q5_K`
/// block, with a byte for each group, the first in the lowest byte. The block has them as 12 bytes
/// of six-bit integers after its two scales.
#[inline(always)]
pub(super) fn k_integers(block: &[u8]) -> (u64, u64) {
    let [a, b, c] = [4, 8, 12].map(
        #[inline(always)]
        |start| u32::from_le_bytes(part(block, start)),
    );
    let pair = |low: u32, high: u32| u64::from(low) | (u64::from(high) << 32);
    let high_bits = |bytes: u32| (bytes >> 2) & 0x3030_3030;
    let scales = pair(a & 0x3F3F_3F3F, (c & 0x0F0F_0F0F) | high_bits(a));
    let mins = pair(b & 0x3F3F_3F3F, ((c >> 4) & 0x0F0F_0F0F) | high_bits(b));
    (scales, mins)
}

/// Returns the factors of a group in the formats `Q4_K` and `Q5_K`.
#[inline(always)]
fn k_factors(block: &[u8], scales: BlockScales, group: usize) -> Factors {
    let (group_scales, mins) = k_integers(block);
    let of_group = |integers: u64| f32::from((integers >> (8 * group)) as u8);
    Factors { scales: [scales.scale * of_group(group_scales); 2], min: scales.min * of_group(mins) }
}

/// Returns the `N` bytes of `block` from `start` on.
#[inline(always)]
pub(super) fn part<const N: usize>(block: &[u8], start: usize) -> [u8; N] {
    block.get(start..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Returns the low nibbles of `bytes`, followed by the high nibbles.
fn split_nibbles(bytes: &[u8; GROUP / 2]) -> [u8; GROUP] {
    let mut nibbles = [0; GROUP];
    for (index, nibble) in nibbles.iter_mut().enumerate() {
        let byte = bytes.get(index % bytes.len()).copied().unwrap_or_default();
        *nibble = if index < bytes.len() { byte & 0x0F } else { byte >> 4 };
    }
    nibbles
}

/// Converts a half-precision number in little-endian order, which is neither infinite nor NaN.
///
/// The conversion of the crate `half` detects the features of the processor in each call, which
/// takes longer than the product of a group.
#[inline(always)]
fn half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let magnitude = bits & 0x7FFF;
    let float = match bits & 0x7C00 {
        // A subnormal half is a multiple of 2^-24. The sum with 0.5 avoids subnormal floats, which
        // take a hundred times as long.
        0 => f32::from_bits(0.5_f32.to_bits() | magnitude) - 0.5,
        // The exponent of a half is biased by 15, and that of a float by 127.
        _ => f32::from_bits((magnitude << 13) + ((127 - 15) << 23)),
    };
    f32::from_bits(float.to_bits() | ((bits & 0x8000) << 16))
}
