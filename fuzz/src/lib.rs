//! Properties that must hold for all untrusted schemas, values, tool names and arguments.
//!
//! A [law](laws) is a function that panics if an input violates a property. Each program in
//! `fuzz_targets` checks one law with inputs from libFuzzer (`cargo xtask fuzz`). The tests of this
//! package check the law about tool names with generated names, and all other laws with the
//! official JSON Schema test suite and several thousand [mutations](mutation) of its schemas and
//! values.
//!
//! Inputs are readable text. A [`Case`] is a schema followed by values, both as JSON. The input of
//! the law about tool names contains one name per line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a violated law panics")]

mod case;
pub mod laws;
pub mod mutation;
pub mod seeds;

pub use case::Case;
