//! The tokenizer of a file, and its vocabulary for the grammar engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use tokenizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use crate::LoadError;
use crate::gguf::Gguf;

/// The kinds of `tokenizer.ggml.token_type`.
const CONTROL: usize = 3;
const USER_DEFINED: usize = 4;
const UNUSED: usize = 5;

/// The trie rejects longer tokens. They are never generated.
const LONGEST_TOKEN: usize = 512;

/// The tokenizer of a model.
pub(crate) struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    /// For template markup: spellings of special tokens become special tokens.
    markup: tokenizers::Tokenizer,
    /// For text from outside: spellings of special tokens stay text.
    plain: tokenizers::Tokenizer,
    end: Vec<u32>,
    markup_edges: HashSet<char>,
    spaced_tokens: Vec<u32>,
    quoted_space_tokens: Vec<u32>,
}

impl Tokenizer {
    pub(crate) fn read(gguf: &mut Gguf) -> Result<Self, LoadError> {
        let unusable = |error: &dyn std::fmt::Display| LoadError::Tokenizer { reason: error.to_string() };
        let has_pre_tokenizer = set_pre_tokenizer(gguf);
        let mut markup = tokenizers::Tokenizer::from_gguf(gguf.content())
            .map_err(|error| LoadError::Tokenizer { reason: first_line(&error) })?;
        if !has_pre_tokenizer {
            markup.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
        }
        let mut plain = markup.clone();
        plain.set_encode_special_tokens(true);
        let mut exact = plain.clone();
        exact.with_normalizer(None::<NormalizerWrapper>).map_err(|error| unusable(&error))?;

        let end_of_turn = gguf.required_integer("tokenizer.ggml.eos_token_id")?;
        let words = words(gguf)?;
        let end_of_turn = u32::try_from(end_of_turn).ok().filter(|id| (*id as usize) < words.len());
        let end_of_turn = end_of_turn.ok_or_else(|| unusable(&"its end token is not in its vocabulary"))?;
        let end = ends(gguf, end_of_turn);
        let info = TokRxInfo::new(words.len() as u32, end_of_turn);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&end);
        let quotes_space = |word: &[u8]| word.windows(2).any(|pair| pair == b"\" ");
        let spaced_tokens = tokens_where(&words, |word| word.starts_with(b" ") || quotes_space(word));
        let quoted_space_tokens = tokens_where(&words, quotes_space);
        let markup_edges = markup_edges(gguf);
        let vocabulary = Arc::new(Vocabulary { trie, exact });
        Ok(Self { vocabulary, markup, plain, end, markup_edges, spaced_tokens, quoted_space_tokens })
    }

    /// The tokens of template markup. Spellings of special tokens become special tokens.
    pub(crate) fn encode_markup(&self, text: &str) -> Vec<u32> {
        encode(&self.markup, text)
    }

    /// The tokens of text from outside. It has no special tokens.
    pub(crate) fn encode_content(&self, text: &str) -> Vec<u32> {
        encode(&self.plain, text)
    }

    /// Returns `true` if the model ends its turn with this token.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.end.contains(&token)
    }

    /// The end-of-turn tokens.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u32> {
        self.end.iter().copied()
    }

    /// The bytes of an ordinary token. A control token has none.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        let trie = &self.vocabulary.trie;
        match (token as usize) < trie.vocab_size() && !trie.is_special_token(token) {
            true => trie.token(token),
            false => &[],
        }
    }

    /// Returns `true` for a control token, such as `<|im_end|>`.
    pub(crate) fn is_special(&self, token: u32) -> bool {
        let trie = &self.vocabulary.trie;
        (token as usize) < trie.vocab_size() && trie.is_special_token(token)
    }

    /// Tokens with a space at their beginning or directly after a quote.
    pub(crate) fn spaced_tokens(&self) -> &[u32] {
        &self.spaced_tokens
    }

    /// Tokens with a space directly after a quote.
    pub(crate) fn quoted_space_tokens(&self) -> &[u32] {
        &self.quoted_space_tokens
    }

    /// The first and last characters of all special tokens. Text without them spells no special
    /// token.
    pub(crate) fn markup_edges(&self) -> &HashSet<char> {
        &self.markup_edges
    }

    /// The spelling of a token, for `bos_token` and `eos_token` of a template.
    pub(crate) fn spelling(&self, token: u32) -> Option<String> {
        self.markup.id_to_token(token)
    }

    /// The number of tokens.
    pub(crate) fn vocabulary_size(&self) -> usize {
        self.vocabulary.trie.vocab_size()
    }

    /// The vocabulary for the grammar engine.
    pub(crate) fn environment(&self) -> TokEnv {
        self.vocabulary.clone()
    }
}

