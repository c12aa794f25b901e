//! SentencePiece BPE, the tokenizer of Llama 2, Mistral 7B and Gemma (`tokenizer.ggml.model` is
//! `llama`).
//!
//! Adjacent pieces are merged into the piece with the best score. The file contains the scores but
//! no merges. The merges are derived from the scores, so the tokenizer library can apply them.
//! Source of the rules: llama.cpp, `src/llama-vocab.cpp`, `llm_tokenizer_spm_session`.

use std::cmp::Ordering;

use candle_core::quantized::gguf_file::Value;
use tokenizers::Tokenizer;
use tokenizers::models::bpe::{BPE, Vocab};

use super::TokenType;
use crate::LoadError;
use crate::gguf::Gguf;

/// The character that represents a space in the pieces.
pub(super) const SPACE: char = '\u{2581}';

/// Reads the tokenizer from the file, whose tokens have the types `types`. A space in its input
/// must be replaced by [`SPACE`].
pub(super) fn read(gguf: &Gguf, tokens: &[&str], types: &[TokenType]) -> Result<Tokenizer, LoadError> {
    const SCORES: &str = "tokenizer.ggml.scores";
    let scores = gguf.array(SCORES).ok_or_else(|| gguf.missing_entry_error(SCORES))?;
    let mut vocabulary = Vocab::default();
    let mut pieces = Vec::new();
    for (id, ((token, kind), score)) in (0u32..).zip(tokens.iter().zip(types).zip(scores)) {
        let Value::F32(score) = score else {
            return Err(gguf.invalid_entry(SCORES, &format!("entry {id} is not a number")));
        };
        match kind {
            TokenType::Normal => pieces.push((*score, *token)),
            TokenType::Byte | TokenType::Unknown => {}
            _ => continue,
        }
        vocabulary.insert((*token).to_owned(), id);
    }
    // The sort is stable, so merges with the same score keep the order of their tokens.
    pieces.sort_by(|(a, _), (b, _)| b.partial_cmp(a).unwrap_or(Ordering::Equal));
    let merges = pieces.iter().flat_map(|(_, piece)| splits(piece, &vocabulary)).collect();
    let unknown = tokens.iter().zip(types).find(|(_, kind)| **kind == TokenType::Unknown);
    let mut builder = BPE::builder().vocab_and_merges(vocabulary.clone(), merges).byte_fallback(true);
    if let Some((token, _)) = unknown {
        builder = builder.unk_token((*token).to_owned()).fuse_unk(true);
    }
    let model = builder.build();
    let model = model.map_err(|error| LoadError::InvalidTokenizer { reason: error.to_string() })?;
    Ok(Tokenizer::new(model))
}

/// Returns the pairs of pieces that form `piece`.
fn splits(piece: &str, vocabulary: &Vocab) -> Vec<(String, String)> {
    let splits = piece.char_indices().skip(1).filter_map(|(index, _)| piece.split_at_checked(index));
    let known =
        splits.filter(|(left, right)| vocabulary.contains_key(*left) && vocabulary.contains_key(*right));
    known.map(|(left, right)| (left.to_owned(), right.to_owned())).collect()
}

/// Returns the byte of a byte token, such as `<0x0A>`.
pub(super) fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok()
}
