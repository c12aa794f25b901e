//! Model files with random weights and a small vocabulary. The vocabulary consists of all single
//! bytes, a few longer tokens, and the special tokens.

use std::fs::File;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use haft_local::{KnownModel, LocalModel, PromptProfile};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

const WIDTH: usize = 32;
const FFN_WIDTH: usize = 64;
const LAYERS: usize = 2;
pub(crate) const CONTEXT_LENGTH: u32 = 8192;

/// Tokens of several bytes. Some of them contain the end of a JSON value and the beginning of the
/// next one, as in real vocabularies.
const WORD_TOKENS: [&str; 19] = [
    "\": ", "\", \"", "{\"", "\"}", "\"]", "}, {", "[{\"", "null", "true", "12", "00", "nothing", ", ", "e5",
    " Tokyo", " \"", "\" a", "\": \" b", " t",
];
pub(crate) const SPECIAL_TOKENS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// A model file with random weights in a temporary folder.
pub(crate) struct TinyFile {
    pub(crate) path: PathBuf,
    folder: TempDir,
}

impl TinyFile {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_metadata(seed, &[])
    }

    /// Creates a model file in which the entries `changes` replace or extend the metadata.
    pub(crate) fn with_metadata(seed: u64, changes: &[(&str, Value)]) -> Self {
        let changed = |key: &String| changes.iter().any(|(name, _)| name == key);
        let unchanged = metadata(&[]).into_iter().filter(|(key, _)| !changed(key));
        let added = changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        Self::write(seed, unchanged.chain(added).collect())
    }

    /// Creates a model file without the metadata entry `key`.
    pub(crate) fn without_metadata(seed: u64, key: &str) -> Self {
        Self::write(seed, metadata(&[]).into_iter().filter(|(name, _)| name != key).collect())
    }

    /// Creates a model file with the chat template `template`. `specials` contains additional
    /// special tokens.
    pub(crate) fn with_template(seed: u64, template: &str, specials: &[&str]) -> Self {
        let template = ("tokenizer.chat_template".to_owned(), Value::String(template.to_owned()));
        let metadata = metadata(specials).into_iter().chain([template]).collect();
        Self::write_with(seed, metadata, specials)
    }

    fn write(seed: u64, metadata: Vec<(String, Value)>) -> Self {
        Self::write_with(seed, metadata, &[])
    }

    fn write_with(seed: u64, metadata: Vec<(String, Value)>, specials: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.gguf");
        write(&path, seed, &metadata, vocabulary(specials).len());
        Self { path, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn load(&self) -> LocalModel {
        LocalModel::open(&self.path).await.unwrap()
    }

    /// Loads the model with the prompt profile of the default model, which contains a
    /// demonstration.
    pub(crate) async fn load_with_examples(&self) -> LocalModel {
        let profile = PromptProfile::for_model(KnownModel::default_model());
        LocalModel::builder().prompt_profile(profile).open(&self.path).await.unwrap()
    }

    /// Loads the model twice: first with the tool format of its chat template, then with a
    /// demonstration.
    pub(crate) async fn load_all(&self) -> [LocalModel; 2] {
        [self.load().await, self.load_with_examples().await]
    }
}

fn write(path: &Path, seed: u64, metadata: &[(String, Value)], vocabulary: usize) {
    let mut weights = Weights { random: StdRng::seed_from_u64(seed), tensors: Vec::new() };
    weights.add_all(vocabulary);
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<_> = weights.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

fn metadata(specials: &[&str]) -> Vec<(String, Value)> {
    let tokens = vocabulary(specials);
    let first_special = tokens.len() - SPECIAL_TOKENS.len() - specials.len();
    let kinds = (0..tokens.len()).map(|index| Value::I32(if index < first_special { 1 } else { 3 }));
    let text = |text: &str| Value::String(text.to_owned());
    let entries = [
        ("general.architecture", text("qwen2")),
        ("qwen2.block_count", Value::U32(LAYERS as u32)),
        ("qwen2.context_length", Value::U32(CONTEXT_LENGTH)),
        ("qwen2.embedding_length", Value::U32(WIDTH as u32)),
        ("qwen2.feed_forward_length", Value::U32(FFN_WIDTH as u32)),
        ("qwen2.attention.head_count", Value::U32(4)),
        ("qwen2.attention.head_count_kv", Value::U32(2)),
        ("qwen2.attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("qwen2")),
        ("tokenizer.ggml.tokens", Value::Array(tokens.iter().map(|token| text(token)).collect())),
        ("tokenizer.ggml.token_type", Value::Array(kinds.collect())),
        ("tokenizer.ggml.merges", Value::Array(vec![text("Ġ Ġ")])),
        ("tokenizer.ggml.eos_token_id", Value::U32(first_special as u32 + 2)),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn vocabulary(specials: &[&str]) -> Vec<String> {
    let bytes = (0..=u8::MAX).map(|byte| spelling(&[byte]));
    let words = WORD_TOKENS.iter().map(|word| spelling(word.as_bytes()));
    let double_space = std::iter::once(spelling(b"  "));
    bytes
        .chain(words)
        .chain(double_space)
        .chain(SPECIAL_TOKENS.iter().chain(specials).map(|token| (*token).to_owned()))
        .collect()
}

/// Returns `bytes` in the notation of byte-level BPE, with one character per byte.
pub(crate) fn spelling(bytes: &[u8]) -> String {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let hidden: Vec<u8> = (0..=u8::MAX).filter(|byte| !printable(byte)).collect();
    let letter = |byte: &u8| match hidden.iter().position(|hidden| hidden == byte) {
        Some(place) => char::from_u32(0x100 + place as u32).unwrap(),
        None => char::from(*byte),
    };
    bytes.iter().map(letter).collect()
}

struct Weights {
    random: StdRng,
    tensors: Vec<(String, QTensor)>,
}

impl Weights {
    fn add_all(&mut self, vocabulary: usize) {
        self.add_matrix("token_embd.weight", vocabulary, WIDTH);
        self.add_vector("output_norm.weight", WIDTH);
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            self.add_vector(&name("attn_norm.weight"), WIDTH);
            self.add_vector(&name("ffn_norm.weight"), WIDTH);
            for (part, rows) in [("attn_q", WIDTH), ("attn_k", WIDTH / 2), ("attn_v", WIDTH / 2)] {
                self.add_matrix(&name(&format!("{part}.weight")), rows, WIDTH);
                self.add_vector(&name(&format!("{part}.bias")), rows);
            }
            self.add_matrix(&name("attn_output.weight"), WIDTH, WIDTH);
            self.add_matrix(&name("ffn_gate.weight"), FFN_WIDTH, WIDTH);
            self.add_matrix(&name("ffn_up.weight"), FFN_WIDTH, WIDTH);
            self.add_matrix(&name("ffn_down.weight"), WIDTH, FFN_WIDTH);
        }
    }

    fn add_matrix(&mut self, name: &str, rows: usize, columns: usize) {
        let values = self.values(rows * columns);
        let tensor = Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap();
        self.tensors.push((name.to_owned(), QTensor::quantize(&tensor, GgmlDType::Q5_0).unwrap()));
    }

    fn add_vector(&mut self, name: &str, length: usize) {
        let tensor = Tensor::from_vec(self.values(length), length, &Device::Cpu).unwrap();
        self.tensors.push((name.to_owned(), QTensor::quantize(&tensor, GgmlDType::F32).unwrap()));
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.random.random_range(-1.0..1.0)).collect()
    }
}
