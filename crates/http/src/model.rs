//! HTTP clients of models: what the adapters for OpenAI, Anthropic, Gemini and compatible servers
//! share.
//!
//! The builder of a model collects [`HttpOptions`], which create a [`Connection`]. A
//! [`ModelClient`] sends the requests of a [`ModelApi`] over it. A request runs under a
//! [`RequestTimer`] with the [`Timeouts`] of its client, and is repeated by a [`RetryPolicy`]. Its
//! response is an [`HttpReply`], whose events a [`ReplyStream`] reads. [`Secrets`] are removed from
//! its errors.

mod build_error;
mod client;
mod connection;
mod endpoint;
mod event_parser;
mod http_reply;
mod options;
mod reply_stream;
mod request_error;
mod retry;
mod secrets;
mod timeouts;
mod transport;

#[doc(hidden)]
pub use {
    haft_core::call::BoxError,
    reqwest::{Client as HttpClient, Request, Response},
    secrecy::SecretString,
    serde_json::Value as JsonValue,
    tower::{Layer, Service},
};

pub use self::{
    build_error::BuildError,
    client::{ModelApi, ModelClient, chat_span, record_response},
    connection::Connection,
    endpoint::{address_of, parse_base_url},
    event_parser::{EventParser, EventTooLong, ServerEvent},
    http_reply::{HttpReply, root_cause},
    options::{HttpOptions, KeyHeader},
    reply_stream::{ReplyStream, StreamAccumulator, USAGE_WAIT},
    request_error::RequestError,
    retry::RetryPolicy,
    secrets::Secrets,
    timeouts::{RequestTimer, Timeouts},
    transport::HttpService,
};
