use super::*;

/// Returns the fraction of the samples that are token 1.
fn fraction_of_second(logits: &[f32], top_p: f64) -> f64 {
    const SAMPLES: u32 = 2000;
    let mut sampler = Sampler::new(1.0, top_p, Some(0));
    let tokens = (0..SAMPLES).filter_map(|_| sampler.choose(logits, None));
    f64::from(tokens.filter(|token| *token == 1).count() as u32) / f64::from(SAMPLES)
}

#[test]
fn token_at_the_boundary_of_the_nucleus_keeps_its_probability() {
    // The probabilities are 0.6, 0.3 and 0.1.
    let logits = [0.6_f32, 0.3, 0.1].map(f32::ln);
    for (top_p, expected) in [(0.5, 0.0), (0.7, 0.3 / 0.9), (0.85, 0.3 / 0.9), (1.0, 0.3)] {
        let fraction = fraction_of_second(&logits, top_p);
        assert!((fraction - expected).abs() < 0.04, "{fraction} instead of {expected} at {top_p}");
    }
}

#[test]
fn banned_token_is_not_sampled() {
    assert_eq!(fraction_of_second(&[0.0, f32::NEG_INFINITY], 1.0), 0.0);
}
