//! Default limits of all haft crates.
//!
//! The limits of a tool can be changed in its [`ToolPolicy`](crate::tool::ToolPolicy), the limits
//! of schemas in [`SchemaLimits`](crate::schema::SchemaLimits).

use std::time::Duration;

/// Timeout of a tool call: five minutes.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Idle timeout of a tool call to a server: one minute. Each progress notification resets it.
pub const CALL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for listing the tools of a source: thirty seconds.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of pages that are read when the tools of a server are listed.
pub const LIST_PAGES: usize = 100;

/// Timeout of the handshake with a server: ten seconds.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a line, an event or a reply body from a server, in bytes: 16 MiB.
pub const LINE_BYTES: usize = 16 << 20;

/// Timeout of a hook of the host, for example an output validator: one minute.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of the text of a tool result for the model, in bytes of UTF-8: 128 KiB.
pub const RESULT_BYTES: usize = 128 << 10;

/// Maximum total size of the media (images, audio, blobs) in a tool result, in bytes: 16 MiB.
pub const MEDIA_BYTES: usize = 16 << 20;

/// Timeout for writing to a [`ResultStore`](crate::pipeline::ResultStore): ten seconds.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the arguments of a call, in bytes: 1 MiB. Longer arguments are not parsed.
pub const ARGUMENT_BYTES: usize = 1 << 20;

/// Maximum nesting depth of arguments and results: 100 levels.
///
/// `serde_json` parses at most 128 levels, and a saved run adds a few levels around each value.
pub const VALUE_DEPTH: usize = haft_schema::VALUE_DEPTH;

/// Maximum number of tool calls in a model reply, and of output items in a reply of OpenAI's
/// Responses API.
pub const REPLY_ITEMS: usize = 4096;

/// Maximum number of model requests per run.
pub const RUN_REQUESTS: u32 = 50;

/// Maximum number of identical calls (same tool, same arguments) in a row.
pub const REPEATED_CALLS: u32 = 3;

/// Maximum number of retries ([`ToolError::Retry`](crate::call::ToolError::Retry)) that a tool can
/// request in a run.
pub const TOOL_RETRIES: u32 = 1;

/// Capacity of the in-memory [`ResultStore`](crate::pipeline::ResultStore), in bytes: 256 MiB.
///
/// If the stored results exceed this capacity, the oldest results are evicted.
pub const STORED_RESULT_BYTES: usize = 256 << 20;

/// Maximum number of characters that `haft_middleware::ReadResult` returns per call: 30,000.
///
/// At 4 bytes per character, this is less than [`RESULT_BYTES`].
pub const READ_CHARACTERS: usize = 30_000;

/// Maximum number of entries in a `haft_middleware::ResultCache`, an LRU cache.
pub const CACHED_RESULTS: usize = 1_000;

/// Capacity of a `haft_middleware::ResultCache` in bytes of results and arguments: 64 MiB.
pub const CACHED_RESULT_BYTES: usize = 64 << 20;

/// Maximum number of entries in a `haft_middleware::ReplyCache`, an LRU cache.
pub const CACHED_REPLIES: usize = 1_000;

/// Capacity of a `haft_middleware::ReplyCache` in bytes of replies: 64 MiB.
pub const CACHED_REPLY_BYTES: usize = 64 << 20;

/// Maximum number of hand-offs per run.
pub const HAND_OFFS: u32 = 8;

/// Maximum number of calls in the pending queue of a run, and therefore of queued calls per run.
pub const QUEUED_CALLS: usize = 256;
