//! The architecture and dimensions of a model, read from the metadata of its file.

use crate::LoadError;
use crate::gguf::Gguf;

/// The supported model architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    Qwen2,
    Qwen3,
    Llama,
}

impl Architecture {
    /// The names of the supported architectures, for [`LoadError::UnsupportedArchitecture`].
    pub(super) const SUPPORTED: &'static str = "qwen2, qwen3, llama";

    fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        match gguf.required_text("general.architecture")? {
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            "llama" => Ok(Self::Llama),
            other => Err(LoadError::UnsupportedArchitecture {
                found: other.to_owned(),
                supported: Self::SUPPORTED,
            }),
        }
    }

    /// Returns `true` if the rotary embedding rotates pairs of neighboring numbers, as in
    /// converted Llama files. In files of other architectures, a pair consists of one number from
    /// the first half of a head and one number from the second half.
    pub(super) fn is_interleaved(self) -> bool {
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

/// The maximum number of layers. Known models have fewer. The limit bounds the memory that a
/// damaged header can request.
const MAX_LAYERS: usize = 1024;
/// The maximum number of dimensions of an attention head. The limit bounds the memory that a
/// damaged header can request.
const MAX_HEAD_SIZE: usize = 1024;
/// The maximum size of the context window, in tokens. The limit bounds the memory that a damaged
/// header can request.
const MAX_CONTEXT: usize = 1 << 20;

/// The dimensions of a model.
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
        reject_unsupported(gguf, &key)?;
        let heads = gguf.required_integer(&key("attention.head_count"))?;
        let kv_heads = gguf.integer(&key("attention.head_count_kv")).unwrap_or(heads);
        let width = gguf.required_integer(&key("embedding_length"))?;
        if heads == 0 || kv_heads == 0 || heads % kv_heads != 0 {
            return Err(
                gguf.invalid_entry(&key("attention.head_count"), &format!("{heads} heads over {kv_heads}"))
            );
        }
        let head_size = gguf.integer(&key("attention.key_length")).unwrap_or(width / heads);
        if !head_size.is_multiple_of(2) || !(2..=MAX_HEAD_SIZE).contains(&head_size) {
            return Err(
                gguf.invalid_entry(&key("attention.key_length"), &format!("heads of {head_size} numbers"))
            );
        }
        let epsilon = key("attention.layer_norm_rms_epsilon");
        Ok(Self {
            architecture,
            layers: required_bounded(gguf, &key("block_count"), MAX_LAYERS)?,
            heads,
            kv_heads,
            head_size,
            context: required_bounded(gguf, &key("context_length"), MAX_CONTEXT)?,
            epsilon: gguf.float(&epsilon).ok_or_else(|| gguf.missing_entry_error(&epsilon))? as f32,
            rope_base: gguf.float(&key("rope.freq_base")).unwrap_or(10_000.0),
        })
    }
}

/// Reads the required metadata entry `key`. Fails if the entry is not an integer from 1 to `max`.
fn required_bounded(gguf: &Gguf, key: &str, max: usize) -> Result<usize, LoadError> {
    let number = gguf.required_integer(key)?;
    match (1..=max).contains(&number) {
        true => Ok(number),
        false => Err(gguf.invalid_entry(key, &format!("{number} is not from 1 to {max}"))),
    }
}

/// Fails if the file uses an unsupported variant of its architecture, such as a mixture of experts.
/// Without this check, a model with scaled rotary positions would load but generate nonsense, and a
/// mixture of experts would be reported as damaged.
fn reject_unsupported(gguf: &Gguf, key: &dyn Fn(&str) -> String) -> Result<(), LoadError> {
    let scaling = gguf.metadata_text(&key("rope.scaling.type")).filter(|kind| *kind != "none");
    if let Some(kind) = scaling {
        return Err(LoadError::UnsupportedFeature { feature: format!("rope scaling `{kind}`") });
    }
    if gguf.integer(&key("expert_count")).is_some_and(|experts| experts > 0) {
        return Err(LoadError::UnsupportedFeature { feature: "a mixture of experts".to_owned() });
    }
    Ok(())
}
