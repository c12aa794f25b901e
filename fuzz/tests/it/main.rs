//! Checks the law about tool names with generated names, and every other law with the official JSON
//! Schema test suite and with mutations of it. The random number generators have fixed seeds, so
//! the inputs are the same in each run.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a panic fails the test")]

use std::thread;

use fastrand::Rng;
use haft_fuzz::{Case, laws, mutation, seeds};

/// The number of mutated inputs for each schema of the test suite.
const MUTATIONS: u64 = 3;

/// A guard that prints the input of a law if the law panics.
struct PrintOnPanic<'i>(&'i [u8]);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("input: {}", String::from_utf8_lossy(self.0));
        }
    }
}

fn check_input(law: fn(&[u8]), input: &[u8]) {
    let guard = PrintOnPanic(input);
    law(input);
    drop(guard);
}

fn check(law: fn(&[u8])) {
    let cases = seeds::load_suite().unwrap();
    let mut rng = Rng::with_seed(0);
    for case in &cases {
        check_input(law, &case.to_bytes());
        for _ in 0..MUTATIONS {
            let other: &Case = rng.choice(&cases).unwrap();
            let case = mutation::crossed_over(case.clone(), other, &mut rng);
            check_input(law, &mutation::mutated(case, &mut rng).to_bytes());
        }
    }
}

#[test]
fn schema_law_holds() {
    check(laws::check_schema);
}

#[test]
fn repair_law_holds() {
    check(laws::check_repair);
}

#[test]
fn arguments_law_holds() {
    check(laws::check_arguments);
}

#[test]
fn provider_law_holds() {
    check(laws::check_provider);
}

#[test]
fn name_law_holds() {
    for seed in 0..1_000 {
        let mut rng = Rng::with_seed(seed);
        let letters =
            ["a", "_", "-", ".", "0", "ü", "\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "_00000000000a"];
        let text: String = (0..rng.u8(..60)).map(|_| *rng.choice(&letters).unwrap()).collect();
        check_input(laws::check_name, text.as_bytes());
    }
}
