//! Model files that generate a given text. The layers of the network add nothing, and the output
//! matrix maps the embedding of each token to its successor.

use std::fs::File;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use haft_local::{LocalModel, LocalModelBuilder};
use tempfile::TempDir;

use crate::tiny::{SPECIAL_TOKENS, spelling};

/// The end of a reply in a script.
pub(crate) const END: &str = "<|im_end|>";
const HEADS: usize = 4;
const FFN_WIDTH: usize = 32;

/// A model file in a temporary folder.
pub(crate) struct ScriptedFile {
    folder: TempDir,
}

impl ScriptedFile {
    /// Creates a model with the chat template `template` and the additional special tokens
    /// `specials`.
    ///
    /// In each of the `chains`, every text is a token that is followed by the next text. The first
    /// token of a chain is usually the last byte of the prompt.
    pub(crate) fn new(template: &str, specials: &[&str], chains: &[&[&str]]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut tokens: Vec<_> = (0..=u8::MAX).map(|byte| (spelling(&[byte]), 1)).collect();
        let words = chains.iter().flat_map(|chain| chain.iter());
        for word in words.filter(|word| word.len() > 1) {
            let is_special = specials.contains(word) || SPECIAL_TOKENS.contains(word);
            let word = spelling(word.as_bytes());
            if !is_special && tokens.iter().all(|(token, _)| *token != word) {
                tokens.push((word, 1));
            }
        }
        tokens.extend(SPECIAL_TOKENS.map(|token| (token.to_owned(), 3)));
        // Added tokens, as `<think>` in the files of Qwen3.
        tokens.extend(specials.iter().map(|token| ((*token).to_owned(), 4)));
        let index = |text: &str| {
            let find = |text: &str| tokens.iter().position(|(token, _)| token == text);
            find(text).or_else(|| find(&spelling(text.as_bytes()))).unwrap()
        };
        let successors: Vec<_> = chains
            .iter()
            .flat_map(|chain| chain.windows(2).map(|pair| (index(pair[0]), index(pair[1]))))
            .collect();
        let width = tokens.len().next_multiple_of(32);
        let tensors = tensors(tokens.len(), width, &successors);
        let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let metadata = metadata(template, width, &tokens);
        let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
        let mut file = File::create(folder.path().join("scripted.gguf")).unwrap();
        gguf_file::write(&mut file, &metadata, &tensors).unwrap();
        Self { folder }
    }

    pub(crate) async fn load(&self) -> LocalModel {
        self.load_with(LocalModel::builder()).await
    }

    pub(crate) async fn load_with(&self, builder: LocalModelBuilder) -> LocalModel {
        builder.open(self.folder.path().join("scripted.gguf")).await.unwrap()
    }
}

fn metadata(template: &str, width: usize, tokens: &[(String, i32)]) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::String(text.to_owned());
    let end = tokens.iter().position(|(token, _)| token == END).unwrap();
    vec![
        ("general.architecture", text("qwen2")),
        ("qwen2.block_count", Value::U32(1)),
        ("qwen2.context_length", Value::U32(8192)),
        ("qwen2.embedding_length", Value::U32(width as u32)),
        ("qwen2.feed_forward_length", Value::U32(FFN_WIDTH as u32)),
        ("qwen2.attention.head_count", Value::U32(HEADS as u32)),
        ("qwen2.attention.head_count_kv", Value::U32(HEADS as u32)),
        ("qwen2.attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("qwen2")),
        ("tokenizer.ggml.tokens", Value::Array(tokens.iter().map(|(token, _)| text(token)).collect())),
        (
            "tokenizer.ggml.token_type",
            Value::Array(tokens.iter().map(|(_, kind)| Value::I32(*kind)).collect()),
        ),
        ("tokenizer.ggml.merges", Value::Array(Vec::new())),
        ("tokenizer.ggml.eos_token_id", Value::U32(end as u32)),
        ("tokenizer.chat_template", text(template)),
    ]
}

fn tensors(tokens: usize, width: usize, successors: &[(usize, usize)]) -> Vec<(String, QTensor)> {
    let matrix = |rows: usize, columns: usize, ones: &[(usize, usize)]| {
        let mut values = vec![0f32; rows * columns];
        ones.iter().for_each(|(row, column)| values[row * columns + column] = 1.0);
        let tensor = Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap();
        QTensor::quantize(&tensor, GgmlDType::Q8_0).unwrap()
    };
    let ones = |length: usize| {
        let tensor = Tensor::ones(length, candle_core::DType::F32, &Device::Cpu).unwrap();
        QTensor::quantize(&tensor, GgmlDType::F32).unwrap()
    };
    let identity: Vec<_> = (0..tokens).map(|token| (token, token)).collect();
    let output: Vec<_> = successors.iter().map(|(token, next)| (*next, *token)).collect();
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), matrix(tokens, width, &identity)),
        ("output.weight".to_owned(), matrix(tokens, width, &output)),
        ("output_norm.weight".to_owned(), ones(width)),
    ];
    for name in ["attn_norm.weight", "ffn_norm.weight", "attn_q.bias", "attn_k.bias", "attn_v.bias"] {
        tensors.push((format!("blk.0.{name}"), ones(width)));
    }
    for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
        tensors.push((format!("blk.0.{name}.weight"), matrix(width, width, &[])));
    }
    for (name, rows, columns) in
        [("ffn_gate", FFN_WIDTH, width), ("ffn_up", FFN_WIDTH, width), ("ffn_down", width, FFN_WIDTH)]
    {
        tensors.push((format!("blk.0.{name}.weight"), matrix(rows, columns, &[])));
    }
    tensors
}
