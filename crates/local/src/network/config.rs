//! The architecture and dimensions of a model, read from the metadata of its file.
//!
//! Differences between architectures are data in [`Config`]. The layers do not depend on the
//! architecture.

use super::rope_config::RopeConfig;
use crate::LoadError;
use crate::gguf::Gguf;

/// The supported model architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    Qwen2,
    Qwen3,
    Llama,
    Mistral3,
    Gemma3,
    Phi3,
    SmolLm3,
}

impl Architecture {
    const ALL: [Self; 7] =
        [Self::Qwen2, Self::Qwen3, Self::Llama, Self::Mistral3, Self::Gemma3, Self::Phi3, Self::SmolLm3];
    /// The names of the supported architectures, for [`LoadError::UnsupportedArchitecture`].
    const SUPPORTED: &'static str = "qwen2, qwen3, llama, mistral3, gemma3, phi3, smollm3";

    fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        let name = gguf.required_text("general.architecture")?;
        Self::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            LoadError::UnsupportedArchitecture { found: name.to_owned(), supported: Self::SUPPORTED }
        })
    }

    /// The value of `general.architecture`, which is also the prefix of the metadata keys.
    fn name(self) -> &'static str {
        match self {
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Llama => "llama",
            Self::Mistral3 => "mistral3",
            Self::Gemma3 => "gemma3",
            Self::Phi3 => "phi3",
            Self::SmolLm3 => "smollm3",
        }
    }

    /// Returns `true` if the rotary embedding rotates pairs of neighboring numbers, as in
    /// converted Llama files. In files of other architectures, a pair consists of one number from
    /// the first half of a head and one number from the second half.
    ///
    /// Source: llama.cpp, `src/llama-model.cpp`, `llama_model_rope_type`.
    fn is_interleaved(self) -> bool {
        matches!(self, Self::Llama | Self::Mistral3 | Self::SmolLm3)
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
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_size: usize,
    pub(super) context: usize,
    pub(super) epsilon: f32,
    /// The factor of the embeddings, or `None` if they are used unchanged.
    pub(super) embedding_scale: Option<f64>,
    /// The factor of the attention scores.
    pub(super) attention_scale: f64,
    pub(super) activation: Activation,
    /// The rotary embedding of layers with [`LayerRotary::Global`].
    pub(super) rope: RopeConfig,
    /// The rotary embedding of layers with [`LayerRotary::Local`].
    pub(super) local_rope: Option<RopeConfig>,
    layer_pattern: LayerPattern,
}

/// The activation function of the feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Silu,
    /// GELU with the approximation by the hyperbolic tangent.
    GeluTanh,
}

/// The differences between the layers of a model.
#[derive(Debug, Clone, Copy)]
enum LayerPattern {
    /// All layers are equal.
    Uniform,
    /// Every layer attends to the last `window` tokens, except each `period`-th layer, which
    /// attends to all tokens.
    SlidingWindow { window: usize, period: usize },
    /// Each `period`-th layer has no rotary embedding.
    NoRotary { period: usize },
}

/// The parameters of one layer that differ between the layers of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerConfig {
    pub(super) rotary: LayerRotary,
    /// The number of tokens that a token attends to, including itself. `None` if it attends to all
    /// earlier tokens.
    pub(super) window: Option<usize>,
}

/// The rotary embedding of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerRotary {
    None,
    Global,
    Local,
}

impl Config {
    pub(super) fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        let architecture = Architecture::read(gguf)?;
        let key = |name: &str| format!("{}.{name}", architecture.name());
        reject_mixture_of_experts(gguf, &key)?;
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
        let context = required_bounded(gguf, &key("context_length"), MAX_CONTEXT)?;
        let rope = RopeConfig::read(gguf, &key, head_size, context, architecture.is_interleaved())?;
        let config = Self {
            layers: required_bounded(gguf, &key("block_count"), MAX_LAYERS)?,
            heads,
            kv_heads,
            head_size,
            context,
            epsilon: gguf.float(&epsilon).ok_or_else(|| gguf.missing_entry_error(&epsilon))? as f32,
            embedding_scale: None,
            attention_scale: (head_size as f64).powf(-0.5),
            activation: Activation::Silu,
            rope,
            local_rope: None,
            layer_pattern: LayerPattern::Uniform,
        };
        match architecture {
            Architecture::Gemma3 => config.into_gemma3(gguf, &key, width),
            // Source: llama.cpp, `src/models/smollm3.cpp` (`n_no_rope_layer_step = 4`).
            Architecture::SmolLm3 => {
                Ok(Self { layer_pattern: LayerPattern::NoRotary { period: 4 }, ..config })
            }
            _ => Ok(config),
        }
    }

    /// Applies the differences of Gemma 3. The norms around attention and feed-forward network are
    /// read from the tensors of the file.
    ///
    /// Source: llama.cpp, `src/models/gemma3.cpp` (scales, activation, layers), and
    /// `src/llama-model.cpp`, case `LLM_ARCH_GEMMA3` (period 6, frequency base 10,000 of the layers
    /// with a sliding window, attention scale of the model with 62 layers).
    fn into_gemma3(self, gguf: &Gguf, key: &dyn Fn(&str) -> String, width: usize) -> Result<Self, LoadError> {
        let window = required_bounded(gguf, &key("attention.sliding_window"), MAX_CONTEXT)?;
        let period = gguf.integer(&key("attention.sliding_window_pattern")).unwrap_or(6).max(1);
        let base = gguf.float(&key("rope.freq_base_swa")).unwrap_or(10_000.0);
        let attention_scale = match self.layers {
            62 => ((width / self.heads) as f64).powf(-0.5),
            _ => self.attention_scale,
        };
        Ok(Self {
            embedding_scale: Some((width as f64).sqrt()),
            attention_scale,
            activation: Activation::GeluTanh,
            local_rope: Some(self.rope.without_scaling(base)),
            layer_pattern: LayerPattern::SlidingWindow { window, period },
            ..self
        })
    }

    /// Returns the parameters of the layer at `index`.
    pub(super) fn layer(&self, index: usize) -> LayerConfig {
        let is_last_of = |period: usize| (index + 1).is_multiple_of(period);
        let global = LayerConfig { rotary: LayerRotary::Global, window: None };
        match self.layer_pattern {
            LayerPattern::SlidingWindow { window, period } if !is_last_of(period) => {
                LayerConfig { rotary: LayerRotary::Local, window: Some(window) }
            }
            LayerPattern::NoRotary { period } if is_last_of(period) => {
                LayerConfig { rotary: LayerRotary::None, ..global }
            }
            _ => global,
        }
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

/// Fails if the model is a mixture of experts. Without this check, the file would be reported as
/// damaged.
fn reject_mixture_of_experts(gguf: &Gguf, key: &dyn Fn(&str) -> String) -> Result<(), LoadError> {
    match gguf.integer(&key("expert_count")) {
        None | Some(0) => Ok(()),
        Some(_) => Err(LoadError::UnsupportedFeature {
            feature: "a mixture of experts".to_owned(),
            supported: "a dense model of an architecture out of \
                qwen2, qwen3, llama, mistral3, gemma3, phi3, smollm3",
        }),
    }
}