/// Maps the file's pre-tokenizer to a name supported by the library. Returns `false` for an unknown
/// one: GPT-2's rule is used then, because the library would insert a space before each text.
fn set_pre_tokenizer(gguf: &mut Gguf) -> bool {
    const KEY: &str = "tokenizer.ggml.pre";
    let known = match gguf.text(KEY).unwrap_or_default() {
        "qwen2" | "deepseek-r1-qwen" | "megrez" => "qwen2",
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "smaug-bpe" | "lfm2" => "llama3",
        _ => return false,
    };
    gguf.put_text(KEY, known);
    true
}

/// The vocabulary of the grammar engine.
struct Vocabulary {
    trie: TokTrie,
    /// Without the normaliser. It would replace Unicode characters of a schema or a question by
    /// equivalent ones.
    exact: tokenizers::Tokenizer,
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let tokens = self.trie.tokenize_with_greedy_fallback(bytes, |text| encode(&self.exact, text));
        // The tokens must have exactly the forced bytes of a constraint, for any vocabulary.
        match self.trie.decode_raw(&tokens) == bytes {
            true => tokens,
            false => self.trie.greedy_tokenize(bytes),
        }
    }
}

fn encode(tokenizer: &tokenizers::Tokenizer, text: &str) -> Vec<u32> {
    // Byte-level BPE has a token for every byte, so it does not fail.
    tokenizer.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
}

/// The end-of-turn tokens: the declared end of sequence, and the ends of turn and message of chat
/// models.
fn ends(gguf: &Gguf, declared: u32) -> Vec<u32> {
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
    let special = tokens.iter().zip(kinds).filter(|(_, value)| matches!(kind(value), CONTROL | USER_DEFINED));
    let spellings = special.filter_map(|(token, _)| token.to_string().ok());
    spellings.flat_map(|text| text.chars().next().into_iter().chain(text.chars().next_back())).collect()
}

/// The bytes of every token. Control tokens begin with a marker that is invalid in text.
fn words(gguf: &Gguf) -> Result<Vec<Vec<u8>>, LoadError> {
    let tokens =
        gguf.array("tokenizer.ggml.tokens").ok_or_else(|| gguf.missing_entry("tokenizer.ggml.tokens"))?;
    let kinds = gguf.array("tokenizer.ggml.token_type").unwrap_or_default();
    let alphabet = byte_alphabet();
    let word = |(index, token): (usize, &Value)| {
        let Ok(token) = token.to_string() else {
            return Err(gguf.invalid_entry("tokenizer.ggml.tokens", &format!("entry {index} is not text")));
        };
        Ok(match kinds.get(index).map_or(1, kind) {
            UNUSED => Vec::new(),
            CONTROL | USER_DEFINED => [&[TokTrie::SPECIAL_TOKEN_MARKER], token.as_bytes()].concat(),
            _ => token
                .chars()
                .map(|letter| alphabet.get(&letter).copied())
                .collect::<Option<_>>()
                .unwrap_or_default(),
        })
    };
    let mut words: Vec<Vec<u8>> = tokens.iter().enumerate().map(word).collect::<Result<_, _>>()?;
    words.iter_mut().filter(|word| word.len() > LONGEST_TOKEN).for_each(Vec::clear);
    Ok(words)
}

fn kind(value: &Value) -> usize {
    match value {
        Value::I32(kind) => usize::try_from(*kind).unwrap_or_default(),
        other => other.to_u64().ok().and_then(|kind| usize::try_from(kind).ok()).unwrap_or_default(),
    }
}

/// The characters of byte-level BPE for bytes: the same character for a printable byte, a character
/// from U+0100 on otherwise.
fn byte_alphabet() -> HashMap<char, u8> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let (own, foreign): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(printable);
    let own = own.into_iter().map(|byte| (char::from(byte), byte));
    let foreign = ('\u{100}'..).zip(foreign);
    own.chain(foreign).collect()
}

/// Removes the backtrace from an error of the tensor library.
fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
