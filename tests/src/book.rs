//! Runs the Rust code blocks of the book as doctests.

#[doc = include_str!("../../docs/src/writing-a-tool.md")]
mod writing_a_tool {}

#[doc = include_str!("../../docs/src/schemas.md")]
mod schemas {}

#[doc = include_str!("../../docs/src/around-a-call.md")]
mod around_a_call {}

#[doc = include_str!("../../docs/src/mcp-servers.md")]
mod mcp_servers {}

#[doc = include_str!("../../docs/src/models.md")]
mod models {}

#[doc = include_str!("../../docs/src/how-a-run-works.md")]
mod how_a_run_works {}

#[doc = include_str!("../../docs/src/testing.md")]
mod testing {}
