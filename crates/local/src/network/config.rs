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

    /// Converted llama files interleave the halves that a rotation pairs; the others keep them apart.
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
        let epsilon = key("attention.layer_norm_rms_epsilon");
        Ok(Self {
            architecture,
            layers: gguf.required_integer(&key("block_count"))?,
            heads,
            kv_heads,
            head_size: gguf.integer(&key("attention.key_length")).unwrap_or(width / heads),
            context: gguf.required_integer(&key("context_length"))?,
            epsilon: gguf.float(&epsilon).ok_or_else(|| gguf.lacks(&epsilon))? as f32,
            rope_base: gguf.float(&key("rope.freq_base")).unwrap_or(10_000.0),
        })
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
