//! Model files of each supported architecture with random weights. The metadata and the tensors are
//! those that llama.cpp expects.

use std::fs::File;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const WIDTH: usize = 64;
const FFN_WIDTH: usize = 96;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_SIZE: usize = 16;

/// The names of the files: an architecture, and a variant behind a hyphen.
pub(crate) const FAMILIES: [&str; 10] = [
    "qwen2",
    "qwen3",
    "llama",
    "llama-factors",
    "llama-linear",
    "qwen2-yarn",
    "mistral3",
    "gemma3",
    "phi3",
    "smollm3",
];

/// Writes the file of `family` with weights from `seed` to `path`.
pub(crate) fn write_family(path: &Path, family: &str, seed: u64) {
    let architecture = family.split('-').next().unwrap();
    let mut file = FamilyFile {
        architecture,
        random: StdRng::seed_from_u64(seed),
        metadata: Vec::new(),
        tensors: Vec::new(),
    };
    match architecture {
        "gemma3" | "mistral3" => file.add_sentence_piece_vocabulary(),
        _ => file.add_byte_level_vocabulary(),
    }
    file.add_dimensions(family);
    file.add_tensors(family);
    let metadata: Vec<_> = file.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<_> = file.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

struct FamilyFile<'a> {
    architecture: &'a str,
    random: StdRng,
    metadata: Vec<(String, Value)>,
    tensors: Vec<(String, QTensor)>,
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

impl FamilyFile<'_> {
    fn layers(&self) -> usize {
        match self.architecture {
            "gemma3" => 7,
            "smollm3" => 5,
            _ => 2,
        }
    }

    fn add_dimensions(&mut self, family: &str) {
        let mut entries = vec![
            ("block_count", Value::U32(self.layers() as u32)),
            ("context_length", Value::U32(4096)),
            ("embedding_length", Value::U32(WIDTH as u32)),
            ("feed_forward_length", Value::U32(FFN_WIDTH as u32)),
            ("attention.head_count", Value::U32(HEADS as u32)),
            ("attention.head_count_kv", Value::U32(KV_HEADS as u32)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("rope.freq_base", Value::F32(50_000.0)),
        ];
        let yarn = [
            ("rope.scaling.type", text("yarn")),
            ("rope.scaling.factor", Value::F32(16.0)),
            ("rope.scaling.original_context_length", Value::U32(64)),
        ];
        match family {
            "llama-linear" => entries
                .extend([("rope.scaling.type", text("linear")), ("rope.scaling.factor", Value::F32(4.0))]),
            "qwen2-yarn" => entries.extend(yarn),
            "mistral3" => entries.extend(yarn.into_iter().chain([
                ("attention.temperature_scale", Value::F32(0.1)),
                ("rope.scaling.yarn_beta_fast", Value::F32(32.0)),
                ("rope.scaling.yarn_beta_slow", Value::F32(1.0)),
                ("rope.scaling.yarn_log_multiplier", Value::F32(1.0)),
            ])),
            "gemma3" => entries.extend([
                ("attention.key_length", Value::U32(HEAD_SIZE as u32)),
                ("attention.value_length", Value::U32(HEAD_SIZE as u32)),
                ("attention.sliding_window", Value::U32(8)),
                ("rope.scaling.type", text("linear")),
                ("rope.scaling.factor", Value::F32(8.0)),
            ]),
            "phi3" => entries.extend([
                ("rope.dimension_count", Value::U32(12)),
                ("rope.scaling.original_context_length", Value::U32(64)),
                ("rope.scaling.type", text("longrope")),
                ("rope.scaling.attn_factor", Value::F32(1.19)),
            ]),
            _ => {}
        }
        let architecture = self.architecture;
        let entries = entries.into_iter().map(|(key, value)| (format!("{architecture}.{key}"), value));
        self.metadata.push(("general.architecture".to_owned(), text(architecture)));
        self.metadata.extend(entries);
    }

    fn add_vocabulary(&mut self, model: &str, tokens: &[(String, i32)], ends: &str) {
        let end = tokens.iter().position(|(token, _)| token == ends).unwrap();
        let kinds = tokens.iter().map(|(_, kind)| Value::I32(*kind)).collect();
        let texts = tokens.iter().map(|(token, _)| text(token)).collect();
        let scores = (0..tokens.len()).map(|index| Value::F32(-(index as f32))).collect();
        let entries = [
            ("model", text(model)),
            ("tokens", Value::Array(texts)),
            ("token_type", Value::Array(kinds)),
            ("scores", Value::Array(scores)),
            ("eos_token_id", Value::U32(end as u32)),
            ("bos_token_id", Value::U32(end as u32 - 1)),
        ];
        self.metadata.extend(entries.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)));
    }

    /// All bytes, and a begin and an end token.
    fn add_byte_level_vocabulary(&mut self) {
        let printable = |byte: &u32| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        let mut next = 0x100;
        let mut letter = |byte: u32| {
            let letter = if printable(&byte) { byte } else { next };
            next += u32::from(!printable(&byte));
            char::from_u32(letter).unwrap().to_string()
        };
        let mut tokens: Vec<_> = (0..256).map(|byte| (letter(byte), 1)).collect();
        tokens.extend(["ab", "\u{120}a"].map(|token| (token.to_owned(), 1)));
        tokens.extend(["<|begin|>", "<|end|>"].map(|token| (token.to_owned(), 3)));
        self.add_vocabulary("gpt2", &tokens, "<|end|>");
        let merges = ["a b", "\u{120} a"].map(text).to_vec();
        self.metadata.push(("tokenizer.ggml.merges".to_owned(), Value::Array(merges)));
        self.metadata.push(("tokenizer.ggml.pre".to_owned(), text("qwen2")));
    }

    /// All bytes, printable characters, some words, and a begin and an end token.
    fn add_sentence_piece_vocabulary(&mut self) {
        let mut tokens = vec![("<unk>".to_owned(), 2), ("<s>".to_owned(), 3), ("</s>".to_owned(), 3)];
        tokens.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), 6)));
        tokens.push(("\n\n".to_owned(), 4));
        let words =
            ["\u{2581}t", "he", "in", "\u{2581}the", "an", "\u{2581}\u{2581}", "er", "th", "\u{2581}an"];
        tokens.extend(words.map(|word| (word.to_owned(), 1)));
        let letters = (' '..='~').map(|letter| if letter == ' ' { '\u{2581}' } else { letter });
        tokens.extend(letters.map(|letter| (letter.to_string(), 1)));
        self.add_vocabulary("llama", &tokens, "</s>");
    }

    fn add_tensors(&mut self, family: &str) {
        let tokens = self.metadata.iter().find(|(key, _)| key == "tokenizer.ggml.tokens").unwrap();
        let Value::Array(tokens) = &tokens.1 else { panic!("not an array") };
        self.matrix("token_embd.weight", tokens.len(), WIDTH);
        self.norm("output_norm.weight", WIDTH);
        match family {
            "llama-factors" => self.vector("rope_freqs.weight", HEAD_SIZE / 2, 4.0, 3.0),
            "phi3" => {
                self.vector("rope_factors_long.weight", 6, 4.0, 3.0);
                self.vector("rope_factors_short.weight", 6, 1.0, 0.1);
            }
            _ => {}
        }
        for layer in 0..self.layers() {
            self.add_layer(layer);
        }
    }

    fn add_layer(&mut self, layer: usize) {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (query, key) = (HEADS * HEAD_SIZE, KV_HEADS * HEAD_SIZE);
        self.norm(&name("attn_norm.weight"), WIDTH);
        self.norm(&name("ffn_norm.weight"), WIDTH);
        if self.architecture == "phi3" {
            self.matrix(&name("attn_qkv.weight"), query + 2 * key, WIDTH);
            self.matrix(&name("ffn_up.weight"), 2 * FFN_WIDTH, WIDTH);
        } else {
            for (part, rows) in [("attn_q", query), ("attn_k", key), ("attn_v", key)] {
                self.matrix(&name(&format!("{part}.weight")), rows, WIDTH);
                if self.architecture == "qwen2" {
                    self.vector(&name(&format!("{part}.bias")), rows, 0.0, 0.5);
                }
            }
            self.matrix(&name("ffn_gate.weight"), FFN_WIDTH, WIDTH);
            self.matrix(&name("ffn_up.weight"), FFN_WIDTH, WIDTH);
        }
        if matches!(self.architecture, "gemma3" | "qwen3") {
            self.norm(&name("attn_q_norm.weight"), HEAD_SIZE);
            self.norm(&name("attn_k_norm.weight"), HEAD_SIZE);
        }
        if self.architecture == "gemma3" {
            self.norm(&name("post_attention_norm.weight"), WIDTH);
            self.norm(&name("post_ffw_norm.weight"), WIDTH);
        }
        self.matrix(&name("attn_output.weight"), WIDTH, query);
        self.matrix(&name("ffn_down.weight"), WIDTH, FFN_WIDTH);
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) {
        let values = self.values(rows * columns, 0.0, 0.4);
        self.add(name, &Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap());
    }

    fn norm(&mut self, name: &str, length: usize) {
        self.vector(name, length, 1.0, 0.3);
    }

    fn vector(&mut self, name: &str, length: usize, center: f32, spread: f32) {
        let values = self.values(length, center, spread);
        self.add(name, &Tensor::from_vec(values, length, &Device::Cpu).unwrap());
    }

    fn add(&mut self, name: &str, tensor: &Tensor) {
        self.tensors.push((name.to_owned(), QTensor::quantize(tensor, GgmlDType::F32).unwrap()));
    }

    fn values(&mut self, count: usize, center: f32, spread: f32) -> Vec<f32> {
        (0..count).map(|_| center + self.random.random_range(-spread..spread)).collect()
    }
}
