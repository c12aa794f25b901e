//! The tokenizer of a GGUF file, and the vocabulary that it provides for the grammar engine.

mod byte_level;
mod prompt;
mod sentence_piece;
mod special_tokens;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use candle_core::quantized::gguf_file::Value;
use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use tokenizers::NormalizerWrapper;

pub(crate) use self::prompt::PromptEncoder;
use self::special_tokens::TokenSpellings;
use crate::LoadError;
use crate::gguf::Gguf;

/// The maximum length of a token in bytes. A longer token has no bytes in the vocabulary, because
/// the trie of the grammar engine would reject it.
const MAX_TOKEN_BYTES: usize = 512;

/// The spellings of the end-of-turn tokens of the supported families. Not all files declare them.
///
/// Source: llama.cpp, `src/llama-vocab.cpp`, `llama_vocab::impl::load` (`special_eog_ids`).
const END_SPELLINGS: [&str; 7] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
];

/// The tokenizer of a model.
pub(crate) struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    /// The tokenizer for text, with the Unicode normalizer of the model.
    text_tokenizer: tokenizers::Tokenizer,
    /// The special tokens, such as `<|im_end|>`, and the tokens in `text_tokens`.
    markup_tokens: TokenSpellings,
    /// The tokens that are recognized in any text before it is tokenized, such as two newlines in
    /// the vocabulary of Gemma.
    text_tokens: TokenSpellings,
    /// The token to insert at the beginning of each prompt.
    begin_token: Option<u32>,
    /// `true` if a space is inserted before text at the beginning of the prompt or behind a special
    /// token.
    adds_space: bool,
    end_tokens: Vec<u32>,
    markup_edges: HashSet<char>,
    spaced_tokens: Vec<u32>,
    tokens_with_quoted_space: Vec<u32>,
    empty_tokens: Vec<u32>,
}

/// The kind of a vocabulary, the entry `tokenizer.ggml.model` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VocabularyKind {
    /// `gpt2`
    ByteLevel,
    /// `llama`
    SentencePiece,
}

/// The type of a token, an entry of the array `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenType {
    Normal,
    Unknown,
    /// A special token, such as `<|im_end|>`.
    Control,
    /// An added token. In a byte-level vocabulary, this is markup such as `<tool_call>`. In a
    /// SentencePiece vocabulary, this is text such as two newlines.
    UserDefined,
    Unused,
    /// A token of a SentencePiece vocabulary for one byte, such as `<0x0A>`.
    Byte,
}

