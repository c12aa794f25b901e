//! Crates of others that appear in signatures and in code written by the macros.

pub use async_trait::async_trait;
pub use schemars;
pub use serde_json;
