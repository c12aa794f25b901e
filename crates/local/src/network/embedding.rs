//! The embeddings of tokens.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Result, Tensor, bail};

use super::weight::QuantizedWeight;
use crate::LoadError;
use crate::gguf::{Gguf, TensorLocation};

/// The matrix with the embedding of each token in a row.
pub(super) enum Embedding {
    /// The matrix in memory, which is also the output matrix.
    Weight(QuantizedWeight),
    /// The matrix in the model file.
    File(EmbeddingFile),
}

impl Embedding {
    /// Returns the embeddings of the tokens in `ids`, with a row for each token.
    pub(super) fn embed(&mut self, ids: &[u32]) -> Result<Tensor> {
        match self {
            Self::Weight(weight) => weight.embed(ids),
            Self::File(file) => file.embed(ids),
        }
    }
}

/// A matrix in a model file. Rows are read when they are needed: a forward pass needs at most
/// one for each new token, and the matrix would be a fifth of the memory of a small model.
pub(super) struct EmbeddingFile {
    file: File,
    dtype: GgmlDType,
    /// The position of the first row in the file.
    offset: u64,
    row_bytes: usize,
    rows: usize,
    columns: usize,
    device: Device,
}

impl EmbeddingFile {
    /// Opens the matrix `name` of the model file. Fails if it has fewer rows than `vocabulary`.
    pub(super) fn open(gguf: &Gguf, name: &str, vocabulary: usize) -> std::result::Result<Self, LoadError> {
        let TensorLocation { file, dtype, shape, offset } = gguf.locate(name)?;
        let (rows, columns) = shape.dims2().map_err(|error| gguf.invalid_entry(name, &error))?;
        if rows < vocabulary {
            return Err(gguf.invalid_entry(name, &format!("it has {rows} rows for {vocabulary} tokens")));
        }
        if columns == 0 || !columns.is_multiple_of(dtype.block_size()) {
            return Err(gguf.invalid_entry(name, &format!("rows of {columns} numbers are not whole blocks")));
        }
        let row_bytes = columns / dtype.block_size() * dtype.type_size();
        // The rows are read later, so a truncated file is detected here.
        let end = (rows as u64).checked_mul(row_bytes as u64).and_then(|size| size.checked_add(offset));
        let length = file.metadata().map_err(|error| gguf.invalid_entry(name, &error))?.len();
        if end.is_none_or(|end| end > length) {
            return Err(gguf.invalid_entry(name, &"the file ends before its last row"));
        }
        let device = gguf.device().clone();
        Ok(Self { file, dtype, offset, row_bytes, rows, columns, device })
    }

    fn embed(&mut self, ids: &[u32]) -> Result<Tensor> {
        let mut bytes = vec![0; ids.len() * self.row_bytes];
        for (id, row) in ids.iter().zip(bytes.chunks_exact_mut(self.row_bytes.max(1))) {
            if *id as usize >= self.rows {
                bail!("token {id} is not one of {} tokens", self.rows)
            }
            self.file.seek(SeekFrom::Start(self.offset + u64::from(*id) * self.row_bytes as u64))?;
            self.file.read_exact(row)?;
        }
        let storage = QStorage::from_data(Cow::Owned(bytes), &self.device, self.dtype)?;
        QTensor::new(storage, (ids.len(), self.columns))?.dequantize(&self.device)
    }
}

#[cfg(test)]
mod tests;
