//! The tokenizer of a GGUF file, and the vocabulary that it provides for the grammar engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use tokenizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use crate::LoadError;
use crate::gguf::Gguf;

/// The type of special tokens, such as `<|im_end|>`, in the metadata array
/// `tokenizer.ggml.token_type`.
const CONTROL_TOKEN: usize = 3;
/// The type of added tokens, such as `<tool_call>`, in `tokenizer.ggml.token_type`.
const USER_DEFINED: usize = 4;
/// The type of unused token ids in `tokenizer.ggml.token_type`.
const UNUSED: usize = 5;

/// The maximum length of a token in bytes. A longer token has no bytes in the vocabulary, because
/// the trie of the grammar engine would reject it.
const MAX_TOKEN_BYTES: usize = 512;

/// The tokenizer of a model.
pub(crate) struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    /// The tokenizer for template markup. It encodes the text `<|im_end|>` as the special token.
    markup_tokenizer: tokenizers::Tokenizer,
    /// The tokenizer for untrusted text. It encodes the text `<|im_end|>` as ordinary tokens.
    content_tokenizer: tokenizers::Tokenizer,
    end_tokens: Vec<u32>,
    markup_edges: HashSet<char>,
    spaced_tokens: Vec<u32>,
    tokens_with_quoted_space: Vec<u32>,
    empty_tokens: Vec<u32>,
}

impl Tokenizer {
    pub(crate) fn read(gguf: &mut Gguf) -> Result<Self, LoadError> {
        let unusable =
            |error: &dyn std::fmt::Display| LoadError::InvalidTokenizer { reason: error.to_string() };
        let has_pre_tokenizer = set_pre_tokenizer(gguf);
        let mut markup_tokenizer = tokenizers::Tokenizer::from_gguf(gguf.content())
            .map_err(|error| LoadError::InvalidTokenizer { reason: first_line(&error) })?;
        if !has_pre_tokenizer {
            markup_tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
        }
        let mut content_tokenizer = markup_tokenizer.clone();
        content_tokenizer.set_encode_special_tokens(true);
        let mut exact = content_tokenizer.clone();
        exact.with_normalizer(None::<NormalizerWrapper>).map_err(|error| unusable(&error))?;

        let end_of_turn = gguf.required_integer("tokenizer.ggml.eos_token_id")?;
        let words = token_bytes(gguf)?;
        let end_of_turn = u32::try_from(end_of_turn).ok().filter(|id| (*id as usize) < words.len());
        let end_of_turn = end_of_turn.ok_or_else(|| unusable(&"its end token is not in its vocabulary"))?;
        let end_tokens = end_tokens(gguf, end_of_turn);
        let info = TokRxInfo::new(words.len() as u32, end_of_turn);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&end_tokens);
        let quotes_space = |word: &[u8]| word.windows(2).any(|pair| pair == b"\" ");
        let spaced_tokens = tokens_where(&words, |word| word.starts_with(b" ") || quotes_space(word));
        let tokens_with_quoted_space = tokens_where(&words, quotes_space);
        let mut empty_tokens = tokens_where(&words, <[u8]>::is_empty);
        empty_tokens.retain(|token| !end_tokens.contains(token));
        let markup_edges = markup_edges(gguf);
        let vocabulary = Arc::new(Vocabulary { trie, exact });
        Ok(Self {
            vocabulary,
            markup_tokenizer,
            content_tokenizer,
            end_tokens,
            markup_edges,
            spaced_tokens,
            tokens_with_quoted_space,
            empty_tokens,
        })
    }

    /// Encodes `text`, which is markup of the chat template. Spellings of special tokens, such as
    /// `<|im_end|>`, become special tokens.
    pub(crate) fn encode_markup(&self, text: &str) -> Vec<u32> {
        encode(&self.markup_tokenizer, text)
    }

    /// Encodes `text`, which is untrusted. The result contains no special tokens.
    pub(crate) fn encode_content(&self, text: &str) -> Vec<u32> {
        encode(&self.content_tokenizer, text)
    }

    /// Returns `true` if `token` is an end-of-turn token.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.end_tokens.contains(&token)
    }

    /// Returns the end-of-turn tokens.
    pub(crate) fn end_tokens(&self) -> impl Iterator<Item = u32> {
        self.end_tokens.iter().copied()
    }

    /// Returns the bytes of `token`. The slice is empty for special tokens, and for tokens without
    /// bytes or outside of the vocabulary.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        let trie = &self.vocabulary.trie;
        match (token as usize) < trie.vocab_size() && !trie.is_special_token(token) {
            true => trie.token(token),
            false => &[],
        }
    }

    /// Returns `true` if `token` is a special token, such as `<|im_end|>`.
    pub(crate) fn is_special(&self, token: u32) -> bool {
        let trie = &self.vocabulary.trie;
        (token as usize) < trie.vocab_size() && trie.is_special_token(token)
    }

    /// Returns the tokens that begin with a space or contain a quotation mark directly followed by
    /// a space. They may begin a JSON string with a stray space.
    pub(crate) fn tokens_with_space(&self) -> &[u32] {
        &self.spaced_tokens
    }

    /// Returns the tokens in which a space directly follows a quotation mark.
    pub(crate) fn tokens_with_quoted_space(&self) -> &[u32] {
        &self.tokens_with_quoted_space
    }

    /// Returns the tokens that are neither special tokens nor end-of-turn tokens and have no bytes,
    /// such as unused token ids.
    pub(crate) fn empty_tokens(&self) -> &[u32] {
        &self.empty_tokens
    }

    /// Returns the first and last characters of all special tokens. Text without these characters
    /// cannot contain the spelling of a special token.
    pub(crate) fn markup_edges(&self) -> &HashSet<char> {
        &self.markup_edges
    }

    /// Returns the text of `token`, or `None` if the vocabulary does not contain `token`. Chat
    /// templates need the text of two tokens, as `bos_token` and `eos_token`.
    pub(crate) fn spelling(&self, token: u32) -> Option<String> {
        self.markup_tokenizer.id_to_token(token)
    }

    /// Returns the vocabulary as an environment for the grammar engine.
    pub(crate) fn token_environment(&self) -> TokEnv {
        self.vocabulary.clone()
    }
}

