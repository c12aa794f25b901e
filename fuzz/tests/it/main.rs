//! Every law, held against the official test suite and mutations of it: always the same ones.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "what fails here is the test")]

use std::thread;

use fastrand::Rng;
use haft_fuzz::{Case, laws, mutation, seeds};

/// How many mutations there are of each schema of the suite.
const MUTATIONS: u64 = 3;

/// Shows the input with which a law was broken.
struct Shown<'i>(&'i [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the input: {}", String::from_utf8_lossy(self.0));
        }
    }
}

fn holds_for(law: fn(&[u8]), input: &[u8]) {
    let shown = Shown(input);
    law(input);
    drop(shown);
}

fn holds(law: fn(&[u8])) {
    let cases = seeds::suite().unwrap();
    let mut rng = Rng::with_seed(0);
    for case in &cases {
        holds_for(law, &case.write());
        for _ in 0..MUTATIONS {
            let other: &Case = rng.choice(&cases).unwrap();
            let case = mutation::crossed(case.clone(), other, &mut rng);
            holds_for(law, &mutation::mutated(case, &mut rng).write());
        }
    }
}

#[test]
fn schemas() {
    holds(laws::schema);
}

#[test]
fn repairs() {
    holds(laws::repair);
}

#[test]
fn texts_of_arguments() {
    holds(laws::arguments);
}

#[test]
fn schemas_for_providers() {
    holds(laws::provider);
}

#[test]
fn names() {
    for seed in 0..1_000 {
        let mut rng = Rng::with_seed(seed);
        let letters =
            ["a", "_", "-", ".", "0", "ü", "\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "_00000000000a"];
        let text: String = (0..rng.u8(..60)).map(|_| *rng.choice(&letters).unwrap()).collect();
        holds_for(laws::name, text.as_bytes());
    }
}
