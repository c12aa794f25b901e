//! Properties that must hold for untrusted schemas, values, names and arguments.
//!
//! A [law](laws) is a function that panics if an input violates a property. Each program in
//! `fuzz_targets` checks one law with inputs from libFuzzer (`cargo xtask fuzz`). The tests of this
//! package check all laws with the official test suite of JSON Schema and some thousand
//! [mutations](mutation) of it.
//!
//! Inputs are readable text. A [`Case`] is a schema followed by values, as JSON. The input of the
//! law about tool names has one name per line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a violated law panics")]

mod case;
pub mod laws;
pub mod mutation;
pub mod seeds;

pub use case::Case;
