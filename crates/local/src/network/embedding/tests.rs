use std::fs;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file;

use super::*;

const COLUMNS: usize = 64;

/// Writes a file with the matrix `token_embd.weight`, which has ten rows. Returns its path and the
/// numbers of the matrix.
fn write_file(folder: &Path) -> (PathBuf, Vec<Vec<f32>>) {
    let numbers: Vec<f32> = (0..10 * COLUMNS).map(|index| (index as f32 * 0.3).sin()).collect();
    let dense = Tensor::from_vec(numbers, (10, COLUMNS), &Device::Cpu).unwrap();
    let tensor = QTensor::quantize(&dense, GgmlDType::Q5_0).unwrap();
    let path = folder.join("embedding.gguf");
    let mut file = File::create(&path).unwrap();
    gguf_file::write(&mut file, &[], &[("token_embd.weight", &tensor)]).unwrap();
    (path, tensor.dequantize(&Device::Cpu).unwrap().to_vec2().unwrap())
}

fn open(path: &Path) -> std::result::Result<EmbeddingFile, LoadError> {
    EmbeddingFile::open(&Gguf::open(path, Device::Cpu).unwrap(), "token_embd.weight", 10)
}

#[test]
fn rows_are_read_in_the_order_of_the_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let (path, numbers) = write_file(folder.path());
    let mut embedding = Embedding::File(open(&path).unwrap());
    let rows: Vec<Vec<f32>> = embedding.embed(&[9, 0, 9, 4]).unwrap().to_vec2().unwrap();
    assert_eq!(rows, [9, 0, 9, 4].map(|token: usize| numbers[token].clone()));
    let error = embedding.embed(&[10]).unwrap_err().to_string();
    assert!(error.starts_with("token 10 is not one of 10 tokens"), "{error}");
}

/// The rows are not read while the model is loaded, so only the length of the file shows the fault.
#[test]
fn truncated_matrix_is_detected_when_the_file_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write_file(folder.path());
    let size = COLUMNS / 32 * 22 * 10;
    let whole = fs::read(&path).unwrap();
    let start = Gguf::open(&path, Device::Cpu).unwrap().locate("token_embd.weight").unwrap().offset as usize;
    fs::write(&path, &whole[..start + size - 1]).unwrap();
    let error = open(&path).err().unwrap();
    assert!(matches!(error, LoadError::Damaged { .. }), "{error}");
    fs::write(&path, &whole[..start + size]).unwrap();
    assert!(open(&path).is_ok());
}
