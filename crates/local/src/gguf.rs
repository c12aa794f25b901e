//! Access to the metadata and tensors of a GGUF file, with typed errors.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Shape, Tensor};

use crate::LoadError;

/// An open GGUF file.
pub(crate) struct Gguf {
    path: PathBuf,
    reader: BufReader<File>,
    content: Content,
    device: Device,
}

/// The location of a tensor in a GGUF file.
pub(crate) struct TensorLocation {
    pub(crate) file: File,
    pub(crate) dtype: GgmlDType,
    pub(crate) shape: Shape,
    /// The position of the first byte in the file.
    pub(crate) offset: u64,
}

impl Gguf {
    /// Opens the file at `path` and reads its header with the metadata and the list of tensors. The
    /// tensors themselves are read later, into the memory of `device`.
    pub(crate) fn open(path: &Path, device: Device) -> Result<Self, LoadError> {
        let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
        let file = File::open(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
            _ => unreadable(source),
        })?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(LoadError::NotGguf { path: path.to_owned(), reason: "it is a directory".to_owned() });
        }
        let mut reader = BufReader::new(file);
        let content = Content::read(&mut reader).map_err(|error| LoadError::NotGguf {
            path: path.to_owned(),
            reason: first_line(&error.to_string()),
        })?;
        Ok(Self { path: path.to_owned(), reader, content, device })
    }

    /// Returns the device that the tensors are read into.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the parsed header of the file.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// Sets the metadata entry `key` to `text` in memory, without changing the file. For example,
    /// the tokenizer replaces the name of a pre-tokenizer with an equivalent name that the
    /// tokenizer library supports.
    pub(crate) fn set_text(&mut self, key: &str, text: &str) {
        self.set_value(key, Value::String(text.to_owned()));
    }

    /// Sets the metadata entry `key` to `value` in memory, without changing the file.
    pub(crate) fn set_value(&mut self, key: &str, value: Value) {
        self.content.metadata.insert(key.to_owned(), value);
    }

    /// Removes the metadata entries whose key begins with `prefix`, which frees their memory.
    pub(crate) fn remove_entries(&mut self, prefix: &str) {
        self.content.metadata.retain(|key, _| !key.starts_with(prefix));
    }

    pub(crate) fn metadata_text(&self, key: &str) -> Option<&str> {
        self.content.metadata.get(key)?.to_string().ok().map(String::as_str)
    }

    /// Returns the metadata entry `key` as an integer, or `None` if the entry is missing, negative
    /// or not an integer.
    ///
    /// Integers of all widths are accepted, because the programs that write GGUF files use
    /// different widths.
    pub(crate) fn integer(&self, key: &str) -> Option<usize> {
        let value = self.content.metadata.get(key)?;
        let wide = match value {
            Value::I8(v) => i64::from(*v),
            Value::I16(v) => i64::from(*v),
            Value::I32(v) => i64::from(*v),
            Value::I64(v) => *v,
            other => i64::try_from(other.to_u64().ok()?).ok()?,
        };
        usize::try_from(wide).ok()
    }

    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        self.content.metadata.get(key)?.to_bool().ok()
    }

    /// Returns the text of the token whose id is in the metadata entry `key`, such as
    /// `tokenizer.ggml.bos_token_id`.
    pub(crate) fn token_text(&self, key: &str) -> Option<&str> {
        self.token_text_of(self.integer(key)?)
    }

    /// Returns the text of the token with the id `token`.
    pub(crate) fn token_text_of(&self, token: usize) -> Option<&str> {
        self.array("tokenizer.ggml.tokens")?.get(token)?.to_string().ok().map(String::as_str)
    }

    pub(crate) fn float(&self, key: &str) -> Option<f64> {
        match self.content.metadata.get(key)? {
            Value::F32(v) => Some(f64::from(*v)),
            Value::F64(v) => Some(*v),
            _ => None,
        }
    }

    pub(crate) fn array(&self, key: &str) -> Option<&[Value]> {
        self.content.metadata.get(key)?.to_vec().ok().map(Vec::as_slice)
    }

    pub(crate) fn required_text(&self, key: &str) -> Result<&str, LoadError> {
        self.metadata_text(key).ok_or_else(|| self.missing_entry_error(key))
    }

    pub(crate) fn required_integer(&self, key: &str) -> Result<usize, LoadError> {
        self.integer(key).ok_or_else(|| self.missing_entry_error(key))
    }

    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    /// Returns the number of rows of the matrix `name`.
    pub(crate) fn tensor_rows(&self, name: &str) -> Option<usize> {
        self.content.tensor_infos.get(name)?.shape.dims().first().copied()
    }

    /// Reads the tensor `name` in its quantized form.
    pub(crate) fn read_quantized(&mut self, name: &str) -> Result<QTensor, LoadError> {
        if !self.has_tensor(name) {
            return Err(self.missing_entry_error(name));
        }
        let tensor = self.content.tensor(&mut self.reader, name, &self.device);
        tensor.map_err(|error| self.invalid_entry(name, &error))
    }

    /// Opens the file again and returns the location of the tensor `name` in it.
    pub(crate) fn locate(&self, name: &str) -> Result<TensorLocation, LoadError> {
        let info = self.content.tensor_infos.get(name).ok_or_else(|| self.missing_entry_error(name))?;
        let unreadable = |source| LoadError::Unreadable { path: self.path.clone(), source };
        Ok(TensorLocation {
            file: File::open(&self.path).map_err(unreadable)?,
            dtype: info.ggml_dtype,
            shape: info.shape.clone(),
            offset: self.content.tensor_data_offset.saturating_add(info.offset),
        })
    }

    /// Reads the tensor `name` as 32-bit floats.
    pub(crate) fn read_dense(&mut self, name: &str) -> Result<Tensor, LoadError> {
        let tensor = self.read_quantized(name)?;
        tensor.dequantize(&self.device).map_err(|error| self.invalid_entry(name, &error))
    }

    /// Returns the error for a file without the metadata entry or tensor `entry`.
    pub(crate) fn missing_entry_error(&self, entry: &str) -> LoadError {
        LoadError::Damaged { path: self.path.clone(), reason: format!("it has no `{entry}`") }
    }

    /// Returns the error for a file in which the metadata entry or tensor `entry` is invalid.
    pub(crate) fn invalid_entry(&self, entry: &str, error: &dyn std::fmt::Display) -> LoadError {
        let reason = format!("`{entry}` cannot be read: {}", first_line(&error.to_string()));
        LoadError::Damaged { path: self.path.clone(), reason }
    }
}

/// Returns the first line of `text`, an error message of the tensor library. Further lines contain
/// a backtrace.
pub(crate) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}
