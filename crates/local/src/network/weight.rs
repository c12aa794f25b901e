//! Weight matrices and norms.

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Module, Result, Tensor};

use crate::LoadError;
use crate::gguf::Gguf;

/// A quantized matrix that supports multiplication and row lookup.
#[derive(Clone)]
pub(super) struct QuantizedWeight {
    tensor: Arc<QTensor>,
    product: QMatMul,
}

impl QuantizedWeight {
    pub(super) fn read(gguf: &mut Gguf, name: &str) -> std::result::Result<Self, LoadError> {
        let tensor = gguf.read_quantized(name)?;
        let tensor = widen_five_bit_blocks(tensor).map_err(|error| gguf.invalid_entry(name, &error))?;
        Self::new(tensor).map_err(|error| gguf.invalid_entry(name, &error))
    }

    /// Reads a matrix that is used for row lookup only. It keeps the form of the file, which needs
    /// less memory and less time to load.
    pub(super) fn read_for_lookup(gguf: &mut Gguf, name: &str) -> std::result::Result<Self, LoadError> {
        let tensor = gguf.read_quantized(name)?;
        Self::new(tensor).map_err(|error| gguf.invalid_entry(name, &error))
    }

    /// Reads the matrix `name`, whose rows are several matrices below each other. `rows` contains
    /// the number of rows of each.
    pub(super) fn read_parts<const N: usize>(
        gguf: &mut Gguf,
        name: &str,
        rows: [usize; N],
    ) -> std::result::Result<[Self; N], LoadError> {
        let tensor = gguf.read_quantized(name)?;
        let parts = split_rows(&tensor, &rows).and_then(|parts| {
            let parts: Vec<_> = parts.into_iter().map(Self::new).collect::<Result<_>>()?;
            parts.try_into().map_err(|_| candle_core::Error::msg("the number of parts differs"))
        });
        parts.map_err(|error| gguf.invalid_entry(name, &error))
    }

    fn new(tensor: QTensor) -> Result<Self> {
        let tensor = Arc::new(tensor);
        let product = QMatMul::from_arc(tensor.clone())?;
        Ok(Self { tensor, product })
    }

    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.product.forward(input)
    }

    /// Returns the rows of the matrix for the tokens in `ids`.
    pub(super) fn embed(&self, ids: &Tensor) -> Result<Tensor> {
        self.tensor.embedding(ids)
    }
}

/// A root-mean-square norm over the last dimension of a tensor.
pub(super) struct RmsNorm {
    weight: Tensor,
    epsilon: f32,
}

impl RmsNorm {
    pub(super) fn read(gguf: &mut Gguf, name: &str, epsilon: f32) -> std::result::Result<Self, LoadError> {
        Ok(Self { weight: gguf.read_dense(name)?, epsilon })
    }

    /// Reads the norm `name`. Returns `None` if the file does not contain it.
    pub(super) fn read_optional(
        gguf: &mut Gguf,
        name: &str,
        epsilon: f32,
    ) -> std::result::Result<Option<Self>, LoadError> {
        gguf.has_tensor(name).then(|| Self::read(gguf, name, epsilon)).transpose()
    }

    /// Applies `norm` to `input`. Returns `input` unchanged if `norm` is `None`.
    pub(super) fn forward_optional(norm: Option<&Self>, input: Tensor) -> Result<Tensor> {
        norm.map_or(Ok(input.clone()), |norm| norm.forward(&input))
    }

    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        candle_nn::ops::rms_norm(input, &self.weight, self.epsilon)
    }
}

/// Splits the matrix `tensor` into matrices with the numbers of rows in `rows`. Rows consist of
/// whole blocks, so the quantized numbers are unchanged.
fn split_rows(tensor: &QTensor, rows: &[usize]) -> Result<Vec<QTensor>> {
    let (all, columns) = tensor.shape().dims2()?;
    if rows.iter().sum::<usize>() != all {
        candle_core::bail!("it has {all} rows, and its parts have {rows:?}");
    }
    let data = tensor.data()?;
    let row_bytes = data.len() / all.max(1);
    let mut rest = data.as_ref();
    let part = |rows: &usize| {
        let (part, behind) = rest.split_at_checked(rows * row_bytes).unwrap_or_default();
        rest = behind;
        let storage = QStorage::from_data(Cow::Borrowed(part), &Device::Cpu, tensor.dtype())?;
        QTensor::new(storage, (*rows, columns))
    };
    rows.iter().map(part).collect()
}

/// Converts a tensor of five-bit blocks (`Q5_0`) to eight-bit blocks (`Q8_0`) with the same scale,
/// without loss. Other tensors are returned unchanged.
///
/// Eight-bit blocks need 1.5 times the memory, but are several times as fast, because there is no
/// vector kernel for five-bit blocks.
fn widen_five_bit_blocks(tensor: QTensor) -> Result<QTensor> {
    if tensor.dtype() != GgmlDType::Q5_0 {
        return Ok(tensor);
    }
    let mut wide = Vec::with_capacity(tensor.storage_size_in_bytes() / Q5_0_BLOCK_BYTES * Q8_0_BLOCK_BYTES);
    for block in tensor.data()?.as_chunks::<Q5_0_BLOCK_BYTES>().0 {
        let [scale_low, scale_high, h0, h1, h2, h3, low @ ..] = block;
        let high = u32::from_le_bytes([*h0, *h1, *h2, *h3]);
        let value = |nibble: u8, bit: usize| (nibble | (((high >> bit) & 1) as u8) << 4).wrapping_sub(16);
        wide.extend([*scale_low, *scale_high]);
        wide.extend(low.iter().enumerate().map(|(index, byte)| value(byte & 0x0F, index)));
        wide.extend(low.iter().enumerate().map(|(index, byte)| value(byte >> 4, index + 16)));
    }
    let storage = QStorage::from_data(Cow::Owned(wide), &Device::Cpu, GgmlDType::Q8_0)?;
    QTensor::new(storage, tensor.shape())
}

/// The size of a `Q5_0` block in bytes: a half-precision scale, 32 high bits and 32 nibbles.
const Q5_0_BLOCK_BYTES: usize = 22;
/// The size of a `Q8_0` block in bytes: a half-precision scale and 32 signed bytes.
const Q8_0_BLOCK_BYTES: usize = 34;
