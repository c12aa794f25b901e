//! The shape of a model, as its file declares it.

use crate::LoadError;
use crate::gguf::Gguf;

/// The families of models that this engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    Qwen2,
    Qwen3,
    Llama,
}

impl Architecture {
    /// The names that [`LoadError::Architecture`] offers.
    pub(super) const SUPPORTED: &'static str = "qwen2, qwen3, llama";

    fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        match gguf.required_text("general.architecture")? {
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            "llama" => Ok(Self::Llama),
            other => Err(LoadError::Architecture { found: other.to_owned(), supported: Self::SUPPORTED }),
        }
    }

    /// Converted llama files interleave the halves that a rotation pairs; the others keep them
    /// apart.
    pub(super) fn rotates_neighbours(self) -> bool {
        self == Self::Llama
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Llama => "llama",
        }
    }
}

/// More than any model has. A header that asks for more is damaged, and must not cost the memory
/// that it asks for.
const MOST_LAYERS: usize = 1024;
const LARGEST_HEAD: usize = 1024;
const LONGEST_CONTEXT: usize = 1 << 20;

/// The numbers that fix a model's shape.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) architecture: Architecture,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_size: usize,
    pub(super) context: usize,
    pub(super) epsilon: f32,
    pub(super) rope_base: f64,
}

impl Config {
    pub(super) fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        let architecture = Architecture::read(gguf)?;
        let key = |name: &str| format!("{}.{name}", architecture.prefix());
        refuse_variants(gguf, &key)?;
        let heads = gguf.required_integer(&key("attention.head_count"))?;
        let kv_heads = gguf.integer(&key("attention.head_count_kv")).unwrap_or(heads);
        let width = gguf.required_integer(&key("embedding_length"))?;
        if heads == 0 || kv_heads == 0 || heads % kv_heads != 0 {
            return Err(gguf.damaged(&key("attention.head_count"), &format!("{heads} heads over {kv_heads}")));
        }
        let head_size = gguf.integer(&key("attention.key_length")).unwrap_or(width / heads);
        if !head_size.is_multiple_of(2) || !(2..=LARGEST_HEAD).contains(&head_size) {
            return Err(gguf.damaged(&key("attention.key_length"), &format!("heads of {head_size} numbers")));
        }
        let epsilon = key("attention.layer_norm_rms_epsilon");
        Ok(Self {
            architecture,
            layers: at_most(gguf, &key("block_count"), MOST_LAYERS)?,
            heads,
            kv_heads,
            head_size,
            context: at_most(gguf, &key("context_length"), LONGEST_CONTEXT)?,
            epsilon: gguf.float(&epsilon).ok_or_else(|| gguf.lacks(&epsilon))? as f32,
            rope_base: gguf.float(&key("rope.freq_base")).unwrap_or(10_000.0),
        })
    }
}

/// A number that is neither 0 nor more than `most`.
fn at_most(gguf: &Gguf, key: &str, most: usize) -> Result<usize, LoadError> {
    let number = gguf.required_integer(key)?;
    match (1..=most).contains(&number) {
        true => Ok(number),
        false => Err(gguf.damaged(key, &format!("{number} is not from 1 to {most}"))),
    }
}

/// Variants of a known family that would load and then compute nonsense.
fn refuse_variants(gguf: &Gguf, key: &dyn Fn(&str) -> String) -> Result<(), LoadError> {
    let scaling = gguf.text(&key("rope.scaling.type")).filter(|kind| *kind != "none");
    if let Some(kind) = scaling {
        return Err(LoadError::Variant { what: format!("rope scaling `{kind}`") });
    }
    if gguf.integer(&key("expert_count")).is_some_and(|experts| experts > 0) {
        return Err(LoadError::Variant { what: "a mixture of experts".to_owned() });
    }
    Ok(())
}
