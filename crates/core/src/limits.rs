//! The default limits of every crate, in one place. Each can be changed where it applies: those of schemas in
//! [`SchemaLimits`](crate::schema::SchemaLimits), those of a tool in its [`Policy`](crate::tool::Policy).

use std::time::Duration;

/// How long a tool call may take in all: five minutes.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a call to a server may stay silent, without an answer or progress: one minute.
pub const CALL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a source may take to list its tools: thirty seconds.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// How many pages a source may take to list its tools.
pub const LIST_PAGES: usize = 100;

/// How long a server may take for its handshake: ten seconds.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest line or event that is read from a peer, in bytes: 16 MiB.
pub const LINE_BYTES: usize = 16 << 20;

/// How long the code of the host that an agent waits for may take, such as an output validator: one minute.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of one result the model reads, in bytes of UTF-8: 128 KiB.
pub const RESULT_BYTES: usize = 128 << 10;

/// How much media (pictures, sounds, blobs) one result carries, in bytes: 16 MiB.
pub const MEDIA_BYTES: usize = 16 << 20;

/// How long a [`ResultStore`](crate::pipeline::ResultStore) may take to keep a result: ten seconds.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest text of arguments that is parsed, in bytes: 1 MiB.
pub const ARGUMENT_BYTES: usize = 1 << 20;

/// How deep arguments and results may be nested: 100 levels. The parser of `serde_json` reads 128, and a saved run is
/// some levels around them.
pub const VALUE_DEPTH: usize = haft_schema::VALUE_DEPTH;

/// How many calls, or items of another kind, one reply may have.
pub const REPLY_ITEMS: usize = 4096;

/// How often the model may be asked in one run.
pub const RUN_REQUESTS: u32 = 50;

/// How often in a row the same call with the same arguments is tolerated.
pub const IDENTICAL_CALLS: u32 = 3;

/// How often a tool may ask the model for another try ([`ToolError::Retry`](crate::call::ToolError::Retry)) in one run.
pub const TOOL_RETRIES: u32 = 1;

/// How many bytes the in-memory [`ResultStore`](crate::pipeline::ResultStore) keeps before it forgets the oldest: 256 MiB.
pub const STORED_RESULT_BYTES: usize = 256 << 20;

/// How many characters of a stored result are read at a time, by `haft_middleware::ReadResult`: 30,000. In bytes, that is less than a
/// model reads of one result.
pub const READ_CHARACTERS: usize = 30_000;

/// How many results a `haft_middleware::ResultCache` keeps before it forgets those that were not asked for longest.
pub const CACHED_RESULTS: usize = 1_000;

/// How many bytes of results and arguments a `haft_middleware::ResultCache` keeps: 64 MiB.
pub const CACHED_RESULT_BYTES: usize = 64 << 20;

/// How many replies a `haft_middleware::ReplyCache` keeps before it forgets those that were not asked for longest.
pub const CACHED_REPLIES: usize = 1_000;

/// How many bytes of replies a `haft_middleware::ReplyCache` keeps: 64 MiB.
pub const CACHED_REPLY_BYTES: usize = 64 << 20;

/// How often one agent may hand a run to another.
pub const HAND_OFFS: u32 = 8;

/// How many calls synchronous code may push to one pending queue, and so in one run.
pub const QUEUED_CALLS: usize = 256;
