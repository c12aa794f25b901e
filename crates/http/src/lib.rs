#![doc = include_str!("../README.md")]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "oauth")]
pub mod oauth;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "client")]
pub mod tls;
