use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_core::{ToolContext, limits};
use serde_json::{Map, Value};

use crate::{
    ToolFilter,
    call_data::RequestMetadata,
    callback::Callback,
    elicitation::{Elicitation, ElicitationHandler, ElicitationResponse},
    pins::ServerPins,
};

/// Limits for the connection to an MCP server, and the selection of its tools.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_mcp::{ServerOptions, StdioServer};
///
/// let options = ServerOptions::default().with_handshake_timeout(Duration::from_secs(60));
/// let server = StdioServer::new("npx").with_args(["-y", "server-memory"]).with_options(options);
/// assert_eq!(server.options.handshake_timeout, Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The maximum duration of the handshake. Default: [`limits::HANDSHAKE_TIMEOUT`], and one
    /// minute for a [`StdioServer`](crate::StdioServer) with a program such as `npx`, which
    /// downloads the server.
    pub handshake_timeout: Duration,
    /// The maximum time without a response or a progress notification during a call.
    ///
    /// Default: [`limits::CALL_IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
    /// The maximum time of a call, which progress does not extend. `None` means the default timeout
    /// of the pipeline. Default: `None`.
    pub call_timeout: Option<Duration>,
    /// The maximum time for fetching all pages of the tool list. Default:
    /// [`limits::TOOL_LIST_TIMEOUT`].
    pub list_timeout: Duration,
    /// The maximum number of pages in the tool list. Default: [`limits::TOOL_LIST_PAGES`].
    pub max_list_pages: usize,
    /// The maximum length of a message from the server, in bytes. Default:
    /// [`limits::SERVER_MESSAGE_BYTES`].
    pub max_message_bytes: usize,
    /// The tools of the server that are offered. Default: all of them.
    pub tool_filter: ToolFilter,
    /// The maximum time that a suspended call waits for the response to an elicitation. Default:
    /// [`limits::ELICITATION_TIMEOUT`]. It applies to servers of revisions up to 2025-11-25, which
    /// keep the call open. With a handler, the timeout of the call applies instead.
    pub elicitation_timeout: Duration,
    pub(crate) elicitation_handler: Option<ElicitationHandler>,
    /// The accepted definitions of the tools. Tools with other definitions are withheld. Default:
    /// all definitions are accepted.
    pub pins: Option<ServerPins>,
    /// The file that stores protocol revisions that are slow to detect. Default: none.
    pub revision_cache: Option<PathBuf>,
    /// `true` if the resources of the server are available as tools. Default: `false`.
    pub resource_tools: bool,
    /// `true` if the prompts of the server are available as tools. Default: `false`.
    pub prompt_tools: bool,
    /// `true` if the server starts at the first call, if its tools are known. Default: `false`.
    pub lazy_start: bool,
    /// The time between two pings of an unused server. Default: none, which means no pings.
    pub ping_interval: Option<Duration>,
    pub(crate) request_metadata: Option<RequestMetadata>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            handshake_timeout: limits::HANDSHAKE_TIMEOUT,
            idle_timeout: limits::CALL_IDLE_TIMEOUT,
            call_timeout: None,
            list_timeout: limits::TOOL_LIST_TIMEOUT,
            max_list_pages: limits::TOOL_LIST_PAGES,
            max_message_bytes: limits::SERVER_MESSAGE_BYTES,
            tool_filter: ToolFilter::default(),
            elicitation_timeout: limits::ELICITATION_TIMEOUT,
            elicitation_handler: None,
            pins: None,
            revision_cache: None,
            resource_tools: false,
            prompt_tools: false,
            lazy_start: false,
            ping_interval: None,
            request_metadata: None,
        }
    }
}

