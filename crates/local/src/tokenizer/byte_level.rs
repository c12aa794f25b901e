//! Byte-level BPE, the tokenizer of GPT-2, Llama 3, Qwen, Phi-4, SmolLM and Mistral's Tekken.
//!
//! The rules for each pre-tokenizer are those of llama.cpp: `src/llama-vocab.cpp`,
//! `llama_vocab::impl::load` (names and defaults) and `llm_tokenizer_bpe` (regular expressions,
//! which come from the `tokenizer.json` of the models).

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use tokenizers::Tokenizer;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use crate::LoadError;
use crate::gguf::Gguf;

const PRE_TOKENIZER_KEY: &str = "tokenizer.ggml.pre";

/// A pre-tokenizer, which splits a text before BPE merges are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreTokenizer {
    Gpt2,
    Qwen2,
    Llama3,
    Smaug,
    SmolLm,
    Gpt4o,
    Tekken,
}

/// The regular expression of GPT-2 without its last alternative, which does not change the pieces
/// here.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl PreTokenizer {
    /// Returns the pre-tokenizer of the file. If its name is missing or unknown, returns GPT-2's.
    fn of_file(gguf: &Gguf) -> Self {
        match gguf.metadata_text(PRE_TOKENIZER_KEY).unwrap_or_default() {
            "qwen2" | "deepseek-r1-qwen" | "megrez" => Self::Qwen2,
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "lfm2" => Self::Llama3,
            "smaug-bpe" => Self::Smaug,
            "smollm" => Self::SmolLm,
            "gpt-4o" | "llama4" => Self::Gpt4o,
            "tekken" => Self::Tekken,
            _ => Self::Gpt2,
        }
    }

    /// Returns `true` if a piece that is a token is not split by merges.
    fn ignores_merges(self) -> bool {
        matches!(self, Self::Llama3 | Self::Tekken)
    }

    /// The regular expressions, of which each splits the pieces of the previous one. Empty if the
    /// tokenizer library implements the pre-tokenizer.
    fn patterns(self) -> &'static [&'static str] {
        match self {
            Self::Qwen2 | Self::Llama3 | Self::Smaug | Self::Gpt2 => &[],
            Self::SmolLm => &[r"\p{N}", GPT2],
            Self::Gpt4o => &[GPT4O],
            Self::Tekken => &[TEKKEN],
        }
    }
}

/// Returns `true` if the tokenizer of the file adds the begin-of-sequence token by default, without
/// the entry `tokenizer.ggml.add_bos_token`.
pub(super) fn adds_begin_by_default(gguf: &Gguf) -> bool {
    matches!(PreTokenizer::of_file(gguf), PreTokenizer::Llama3 | PreTokenizer::Tekken)
}

/// Reads the tokenizer. It encodes spellings of special tokens as ordinary text.
pub(super) fn read(gguf: &mut Gguf) -> Result<Tokenizer, LoadError> {
    let unusable = |error: &dyn std::fmt::Display| LoadError::InvalidTokenizer {
        reason: error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let pre_tokenizer = PreTokenizer::of_file(gguf);
    match pre_tokenizer {
        PreTokenizer::Qwen2 => gguf.set_text(PRE_TOKENIZER_KEY, "qwen2"),
        PreTokenizer::Llama3 | PreTokenizer::Smaug => gguf.set_text(PRE_TOKENIZER_KEY, "llama3"),
        _ => {}
    }
    gguf.set_value("tokenizer.ggml.ignore_merges", Value::Bool(pre_tokenizer.ignores_merges()));
    let mut tokenizer = Tokenizer::from_gguf(gguf.content()).map_err(|error| unusable(&error))?;
    let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
    for pattern in pre_tokenizer.patterns() {
        let pattern = SplitPattern::Regex((*pattern).to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
        steps.push(split.map_err(|error| unusable(&error))?.into());
    }
    // The library's default would insert a space before each text.
    if !steps.is_empty() || pre_tokenizer == PreTokenizer::Gpt2 {
        steps.push(ByteLevel::new(false, true, steps.is_empty()).into());
        tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
    }
    tokenizer.set_encode_special_tokens(true);
    Ok(tokenizer)
}

/// Returns a map from the characters of byte-level BPE to the bytes that they represent. A
/// printable byte is represented by its own character, and any other byte by a character from
/// U+0100 onwards.
pub(super) fn byte_alphabet() -> HashMap<char, u8> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let (own, foreign): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(printable);
    let own = own.into_iter().map(|byte| (char::from(byte), byte));
    let foreign = ('\u{100}'..).zip(foreign);
    own.chain(foreign).collect()
}