impl Tokenizer {
    pub(crate) fn read(gguf: &mut Gguf) -> Result<Self, LoadError> {
        let unusable =
            |error: &dyn std::fmt::Display| LoadError::InvalidTokenizer { reason: error.to_string() };
        let kind = VocabularyKind::read(gguf)?;
        let types = token_types(gguf)?;
        let text_tokenizer = match kind {
            VocabularyKind::ByteLevel => byte_level::read(gguf)?,
            VocabularyKind::SentencePiece => sentence_piece::read(gguf, &token_texts(gguf)?, &types)?,
        };
        let mut exact = text_tokenizer.clone();
        exact.with_normalizer(None::<NormalizerWrapper>).map_err(|error| unusable(&error))?;

        let tokens = token_texts(gguf)?;
        let words = token_bytes(&tokens, &types, kind);
        let end_of_turn = gguf.required_integer("tokenizer.ggml.eos_token_id")?;
        let end_of_turn = u32::try_from(end_of_turn).ok().filter(|id| (*id as usize) < words.len());
        let end_of_turn = end_of_turn.ok_or_else(|| unusable(&"its end token is not in its vocabulary"))?;
        let end_tokens = end_tokens(gguf, end_of_turn, &tokens, &types);
        let info = TokRxInfo::new(words.len() as u32, end_of_turn);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&end_tokens);
        let quotes_space = |word: &[u8]| word.windows(2).any(|pair| pair == b"\" ");
        let mut empty_tokens = tokens_where(&words, <[u8]>::is_empty);
        empty_tokens.retain(|token| !end_tokens.contains(token));
        Ok(Self {
            markup_tokens: spellings(&tokens, &types, |token| {
                token.is_special(kind) || token.is_added_text(kind)
            })?,
            text_tokens: spellings(&tokens, &types, |token| token.is_added_text(kind))?,
            begin_token: begin_token(gguf, kind),
            adds_space: kind == VocabularyKind::SentencePiece
                && gguf.bool("tokenizer.ggml.add_space_prefix").unwrap_or(true),
            markup_edges: markup_edges(&tokens, &types, kind),
            spaced_tokens: tokens_where(&words, |word| word.starts_with(b" ") || quotes_space(word)),
            tokens_with_quoted_space: tokens_where(&words, quotes_space),
            vocabulary: Arc::new(Vocabulary { trie, exact, kind }),
            text_tokenizer,
            end_tokens,
            empty_tokens,
        })
    }

    /// Encodes `text`, which is markup of the chat template. Spellings of special tokens, such as
    /// `<|im_end|>`, become special tokens.
    pub(crate) fn encode_markup(&self, text: &str) -> Vec<u32> {
        let mut prompt = PromptEncoder::continued(self);
        prompt.push_markup(text);
        prompt.finish()
    }

    /// Encodes `text`, which is untrusted. The result contains no special tokens.
    pub(crate) fn encode_content(&self, text: &str) -> Vec<u32> {
        let mut prompt = PromptEncoder::continued(self);
        prompt.push_content(text);
        prompt.finish()
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

    /// Returns the special token with the spelling `text`, or `None`.
    pub(crate) fn special_token(&self, text: &str) -> Option<u32> {
        match self.encode_markup(text)[..] {
            [token] if self.is_special(token) => Some(token),
            _ => None,
        }
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

    /// Returns the tokens that may begin `text` or a text that begins like it, with or without a
    /// space before it: for `ok: true`, these are `o`, `ok`, ` o`, ` ok`, `ok:` and others.
    pub(crate) fn beginnings_of(&self, text: &str) -> Vec<u32> {
        let tokens = 0..self.vocabulary.tok_trie().vocab_size() as u32;
        let is_beginning = |token: &u32| {
            let bytes = self.bytes(*token).trim_ascii_start();
            !bytes.is_empty() && text.as_bytes().starts_with(bytes)
        };
        tokens.filter(is_beginning).collect()
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

    /// Returns the vocabulary as an environment for the grammar engine.
    pub(crate) fn token_environment(&self) -> TokEnv {
        self.vocabulary.clone()
    }
}

/// The vocabulary of a model. It implements [`TokenizerEnv`], which the grammar engine requires.
struct Vocabulary {
    trie: TokTrie,
    /// The tokenizer without its Unicode normalizer. The normalizer could replace characters from a
    /// schema or a question with equivalent characters.
    exact: tokenizers::Tokenizer,
    kind: VocabularyKind,
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode = |text: &str| encode(&self.exact, text, self.kind);
        let tokens = self.trie.tokenize_with_greedy_fallback(bytes, encode);
        // The tokens must decode to exactly `bytes`. Some vocabularies do not round-trip every
        // text. In this case, the bytes are tokenized greedily.
        match self.trie.decode_raw(&tokens) == bytes {
            true => tokens,
            false => self.trie.greedy_tokenize(bytes),
        }
    }
}

impl VocabularyKind {
    fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        match gguf.required_text("tokenizer.ggml.model")? {
            "gpt2" => Ok(Self::ByteLevel),
            "llama" => Ok(Self::SentencePiece),
            other => {
                Err(LoadError::InvalidTokenizer { reason: format!("unsupported tokenizer model `{other}`") })
            }
        }
    }
}

impl TokenType {
    /// Returns `true` for tokens that are markup and not text.
    fn is_special(self, kind: VocabularyKind) -> bool {
        match self {
            Self::Control | Self::Unknown => true,
            Self::UserDefined => kind == VocabularyKind::ByteLevel,
            Self::Normal | Self::Unused | Self::Byte => false,
        }
    }

    /// Returns `true` for tokens that are recognized in any text before it is tokenized.
    fn is_added_text(self, kind: VocabularyKind) -> bool {
        self == Self::UserDefined && kind == VocabularyKind::SentencePiece
    }
}

fn encode(tokenizer: &tokenizers::Tokenizer, text: &str, kind: VocabularyKind) -> Vec<u32> {
    let spaced = match kind {
        VocabularyKind::ByteLevel => None,
        VocabularyKind::SentencePiece => {
            Some(text.replace(' ', sentence_piece::SPACE.encode_utf8(&mut [0; 4])))
        }
    };
    // Both kinds have a token for every byte, so encoding does not fail.
    let encoding = tokenizer.encode_fast(spaced.as_deref().unwrap_or(text), false);
    encoding.map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
}

/// Returns the token to insert at the beginning of each prompt, or `None`.
///
/// Source of the defaults: llama.cpp, `src/llama-vocab.cpp`, `llama_vocab::impl::load`.
fn begin_token(gguf: &Gguf, kind: VocabularyKind) -> Option<u32> {
    let default = kind == VocabularyKind::SentencePiece || byte_level::adds_begin_by_default(gguf);
    let is_added = gguf.bool("tokenizer.ggml.add_bos_token").unwrap_or(default);
    let token = gguf.integer("tokenizer.ggml.bos_token_id").filter(|_| is_added)?;
    u32::try_from(token).ok()
}

