use std::convert::Infallible;

use super::{Candidate, KnownLogits, best_candidate};

/// The vocabulary of the tests: `get` (0), `_capital` (1), `_time` (2), `none` (3), `(` (4).
const TOKENS: usize = 5;

/// A model that writes `get` with 60 %, and then `_capital` with 98 %.
fn logits_after(beginning: &[u32]) -> Result<Vec<f32>, Infallible> {
    let probabilities: [f32; TOKENS] = match beginning {
        [] => [0.6, 0.0, 0.0, 0.4, 0.0],
        [0] => [0.0, 0.98, 0.02, 0.0, 0.0],
        _ => [0.0, 0.0, 0.0, 0.0, 1.0],
    };
    Ok(probabilities.map(f32::ln).to_vec())
}

fn candidate(tokens: &[u32], bias: f32) -> Candidate {
    Candidate { tokens: tokens.to_vec(), bias }
}

fn best(candidates: &[Candidate]) -> Option<usize> {
    let Ok(index) = best_candidate(candidates, &mut KnownLogits::new(), logits_after);
    index.map(|choice| choice.index)
}

#[test]
fn whole_text_decides() {
    // A greedy choice of tokens would begin with `get`.
    assert_eq!(best(&[candidate(&[0, 2, 4], 0.0), candidate(&[3], 0.0)]), Some(1));
    assert_eq!(best(&[candidate(&[0, 1, 4], 0.0), candidate(&[3], 0.0)]), Some(0));
}

#[test]
fn bias_is_added_to_the_text() {
    assert_eq!(best(&[candidate(&[0, 1, 4], 0.0), candidate(&[3], 1.0)]), Some(1));
    assert_eq!(best(&[candidate(&[0, 1, 4], 1.0), candidate(&[0, 2, 4], 6.0)]), Some(1));
}

#[test]
fn improbable_candidate_is_better_than_none() {
    assert_eq!(best(&[candidate(&[2, 2], 0.0)]), Some(0));
    assert_eq!(best(&[]), None);
}

#[test]
fn later_searches_reuse_logits() {
    let mut known = KnownLogits::new();
    let evaluated = std::cell::Cell::new(0);
    let mut search = |candidates: &[Candidate]| {
        let found = best_candidate(candidates, &mut known, |beginning| {
            evaluated.set(evaluated.get() + 1);
            logits_after(beginning)
        });
        let Ok(choice) = found;
        (choice.unwrap().index, evaluated.get())
    };
    let candidates = [candidate(&[0, 2, 4], 0.0), candidate(&[3], 0.0)];
    assert_eq!(search(&candidates), (1, 2));
    assert_eq!(search(&candidates), (1, 2));
    assert_eq!(search(&[candidate(&[0, 2, 4], 9.0)]), (0, 3));
}
