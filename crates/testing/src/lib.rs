#![doc = include_str!("../README.md")]

mod cassette;
pub mod conformance;
mod example;
pub mod model_server;
mod scripted_model;
mod scripted_reply;
mod test_model;

pub use cassette::{Cassette, CassetteError, CassetteMismatch, CassetteMode, CassetteModel, UnknownMode};
pub use example::{ExampleError, generate_example};
pub use scripted_model::ScriptedModel;
pub use test_model::TestModel;