/// Replaces the name of the pre-tokenizer in the metadata with a name that the tokenizer library
/// supports.
///
/// Returns `false` if the name is missing or unknown. The caller must then use GPT-2's
/// pre-tokenizer, because the default of the library would insert a space before each text.
fn set_pre_tokenizer(gguf: &mut Gguf) -> bool {
    const KEY: &str = "tokenizer.ggml.pre";
    let known = match gguf.metadata_text(KEY).unwrap_or_default() {
        "qwen2" | "deepseek-r1-qwen" | "megrez" => "qwen2",
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "smaug-bpe" | "lfm2" => "llama3",
        _ => return false,
    };
    gguf.set_text(KEY, known);
    true
}

/// The vocabulary of a model. It implements [`TokenizerEnv`], which the grammar engine requires.
struct Vocabulary {
    trie: TokTrie,
    /// The tokenizer without its Unicode normalizer. The normalizer could replace characters from a
    /// schema or a question with equivalent characters.
    exact: tokenizers::Tokenizer,
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let tokens = self.trie.tokenize_with_greedy_fallback(bytes, |text| encode(&self.exact, text));
        // The tokens must decode to exactly `bytes`. Some vocabularies do not round-trip every
        // text. In this case, the bytes are tokenized greedily.
        match self.trie.decode_raw(&tokens) == bytes {
            true => tokens,
            false => self.trie.greedy_tokenize(bytes),
        }
    }
}

