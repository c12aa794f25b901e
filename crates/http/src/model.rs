//! HTTP clients of models: what the adapters for OpenAI-compatible servers and for other providers
//! share.
//!
//! A request runs under a [`RequestTimer`] with the [`Timeouts`] of its client, and is repeated by
//! a [`RetryPolicy`]. Its response is an [`HttpReply`], whose events an [`EventParser`] reads.
//! [`Secrets`] are removed from its errors.

mod event_parser;
mod http_reply;
mod retry;
mod secrets;
mod timeouts;

pub use self::{
    event_parser::{EventParser, EventTooLong, ServerEvent},
    http_reply::{HttpReply, root_cause},
    retry::RetryPolicy,
    secrets::Secrets,
    timeouts::{RequestTimer, Timeouts},
};
