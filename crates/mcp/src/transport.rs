//! The stdio transport: JSON-RPC messages over a pair of byte streams, with one message per line.
//!
//! rmcp 3.11 also has a line transport. If a response is too long, too deeply nested, truncated or
//! not UTF-8, that transport leaves the request pending forever. The [`ClientTransport`] in this
//! module fails the request instead. It also drops lines that are not messages
//! (`docs/adr/0014-behaviour-of-dependencies.md`).

mod call_events;
mod client;
mod elicitations;
mod envelope;
mod inexact;
mod lines;
mod response;
mod server;
mod server_events;
mod writer;

pub(crate) use call_events::{CallEvent, CallEvents, ElicitingRequest, EventForwarder, PendingElicitation};
pub(crate) use client::{ClientTransport, TransportLimits};
pub(crate) use elicitations::Elicitations;
#[cfg(any(feature = "http", feature = "http-server"))]
pub(crate) use envelope::Envelope;
#[cfg(feature = "http-server")]
pub(crate) use inexact::inexact_client_response;
#[cfg(any(feature = "http", feature = "http-server"))]
pub(crate) use inexact::inexact_reason;
pub(crate) use inexact::{UNREADABLE, has_omissions, take_omissions};
#[cfg(feature = "http")]
pub(crate) use response::{ResponseKind, parse_error};
pub(crate) use server::ServerTransport;
pub(crate) use server_events::ServerEvents;

#[cfg(test)]
mod tests;
