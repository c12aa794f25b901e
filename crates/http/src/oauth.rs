//! Requests to OAuth 2.0 authorization servers: their metadata, and the forms of their token
//! endpoints.

mod address;
mod issuer_client;
mod metadata;

pub use self::{
    issuer_client::{IssuerClient, SendError},
    metadata::{fetch_metadata, is_same_issuer},
};
