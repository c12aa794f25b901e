#![doc = include_str!("../README.md")]

mod cassette;
pub mod conformance;
mod example;
mod scripted;
mod scripted_reply;
mod test_model;

pub use cassette::{Cassette, CassetteError, CassetteMismatch, CassetteMode, CassetteModel, UnknownMode};
pub use example::{ExampleError, example};
pub use scripted::ScriptedModel;
pub use test_model::{ArgumentsError, TestModel};