impl ServerOptions {
    /// Sets the maximum duration of the handshake.
    ///
    /// A tool call made while the server starts waits up to the same time.
    ///
    /// The first handshake begins with `server/discover` of revision 2026-07-28. If the server does
    /// not respond within three seconds, or within a third of `timeout` if that is shorter, the
    /// client sends `initialize`.
    #[must_use]
    pub fn with_handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Sets the maximum time without a response or a progress notification during a call.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the maximum time of a call, which progress does not extend. It is the
    /// [timeout](haft_core::tool::ToolPolicy::timeout) of the tools of the server.
    #[must_use]
    pub fn with_call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = Some(timeout);
        self
    }

    /// Sets the maximum time for fetching all pages of the tool list.
    #[must_use]
    pub fn with_list_timeout(mut self, timeout: Duration) -> Self {
        self.list_timeout = timeout;
        self
    }

    /// Sets the maximum number of pages in the tool list.
    #[must_use]
    pub fn with_max_list_pages(mut self, pages: usize) -> Self {
        self.max_list_pages = pages;
        self
    }

    /// Sets the maximum length of a message from the server, in bytes.
    ///
    /// A call fails if its response exceeds this length.
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the tools of the server that are offered.
    #[must_use]
    pub fn with_tool_filter(mut self, filter: ToolFilter) -> Self {
        self.tool_filter = filter;
        self
    }

    /// Sets the maximum time that a suspended call waits for the response to an elicitation.
    #[must_use]
    pub fn with_elicitation_timeout(mut self, timeout: Duration) -> Self {
        self.elicitation_timeout = timeout;
        self
    }

    /// Withholds tools with a definition that was not accepted. See
    /// [`PinFile`](crate::pins::PinFile).
    #[must_use]
    pub fn with_pins(mut self, pins: ServerPins) -> Self {
        self.pins = Some(pins);
        self
    }

    /// Stores the protocol revision of the server in the file at `path` if it is slow to detect, so
    /// that the next start of this program uses it immediately.
    ///
    /// A server is stored if it does not respond to `server/discover`, which costs three seconds at
    /// each start, if it exits because of this request, or if it uses HTTP with SSE. Other servers
    /// are quick to detect, and are not stored.
    ///
    /// An entry is valid for seven days, and until the server rejects the stored handshake. The
    /// revision is then detected again, so a server that was updated to revision 2026-07-28, and
    /// that also accepts `initialize`, is used with the earlier revision for at most seven days.
    ///
    /// Several servers and processes can use the file. It has at most 256 entries, and contains
    /// only hashes of the command line, or of the origin and the path of the URL. A file that
    /// cannot be read or written is logged and ignored.
    #[must_use]
    pub fn with_revision_cache(mut self, path: impl Into<PathBuf>) -> Self {
        self.revision_cache = Some(path.into());
        self
    }

    /// Adds the tools `NAME_list_resources` and `NAME_read_resource`, if the server has resources.
    /// `NAME` is the name of the source. A model can then also read the resources that are linked
    /// in results.
    ///
    /// A list has one page of the server, sorted by URI, and the cursor of the next page. Entries
    /// with hidden characters in their URI are omitted, and other texts have no hidden characters.
    /// If the server has a tool of the same name, a number is appended. The tool filter and the
    /// pins do not apply to these tools.
    #[must_use]
    pub fn with_resource_tools(mut self) -> Self {
        self.resource_tools = true;
        self
    }

    /// Adds the tools `NAME_list_prompts` and `NAME_get_prompt`, if the server has prompts. See
    /// [`with_resource_tools`](Self::with_resource_tools).
    #[must_use]
    pub fn with_prompt_tools(mut self) -> Self {
        self.prompt_tools = true;
        self
    }

    /// Starts the server at the first call to one of its tools. Until then, the source offers the
    /// definitions in [`pins`](Self::pins).
    ///
    /// The server starts at once if it has no pins, so its first start is never lazy. If the server
    /// then offers a tool with another definition, calls to the tool fail, and the tool is
    /// withheld. Resources and prompts are available as tools after the start.
    #[must_use]
    pub fn with_lazy_start(mut self) -> Self {
        self.lazy_start = true;
        self
    }

    /// Sends a `ping` to the server after each `interval`, unless a request is in progress. After
    /// three pings in a row without a response within another `interval`, a child process is
    /// restarted, and an HTTP server is contacted again. An error response counts as a response.
    /// Intervals below one second are raised to one second.
    ///
    /// Without pings, a server that hangs or an HTTP server that is gone is detected by its next
    /// call.
    #[must_use]
    pub fn with_ping_interval(mut self, interval: Duration) -> Self {
        self.ping_interval = Some(interval);
        self
    }

    /// Sets a function that returns metadata for the requests of a call. The arguments of the
    /// function are the name that the server uses for the tool, and the context of the call. The
    /// metadata is sent in the field `_meta` of the request.
    ///
    /// The function runs within the [`tracing`] span of the call, so it can send the trace context:
    /// the keys `traceparent` and `tracestate` (W3C Trace Context) and `baggage` (W3C Baggage), as
    /// in MCP 2026-07-28, "Trace Context". Without these keys, a
    /// [`TraceContext`](crate::gateway::TraceContext) in the state of the call is sent. Other keys
    /// have a prefix such as `com.example/`.
    ///
    /// The keys of the protocol are ignored: `progressToken`, and the prefix
    /// `io.modelcontextprotocol/`.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_mcp::ServerOptions;
    /// use serde_json::{Map, Value};
    ///
    /// let options = ServerOptions::default().with_request_metadata(|tool, cx| {
    ///     // With OpenTelemetry, a `TextMapPropagator` returns these values for the current span.
    ///     let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    ///     Map::from_iter([
    ///         ("traceparent".to_owned(), Value::from(traceparent)),
    ///         ("com.example/run".to_owned(), Value::from(format!("{} {tool}", cx.run_id()))),
    ///     ])
    /// });
    /// ```
    #[must_use]
    pub fn with_request_metadata<F>(mut self, metadata: F) -> Self
    where
        F: Fn(&str, &ToolContext) -> Map<String, Value> + Send + Sync + 'static,
    {
        self.request_metadata = Some(Callback::new(Arc::new(metadata)));
        self
    }

    /// Sets the function that responds to [elicitations](Elicitation).
    ///
    /// Without a handler, an elicitation suspends the call with
    /// [`PendingKind::Input`](haft_core::call::PendingKind::Input). A
    /// [`Decision::Input`](haft_core::call::Decision::Input) accepts it, and a denial declines it.
    /// For a [URL](crate::elicitation::ElicitationKind::Url), the input `true` accepts, and `false`
    /// declines.
    ///
    /// # Cancellation
    ///
    /// The future of the handler is dropped if the server cancels the elicitation, or if the call
    /// ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_mcp::{
    ///     ServerOptions,
    ///     elicitation::{ElicitationKind, ElicitationResponse},
    /// };
    /// use serde_json::json;
    ///
    /// let options = ServerOptions::default().with_elicitation_handler(|elicitation| async move {
    ///     match elicitation.kind {
    ///         ElicitationKind::Form { .. } => ElicitationResponse::accept(json!({"seat": "12A"})),
    ///         _ => ElicitationResponse::Decline,
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn with_elicitation_handler<F, Response>(mut self, handler: F) -> Self
    where
        F: Fn(Elicitation) -> Response + Send + Sync + 'static,
        Response: Future<Output = ElicitationResponse> + Send + 'static,
    {
        self.elicitation_handler = Some(ElicitationHandler::new(handler));
        self
    }
}
