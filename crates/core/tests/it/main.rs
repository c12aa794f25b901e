//! The core from outside.

mod batch;
mod pipeline;
mod toolset;
mod transcript;
