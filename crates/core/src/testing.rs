//! What tests of programs with haft need (feature `testing`).
//!
//! - [`ScriptedModel`] says what a test tells it to, one step a request.
//! - [`TestModel`] calls every tool once, with arguments made from its schema.
//! - [`CassetteModel`] asks a real model once, and from then on replays what it said.
//! - [`conformance`] holds a tool, a source, a model or an agent against what its trait promises.
//! - [`example()`] makes a value that fits a schema.

mod cassette;
pub mod conformance;
mod every_tool;
mod example;
mod said;
mod scripted;

pub use cassette::{Cassette, CassetteError, CassetteMismatch, CassetteMode, CassetteModel, UnknownMode};
pub use every_tool::{NoArguments, TestModel};
pub use example::{NoExample, example};
pub use scripted::ScriptedModel;
