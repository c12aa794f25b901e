//! Runs the Rust code blocks of the book as doctests.

#[doc = include_str!("../../docs/src/writing-a-tool.md")]
mod writing_a_tool {}

#[doc = include_str!("../../docs/src/schemas.md")]
mod schemas {}

#[doc = include_str!("../../docs/src/around-a-call.md")]
mod around_a_call {}

#[doc = include_str!("../../docs/src/mcp-servers.md")]
mod mcp_servers {}

#[doc = include_str!("../../docs/src/http-apis.md")]
mod http_apis {}

#[doc = include_str!("../../docs/src/models.md")]
mod models {}

#[doc = include_str!("../../docs/src/how-a-run-works.md")]
mod how_a_run_works {}

#[doc = include_str!("../../docs/src/testing.md")]
mod testing {}

#[doc = include_str!("../../docs/src/known-pains.md")]
mod known_pains {}

#[doc = include_str!("../../docs/src/coming-from-tools.md")]
mod coming_from_tools {}

#[doc = include_str!("../../docs/src/coming-from-agents.md")]
mod coming_from_agents {}

#[doc = include_str!("../../docs/src/coming-from-runs.md")]
mod coming_from_runs {}

#[doc = include_str!("../../docs/src/coming-from-models.md")]
mod coming_from_models {}
