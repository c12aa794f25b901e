//! The parameters of the rotary position embedding, read from the metadata of a file.
//!
//! The rules are those of llama.cpp: `src/llama-model.cpp`, `llama_model::load_hparams` (keys and
//! defaults), `src/llama-context.cpp`, `llama_context::llama_context` (factor of the magnitude),
//! and `ggml/src/ggml-cpu/ops.cpp`, `rope_yarn` (interpolation).

use crate::LoadError;
use crate::gguf::Gguf;

/// The parameters of a rotary embedding.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RopeConfig {
    /// The number of rotated dimensions of a head. Further dimensions are not rotated.
    pub(super) size: usize,
    /// `true` if neighboring numbers form a pair. `false` if the pair of a number in the first half
    /// of the rotated dimensions is in the second half.
    pub(super) interleaved: bool,
    pub(super) base: f64,
    /// The factor of the cosines and sines.
    pub(super) magnitude: f64,
    pub(super) scaling: RopeScaling,
    pub(super) temperature: Option<QueryTemperature>,
}

/// The adaptation of the frequencies to a context longer than in the training.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RopeScaling {
    None,
    /// All frequencies are divided by `factor`.
    Linear {
        factor: f64,
    },
    /// The low frequencies are divided by `factor`, and the high frequencies are unchanged.
    Yarn {
        factor: f64,
        /// The context size in the training.
        original_context: usize,
        beta_fast: f64,
        beta_slow: f64,
    },
    /// Each frequency is divided by a factor from the tensor `tensor`.
    Factors {
        tensor: &'static str,
    },
}

/// The scale of the queries at late positions: `1 + scale * ln(1 + floor(position / period))`.
///
/// Source: llama.cpp, `src/llama-graph.cpp`, `llm_graph_input_attn_temp::set_input`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QueryTemperature {
    pub(super) scale: f64,
    pub(super) period: usize,
}

impl RopeConfig {
    /// Reads the parameters for heads of `head_size` numbers and a context of `context` tokens.
    /// `key` adds the architecture to the name of a metadata entry.
    pub(super) fn read(
        gguf: &Gguf,
        key: &dyn Fn(&str) -> String,
        head_size: usize,
        context: usize,
        interleaved: bool,
    ) -> Result<Self, LoadError> {
        let size = gguf.integer(&key("rope.dimension_count")).unwrap_or(head_size);
        if !size.is_multiple_of(2) || !(2..=head_size).contains(&size) {
            let reason = format!("{size} of {head_size} dimensions");
            return Err(gguf.invalid_entry(&key("rope.dimension_count"), &reason));
        }
        let original_context = gguf.integer(&key("rope.scaling.original_context_length")).unwrap_or(context);
        let scaling = read_scaling(gguf, key, context, original_context)?;
        let log_multiplier = gguf.float(&key("rope.scaling.yarn_log_multiplier")).unwrap_or(0.0);
        let factor = gguf.float(&key("rope.scaling.attn_factor")).unwrap_or(1.0);
        let scale = gguf.float(&key("attention.temperature_scale")).filter(|scale| *scale != 0.0);
        Ok(Self {
            size,
            interleaved,
            base: gguf.float(&key("rope.freq_base")).unwrap_or(10_000.0),
            magnitude: factor * scaling.magnitude(log_multiplier),
            scaling,
            temperature: scale.map(|scale| QueryTemperature { scale, period: original_context.max(1) }),
        })
    }

    /// Returns the rotary embedding with the same dimensions, the frequency base `base` and no
    /// scaling.
    pub(super) fn without_scaling(&self, base: f64) -> Self {
        Self { base, magnitude: 1.0, scaling: RopeScaling::None, ..self.clone() }
    }
}

fn read_scaling(
    gguf: &Gguf,
    key: &dyn Fn(&str) -> String,
    context: usize,
    original_context: usize,
) -> Result<RopeScaling, LoadError> {
    let factor = || {
        let factor = gguf.float(&key("rope.scaling.factor"));
        let factor = factor.or_else(|| gguf.float(&key("rope.scale_linear"))).filter(|factor| *factor != 0.0);
        factor.unwrap_or(1.0)
    };
    match gguf.metadata_text(&key("rope.scaling.type")) {
        Some("none") => Ok(RopeScaling::None),
        // A file without a type and with a factor has linear scaling.
        None | Some("linear") => Ok(match gguf.has_tensor("rope_freqs.weight") {
            true => RopeScaling::Factors { tensor: "rope_freqs.weight" },
            false => RopeScaling::Linear { factor: factor() },
        }),
        Some("yarn") => Ok(RopeScaling::Yarn {
            factor: factor(),
            original_context,
            beta_fast: gguf.float(&key("rope.scaling.yarn_beta_fast")).unwrap_or(32.0),
            beta_slow: gguf.float(&key("rope.scaling.yarn_beta_slow")).unwrap_or(1.0),
        }),
        // The cached keys cannot change when a conversation grows beyond the original context, so
        // the size of the context window selects the factors, and not the length of the prompt.
        // Source: llama.cpp, `src/llama-model.cpp`, `llama_model::get_rope_factors`.
        Some("longrope") => Ok(RopeScaling::Factors {
            tensor: match context > original_context {
                true => "rope_factors_long.weight",
                false => "rope_factors_short.weight",
            },
        }),
        Some(other) => Err(LoadError::UnsupportedFeature {
            feature: format!("rope scaling `{other}`"),
            supported: "no rope scaling, or one of linear, yarn, longrope",
        }),
    }
}

impl RopeScaling {
    /// Returns the factor of the magnitude. Only YaRN changes the magnitude, by a factor that
    /// depends on `log_multiplier`.
    fn magnitude(&self, log_multiplier: f64) -> f64 {
        let Self::Yarn { factor, .. } = self else { return 1.0 };
        let magnitude = |multiplier: f64| {
            if *factor <= 1.0 { 1.0 } else { 0.1 * multiplier * factor.ln() + 1.0 }
        };
        match log_multiplier {
            0.0 => magnitude(1.0),
            multiplier => magnitude(1.0) / magnitude(multiplier),
        }
    }
}
