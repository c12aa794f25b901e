//! What holds for any schema, any value, any name and any text of arguments, whoever wrote them.
//!
//! A [law](laws) takes an input and panics where it does not hold. The programs in `fuzz_targets` hold a law each
//! against what libFuzzer makes up, for as long as one likes (`cargo xtask fuzz`); the tests of this package hold all of
//! them against the official test suite of JSON Schema and some thousand [mutations](mutation) of it.
//!
//! An input is text that a person can read: a [`Case`] is a schema and what is held against it, one after the other
//! as JSON; the input for names is one name a line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken law is a panic")]

mod case;
pub mod laws;
pub mod mutation;
pub mod seeds;

pub use case::Case;
