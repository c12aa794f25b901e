//! The default limits of calls, runs, caches and servers. Other defaults are documented with the
//! options that they apply to.
//!
//! A [`ToolPolicy`](crate::tool::ToolPolicy) can override the timeout, the number of retries and
//! the length of the result text for one tool. The limits for schemas are in
//! [`SchemaLimits`](crate::schema::SchemaLimits).

use std::time::Duration;

/// The timeout of a tool call: five minutes.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// The grace period of a cancelled call to a tool with
/// [`OnCancel::Grace`](crate::tool::OnCancel::Grace): 400 milliseconds.
/// See [`Pipeline::with_cancel_grace`](crate::Pipeline::with_cancel_grace).
pub const CANCEL_GRACE: Duration = Duration::from_millis(400);

/// The maximum wait for the end of an aborted task, such as a tool call or a hook: 200
/// milliseconds. A task ends at its next `.await`. A task that blocks its thread for longer is
/// abandoned.
pub const ABORT_WAIT: Duration = Duration::from_millis(200);

/// The idle timeout of a request to an MCP server, such as a tool call: one minute. Each
/// progress notification restarts the timeout.
pub const CALL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The timeout for listing the tools of a source: thirty seconds.
pub const TOOL_LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of pages in the tool list of an MCP server.
pub const TOOL_LIST_PAGES: usize = 100;

/// The timeout of the handshake with an MCP server: ten seconds.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time that a suspended call of an MCP server waits for the input of a person, if the
/// server keeps the call open: thirty minutes.
pub const ELICITATION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The maximum length of an MCP message, and of a stream event or a complete reply from
/// a model server, in bytes: 16 MiB.
pub const SERVER_MESSAGE_BYTES: usize = 16 << 20;

/// The maximum length of the body of an HTTP request to a server of haft, in bytes: 4 MiB.
pub const HTTP_BODY_BYTES: usize = 4 << 20;

/// The timeout of a hook of the host program, for example an output validator: one minute.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum length of the result text that the model receives, in bytes of UTF-8: 128 KiB.
pub const RESULT_TEXT_BYTES: usize = 128 << 10;

/// The maximum total size of the media (images, audio, blobs) in a tool result, in bytes: 16 MiB.
pub const RESULT_MEDIA_BYTES: usize = 16 << 20;

/// The timeout for writing to a [`ResultStore`](crate::pipeline::ResultStore): ten seconds.
pub const RESULT_STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of the arguments of a call, in bytes: 1 MiB. Longer arguments are not parsed.
pub const ARGUMENT_BYTES: usize = 1 << 20;

/// The maximum nesting depth of arguments and results: 100 levels.
///
/// `serde_json` parses at most 127 levels. The limit is lower because a saved run adds a few levels
/// around each value.
pub const VALUE_DEPTH: usize = haft_schema::MAX_VALUE_DEPTH;

/// The maximum number of tool calls in a model reply, and of output items in a reply of OpenAI's
/// Responses API.
pub const REPLY_CALLS: usize = 4096;

/// The maximum number of model requests per run.
pub const RUN_REQUESTS: u32 = 50;

/// The maximum number of times that a model can make the same call, or the same cycle of calls, in
/// a row with equal results.
pub const REPEATED_CALLS: u32 = 3;

/// The maximum number of consecutive retries ([`ToolError::Retry`](crate::call::ToolError::Retry))
/// that a tool can request. A successful call resets the count.
pub const TOOL_RETRIES: u32 = 1;

/// The capacity of the in-memory [`ResultStore`](crate::pipeline::ResultStore), in bytes: 256 MiB.
///
/// If the stored results exceed this capacity, the oldest results are evicted.
pub const RESULT_STORE_BYTES: usize = 256 << 20;

/// The maximum number of characters that `haft_middleware::ReadResult` returns per call: 30,000.
///
/// Even with 4 bytes per character, the text is shorter than [`RESULT_TEXT_BYTES`].
pub const READ_RESULT_CHARACTERS: usize = 30_000;

/// The maximum number of results in a `haft_middleware::ResultCache`, an LRU cache.
pub const RESULT_CACHE_ENTRIES: usize = 1_000;

/// The maximum total size of the results and arguments in a `haft_middleware::ResultCache`: 64 MiB.
pub const RESULT_CACHE_BYTES: usize = 64 << 20;

/// The maximum number of replies in a `haft_middleware::ReplyCache`, an LRU cache.
pub const REPLY_CACHE_ENTRIES: usize = 1_000;

/// The maximum total size of the replies in a `haft_middleware::ReplyCache`, as JSON: 64 MiB.
pub const REPLY_CACHE_BYTES: usize = 64 << 20;

/// The maximum number of hand-offs per run.
pub const HANDOFFS: u32 = 8;

/// The maximum number of calls that a `haft_react::PendingQueue` accepts in total. It is also the
/// maximum number of calls that a call of a run can push, including the calls that these push.
pub const QUEUE_CALLS_TOTAL: usize = 256;