fn encode(tokenizer: &tokenizers::Tokenizer, text: &str) -> Vec<u32> {
    // Byte-level BPE has a token for every byte, so encoding does not fail.
    tokenizer.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
}

/// Returns the end-of-turn tokens: `declared`, which is the end-of-sequence token of the file, and
/// the end-of-turn and end-of-message tokens, if the file has them.
fn end_tokens(gguf: &Gguf, declared: u32) -> Vec<u32> {
    let mut ends = vec![declared];
    let others = ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
    let others = others.iter().filter_map(|key| gguf.integer(key));
    ends.extend(others.filter_map(|id| u32::try_from(id).ok()).filter(|id| *id != declared));
    ends
}

fn tokens_where(words: &[Vec<u8>], test: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    (0u32..).zip(words).filter(|(_, word)| test(word)).map(|(token, _)| token).collect()
}

fn markup_edges(gguf: &Gguf) -> HashSet<char> {
    let tokens = gguf.array("tokenizer.ggml.tokens").unwrap_or_default();
    let kinds = gguf.array("tokenizer.ggml.token_type").unwrap_or_default();
    let special = tokens
        .iter()
        .zip(kinds)
        .filter(|(_, value)| matches!(token_type(value), CONTROL_TOKEN | USER_DEFINED));
    let spellings = special.filter_map(|(token, _)| token.to_string().ok());
    spellings.flat_map(|text| text.chars().next().into_iter().chain(text.chars().next_back())).collect()
}

/// Returns the bytes of each token, by token id. The bytes of a special token begin with
/// `TokTrie::SPECIAL_TOKEN_MARKER`, which is invalid in UTF-8.
///
/// A token has no bytes if it is unused, longer than [`MAX_TOKEN_BYTES`], or contains a character
/// that byte-level BPE does not use.
fn token_bytes(gguf: &Gguf) -> Result<Vec<Vec<u8>>, LoadError> {
    let tokens = gguf
        .array("tokenizer.ggml.tokens")
        .ok_or_else(|| gguf.missing_entry_error("tokenizer.ggml.tokens"))?;
    let kinds = gguf.array("tokenizer.ggml.token_type").unwrap_or_default();
    let alphabet = byte_alphabet();
    let word = |(index, token): (usize, &Value)| {
        let Ok(token) = token.to_string() else {
            return Err(gguf.invalid_entry("tokenizer.ggml.tokens", &format!("entry {index} is not text")));
        };
        Ok(match kinds.get(index).map_or(1, token_type) {
            UNUSED => Vec::new(),
            CONTROL_TOKEN | USER_DEFINED => [&[TokTrie::SPECIAL_TOKEN_MARKER], token.as_bytes()].concat(),
            _ => token
                .chars()
                .map(|letter| alphabet.get(&letter).copied())
                .collect::<Option<_>>()
                .unwrap_or_default(),
        })
    };
    let mut words: Vec<Vec<u8>> = tokens.iter().enumerate().map(word).collect::<Result<_, _>>()?;
    words.iter_mut().filter(|word| word.len() > MAX_TOKEN_BYTES).for_each(Vec::clear);
    Ok(words)
}

fn token_type(value: &Value) -> usize {
    match value {
        Value::I32(kind) => usize::try_from(*kind).unwrap_or_default(),
        other => other.to_u64().ok().and_then(|kind| usize::try_from(kind).ok()).unwrap_or_default(),
    }
}

/// Returns a map from the characters of byte-level BPE to the bytes that they represent. A
/// printable byte is represented by its own character, and any other byte by a character from
/// U+0100 onwards.
fn byte_alphabet() -> HashMap<char, u8> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let (own, foreign): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(printable);
    let own = own.into_iter().map(|byte| (char::from(byte), byte));
    let foreign = ('\u{100}'..).zip(foreign);
    own.chain(foreign).collect()
}

/// Returns the first line of `error`, an error of the tensor library. Further lines contain a
/// backtrace.
fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
