//! HTTP servers: access control as a `tower` layer, and a hardened listener.
//!
//! [`AccessLayer`] checks the requests for any service: an `axum` router, an MCP endpoint, or a
//! function. [`serve`] runs such a service over HTTP/1.1 with deadlines and limits of connections.
//! Both can be used alone.

mod access;
mod authentication;
pub mod authorization;
mod body;
mod client;
mod config;
mod listener;
mod origin;
mod rate_limit;
mod rejection;
mod write_deadline;

pub use self::{
    access::{Access, AccessLayer},
    body::{BodyError, LimitedBody},
    client::{ClientAddress, ClientKey, ClientSlot, ClientSlots},
    config::{AccessConfig, RejectedRequest},
    listener::{ListenerConfig, serve},
    rejection::{Rejection, ResponseBody, retry_response, text_response},
};
