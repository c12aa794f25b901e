//! Weight matrices and norms.

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::quantized::{QMatMul, QStorage, QTensor};
use candle_core::{Module, Result, Tensor};

use super::product::BlockMatrix;
use crate::LoadError;
use crate::gguf::Gguf;

/// A quantized matrix that supports multiplication and row lookup.
#[derive(Clone)]
pub(super) struct QuantizedWeight {
    tensor: Arc<QTensor>,
    product: Product,
}

#[derive(Clone)]
enum Product {
    Blocks(BlockMatrix),
    /// The product of the tensor library, for other block formats and other devices.
    Library(QMatMul),
}

impl QuantizedWeight {
    pub(super) fn read(gguf: &mut Gguf, name: &str) -> std::result::Result<Self, LoadError> {
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
        let product = match BlockMatrix::new(tensor.clone()) {
            Some(matrix) => Product::Blocks(matrix),
            None => Product::Library(QMatMul::from_arc(tensor.clone())?),
        };
        Ok(Self { tensor, product })
    }

    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        match &self.product {
            Product::Blocks(matrix) => matrix.forward(input),
            Product::Library(product) => product.forward(input),
        }
    }

    /// Returns the rows of the matrix for the tokens in `ids`.
    pub(super) fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        self.tensor.embedding(&Tensor::new(ids, &self.tensor.device())?)
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
        let storage = QStorage::from_data(Cow::Borrowed(part), &tensor.device(), tensor.dtype())?;
        QTensor::new(storage, (*rows, columns))
    };
    rows.iter().map(part).collect()
}
