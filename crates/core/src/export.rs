//! Re-exports of crates used in signatures and in generated code.

pub use async_trait::async_trait;
pub use schemars;
pub use serde_json;
