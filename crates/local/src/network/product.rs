//! Products of quantized matrices and activations on the processor.
//!
//! The weights keep the block format of the file, and activations are quantized to 8 bits. For a
//! few tokens, a row is unpacked in registers and multiplied with each of them. For many tokens,
//! both are converted to floats, a few rows at a time, since the conversion is then a small part of
//! the work.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod blocks;
mod packed;
mod rows;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use self::blocks::{Q4_0, Q4K, Q5_0, Q5K, Q6K, Q8_0};
use self::rows::{RowKernels, RowOrder};
use super::elementwise::elements;

/// The minimum number of tokens for which a matrix is converted to floats.
const MIN_FLOAT_TOKENS: usize = 17;

/// A quantized matrix in a block format for which this module has kernels.
#[derive(Clone)]
pub(super) struct BlockMatrix {
    tensor: Arc<QTensor>,
    kernels: &'static dyn RowKernels,
    rows: usize,
    columns: usize,
}

impl BlockMatrix {
    /// Returns `None` if `tensor` is empty or not a matrix, if its block format has no kernels, or
    /// if it is not in the memory of the processor. Also returns `None` on ARM, where the tensor
    /// library has kernels for all formats.
    pub(super) fn new(tensor: Arc<QTensor>) -> Option<Self> {
        if cfg!(target_arch = "aarch64") {
            return None;
        }
        let (rows, columns) = tensor.shape().dims2().ok()?;
        let kernels: &dyn RowKernels = match tensor.dtype() {
            GgmlDType::Q4_0 => &Q4_0,
            GgmlDType::Q5_0 => &Q5_0,
            GgmlDType::Q8_0 => &Q8_0,
            GgmlDType::Q4K => &Q4K,
            GgmlDType::Q5K => &Q5K,
            GgmlDType::Q6K => &Q6K,
            _ => return None,
        };
        let is_supported = tensor.device().is_cpu() && rows > 0 && columns > 0;
        is_supported.then_some(Self { tensor, kernels, rows, columns })
    }

    /// Multiplies the matrix with each row of `input`, a matrix with a row for each token. Returns
    /// a matrix with a row of products for each token.
    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.apply_op1_no_bwd(self)
    }
}

impl CustomOp1 for BlockMatrix {
    fn name(&self) -> &'static str {
        "block matrix"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (tokens, columns) = layout.shape().dims2()?;
        let input = elements(storage, layout)?.filter(|_| columns == self.columns);
        let Some(input) = input else {
            bail!("a matrix of {} columns has an input of the shape {:?}", self.columns, layout.shape())
        };
        let bytes = self.tensor.data()?;
        let multiply = |order| self.kernels.multiply(order, &bytes, columns, input);
        let output = match tokens < MIN_FLOAT_TOKENS {
            true => multiply(RowOrder::fastest(bytes.len(), multiply)),
            false => self.kernels.multiply_floats(&bytes, columns, input),
        };
        Ok((CpuStorage::F32(output), Shape::from((tokens, self.rows))))
    }
}
