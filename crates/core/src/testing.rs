//! What tests of programs with haft need (feature `testing`).

mod scripted;

pub use scripted::ScriptedModel;
