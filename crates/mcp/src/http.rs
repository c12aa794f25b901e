//! The client side of streamable HTTP: rmcp's transport over a `reqwest` client.

mod awaited;
pub(crate) mod challenge;
mod client;
mod error;
mod event_size;
mod forgotten;
mod oversized;
mod post;
mod reply;
mod resumption;
mod secrets;
mod sse;

use std::collections::{BTreeMap, HashMap};

use ::http::{HeaderName, HeaderValue};
use rmcp::{
    model::ProtocolVersion,
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClient, StreamableHttpClientTransportConfig},
    },
};

pub(crate) use self::client::{HttpClient, HttpError, client_builder, new_client};
pub(crate) use self::error::{HandshakeFailure, may_be_sse_server, needs_connection};
pub(crate) use self::sse::SseTransport;
use crate::HttpServer;

/// The maximum number of requests of a connection that wait for the beginning of their response.
const MAX_CONCURRENT_REQUESTS: usize = 16_384;

/// The maximum number of messages between the transport and rmcp, in each direction.
const CHANNEL_CAPACITY: usize = 64;

/// Creates the transport for `server` over `client`.
///
/// # Errors
///
/// Returns a description of an invalid header.
pub(crate) fn transport<C: StreamableHttpClient + Sync>(
    server: &HttpServer,
    client: C,
) -> Result<StreamableHttpClientTransport<C>, String> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str())
        .custom_headers(parse_headers(&server.headers)?)
        .max_concurrent_requests(MAX_CONCURRENT_REQUESTS)
        .max_sse_event_size(server.options.max_message_bytes)
        .max_json_response_size(server.options.max_message_bytes);
    config.channel_buffer_capacity = CHANNEL_CAPACITY;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Opens the transport of HTTP with SSE to `server`.
///
/// # Errors
///
/// Fails if a header is invalid, or if the request for the event stream fails.
pub(crate) async fn sse_transport<C>(
    server: &HttpServer,
    client: C,
) -> Result<SseTransport<C>, HandshakeFailure>
where
    C: StreamableHttpClient<Error = reqwest::Error> + Sync,
{
    let opened = SseTransport::open(server, client, parse_headers(&server.headers)?).await;
    opened.map_err(|error| HandshakeFailure::from_http(&error))
}

/// Parses `headers`.
///
/// # Errors
///
/// Returns a description of an invalid header, without its value.
pub(crate) fn parse_headers(
    headers: &BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (&String, &String)| {
        let invalid = |part: &str| format!("the {part} of the header {name:?} is invalid");
        let parsed = HeaderName::try_from(name.as_str()).map_err(|_| invalid("name"))?;
        // The value may be a secret, so it is not part of the error.
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| invalid("value"))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    headers.iter().map(header).collect()
}

/// Returns `true` if the revision of a request with `headers` has sessions and resumable streams.
/// Revision 2026-07-28 removed both.
fn has_sessions(headers: &HashMap<HeaderName, HeaderValue>) -> bool {
    let name = HeaderName::from_static("mcp-protocol-version");
    let version = headers.get(&name).and_then(|version| version.to_str().ok());
    // Revisions are dates.
    version.is_none_or(|version| version < ProtocolVersion::V_2026_07_28.as_str())
}
