//! How messages travel over a pair of byte streams: one a line.
//!
//! rmcp reads lines too, but leaves a call pending for ever when its answer is too long, too deep, cut or no
//! text. Here such an answer becomes an error of the call that it belongs to, and noise is dropped.

mod client;
mod envelope;
mod lines;
mod notices;
mod reports;
mod server;
mod writer;

pub(crate) use client::{ClientWire, Patience};
pub(crate) use notices::Notices;
pub(crate) use reports::subscribe;
pub(crate) use server::ServerWire;

#[cfg(test)]
mod tests;