/// Returns the end-of-turn tokens: `declared`, which is the end-of-sequence token of the file, the
/// end-of-turn and end-of-message tokens, if the file has them, and special tokens with a spelling
/// in [`END_SPELLINGS`].
fn end_tokens(gguf: &Gguf, declared: u32, tokens: &[&str], types: &[TokenType]) -> Vec<u32> {
    let mut ends = vec![declared];
    let keys = ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
    let named = keys.iter().filter_map(|key| gguf.integer(key)).filter_map(|id| u32::try_from(id).ok());
    let spelled = (0u32..).zip(tokens.iter().zip(types)).filter(|(_, (token, kind))| {
        matches!(kind, TokenType::Control | TokenType::UserDefined) && END_SPELLINGS.contains(token)
    });
    for id in named.chain(spelled.map(|(id, _)| id)) {
        if !ends.contains(&id) && (id as usize) < tokens.len() {
            ends.push(id);
        }
    }
    ends
}

fn tokens_where(words: &[Vec<u8>], test: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    (0u32..).zip(words).filter(|(_, word)| test(word)).map(|(token, _)| token).collect()
}

fn spellings(
    tokens: &[&str],
    types: &[TokenType],
    test: impl Fn(TokenType) -> bool,
) -> Result<TokenSpellings, LoadError> {
    let matching = (0u32..).zip(tokens.iter().zip(types)).filter(|(_, (_, kind))| test(**kind));
    TokenSpellings::new(matching.map(|(id, (token, _))| (id, *token)))
}

fn markup_edges(tokens: &[&str], types: &[TokenType], kind: VocabularyKind) -> HashSet<char> {
    let special = tokens.iter().zip(types).filter(|(_, token)| token.is_special(kind));
    special.flat_map(|(text, _)| text.chars().next().into_iter().chain(text.chars().next_back())).collect()
}

fn token_texts(gguf: &Gguf) -> Result<Vec<&str>, LoadError> {
    const KEY: &str = "tokenizer.ggml.tokens";
    let tokens = gguf.array(KEY).ok_or_else(|| gguf.missing_entry_error(KEY))?;
    let mut texts = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        let Value::String(text) = token else {
            return Err(gguf.invalid_entry(KEY, &format!("entry {index} is not text")));
        };
        texts.push(text.as_str());
    }
    Ok(texts)
}

/// Returns the type of each token. Without the array of types, all tokens are normal.
fn token_types(gguf: &Gguf) -> Result<Vec<TokenType>, LoadError> {
    let kinds = gguf.array("tokenizer.ggml.token_type").unwrap_or_default();
    let count = token_texts(gguf)?.len();
    Ok((0..count).map(|index| kinds.get(index).map_or(TokenType::Normal, token_type)).collect())
}

fn token_type(value: &Value) -> TokenType {
    let number = match value {
        Value::I32(kind) => u64::try_from(*kind).unwrap_or_default(),
        other => other.to_u64().unwrap_or_default(),
    };
    match number {
        2 => TokenType::Unknown,
        3 => TokenType::Control,
        4 => TokenType::UserDefined,
        5 => TokenType::Unused,
        6 => TokenType::Byte,
        _ => TokenType::Normal,
    }
}

/// Returns the bytes of each token, by token id. The bytes of a special token begin with
/// `TokTrie::SPECIAL_TOKEN_MARKER`, which is invalid in UTF-8.
///
/// A token has no bytes if it is unused, longer than [`MAX_TOKEN_BYTES`], or contains a character
/// that byte-level BPE does not use.
fn token_bytes(tokens: &[&str], types: &[TokenType], kind: VocabularyKind) -> Vec<Vec<u8>> {
    let alphabet = byte_level::byte_alphabet();
    let word = |(token, token_type): (&&str, &TokenType)| match (token_type, kind) {
        (TokenType::Unused, _) => Vec::new(),
        (special, _) if special.is_special(kind) => {
            [&[TokTrie::SPECIAL_TOKEN_MARKER], token.as_bytes()].concat()
        }
        (TokenType::Byte, _) => sentence_piece::byte_of(token).into_iter().collect(),
        (_, VocabularyKind::SentencePiece) => token.replace(sentence_piece::SPACE, " ").into_bytes(),
        (_, VocabularyKind::ByteLevel) => token
            .chars()
            .map(|letter| alphabet.get(&letter).copied())
            .collect::<Option<_>>()
            .unwrap_or_default(),
    };
    let mut words: Vec<Vec<u8>> = tokens.iter().zip(types).map(word).collect();
    words.iter_mut().filter(|word| word.len() > MAX_TOKEN_BYTES).for_each(Vec::clear);
    words
}
