use std::collections::BTreeMap;

use candle_core::Device;
use tempfile::TempDir;

use super::Network;
use crate::family_files::{FAMILIES, write_family};
use crate::gguf::Gguf;

fn load(folder: &TempDir, family: &str) -> Network {
    let path = folder.path().join(format!("{family}.gguf"));
    write_family(&path, family, 1);
    let mut gguf = Gguf::open(&path, Device::Cpu).unwrap();
    let vocabulary = gguf.array("tokenizer.ggml.tokens").unwrap().len();
    Network::load(&mut gguf, vocabulary, &mut |_| {}).unwrap()
}

/// A prompt longer than the sliding window and the original context of the files.
fn prompt() -> Vec<u32> {
    (0..150).map(|index| 3 + index * 37 % 250).collect()
}

fn assert_close(actual: &[f32], expected: &[f32], what: &str) {
    let difference = actual.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(difference < 1e-3, "{what}: {difference}");
}

#[test]
fn batched_prompt_equals_single_tokens_in_each_family() {
    let folder = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let mut network = load(&folder, family);
        let batched = network.forward(&prompt()).unwrap();
        network.truncate_cache(0);
        let single = prompt().iter().map(|token| network.forward(&[*token]).unwrap()).last().unwrap();
        assert_close(&single, &batched, family);
        network.truncate_cache(140);
        let all = network.forward_all(&prompt()[140..]).unwrap();
        assert_eq!(all.len(), 10);
        assert_close(&all[9], &batched, family);
        network.truncate_cache(70);
        let continued = network.forward(&prompt()[70..]).unwrap();
        assert_close(&continued, &batched, family);
    }
}

/// The log-probabilities after prompts of 5, 40 and 150 tokens equal those of llama.cpp (package
/// `xllamacpp` 2026.10.11549). To record them again, write the files with [`write_family`] and the
/// seed 1 into a folder, and run `tests/llama_cpp.py` with it.
#[test]
fn probabilities_equal_those_of_llama_cpp_in_each_family() {
    type Likeliest = Vec<(usize, f32)>;
    let expected: BTreeMap<String, BTreeMap<usize, Likeliest>> =
        serde_json::from_str(include_str!("tests/llama_cpp.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let mut network = load(&folder, family);
        for (length, likeliest) in &expected[family] {
            network.truncate_cache(0);
            let logits = network.forward(&prompt()[..*length]).unwrap();
            let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
            for (token, expected) in likeliest {
                let actual = logits[*token] - sum.ln();
                assert!(
                    (actual - expected).abs() < 0.03,
                    "{family}, {length}, {token}: {actual}, {expected}"
                );
            }
        }
    }
}
