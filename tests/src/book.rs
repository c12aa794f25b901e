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

#[doc = include_str!("../../docs/src/running-an-agent.md")]
mod running_an_agent {}

#[doc = include_str!("../../docs/src/limits.md")]
mod limits {}

#[doc = include_str!("../../docs/src/structured-output.md")]
mod structured_output {}

#[doc = include_str!("../../docs/src/streaming.md")]
mod streaming {}

#[doc = include_str!("../../docs/src/conversations.md")]
mod conversations {}

#[doc = include_str!("../../docs/src/server.md")]
mod server {}

#[doc = include_str!("../../docs/src/approvals.md")]
mod approvals {}

#[doc = include_str!("../../docs/src/stopping-a-run.md")]
mod stopping_a_run {}

#[doc = include_str!("../../docs/src/hooks.md")]
mod hooks {}

#[doc = include_str!("../../docs/src/guardrails.md")]
mod guardrails {}

#[doc = include_str!("../../docs/src/several-agents.md")]
mod several_agents {}

#[doc = include_str!("../../docs/src/pending-queue.md")]
mod pending_queue {}

#[doc = include_str!("../../docs/src/own-driver.md")]
mod own_driver {}

#[doc = include_str!("../../docs/src/testing.md")]
mod testing {}

#[doc = include_str!("../../docs/src/coming-from.md")]
mod coming_from {}
