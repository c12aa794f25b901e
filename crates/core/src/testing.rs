//! What tests of programs with haft need (feature `testing`).
//!
//! - [`ScriptedModel`] says what a test tells it to, one step a request.
//! - [`TestModel`] calls every tool once, with arguments made from its schema.
//! - [`example()`] makes a value that fits a schema.

mod every_tool;
mod example;
mod said;
mod scripted;

pub use every_tool::{NoArguments, TestModel};
pub use example::{NoExample, example};
pub use scripted::ScriptedModel;
