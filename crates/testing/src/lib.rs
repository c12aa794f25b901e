#![doc = include_str!("../README.md")]

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
