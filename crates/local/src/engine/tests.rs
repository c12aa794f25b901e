use tempfile::TempDir;

use super::*;
use crate::family_files::write_family;
use crate::sampler::Sampler;

fn engine(folder: &TempDir) -> Engine {
    let path = folder.path().join("tiny.gguf");
    write_family(&path, "qwen2", 1);
    let options = EngineOptions {
        device: ComputeDevice::Cpu,
        prefix_cache: None,
        memory_bytes: 0,
        thinks: false,
        report_reading: Box::new(|_| ()),
    };
    Engine::load(&path, options, &mut |_| ()).unwrap()
}

const PROMPT: [u32; 3] = [40, 41, 42];

fn proceed(_: &[u8]) -> NextAction {
    NextAction::Continue
}

#[test]
fn probability_of_a_text_is_the_product_of_its_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(&folder);
    let candidates = [vec![50, 51, 52], vec![60], vec![]];
    let probabilities = engine.log_probabilities(&PROMPT, &candidates, &mut proceed).unwrap();

    let mut expected = 0.0;
    for (index, token) in candidates[0].iter().enumerate() {
        let prompt = [&PROMPT, &candidates[0][..index]].concat();
        let logits = engine.logits_after(&prompt, &mut proceed).unwrap();
        let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
        expected += logits[*token as usize] - sum.ln();
    }
    assert!((probabilities[0] - expected).abs() < 1e-3, "{} {expected}", probabilities[0]);
    assert!(probabilities[1] < 0.0 && probabilities[2] == 0.0);

    // The result is known, so nothing is evaluated.
    let evaluated = engine.evaluated_tokens;
    assert_eq!(engine.log_probabilities(&PROMPT, &candidates, &mut proceed).unwrap(), probabilities);
    assert_eq!(engine.evaluated_tokens, evaluated);
}

#[test]
fn a_dropped_request_ends_the_evaluation_of_candidates() {
    let folder = tempfile::tempdir().unwrap();
    let result = engine(&folder).log_probabilities(&PROMPT, &[vec![50]], &mut |_| NextAction::Cancel);
    assert!(matches!(result, Err(EngineError::Dropped)));
}

#[test]
fn banned_first_tokens_do_not_begin_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(&folder);
    let mut generate = |banned_first_tokens: Vec<u32>| {
        let job = GenerationJob {
            constraint: None,
            sampler: Sampler::new(0.0, 1.0, None),
            max_tokens: 8,
            close_after_tokens: usize::MAX,
            eos_bias: -1e6,
            stop_tokens: Vec::new(),
            banned_tokens: Vec::new(),
            banned_first_tokens,
            is_json: false,
        };
        engine.generate(&PROMPT, job, &mut proceed).unwrap().tokens
    };
    let free = generate(Vec::new());
    let other = generate(vec![free[0]]);
    assert_ne!(other[0], free[0]);
    // A ban of another token changes nothing.
    assert_eq!(generate(vec![other[0]]), free);
}
