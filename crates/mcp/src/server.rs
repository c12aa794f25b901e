//! An MCP server for the tools of a toolset.

mod call;
mod definition;
#[cfg(feature = "http-server")]
pub(crate) mod http;
mod input;
mod list_changes;
mod list_contexts;
mod mcp_server;
mod result;

use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use haft_core::{
    ToolCall,
    pipeline::{CallOutcome, unknown_tool_message},
    tool::Principal,
    toolset::ToolList,
};
use rmcp::{
    RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CancelTaskParams,
        CancelledNotificationParam, CompleteRequestParams, CompleteResult, ConstString as _,
        CustomNotification, CustomRequest, CustomResult, ErrorData, Extensions, GetPromptRequestParams,
        GetPromptResponse, GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult,
        InputResponses, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListSkillsResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ReadResourceRequestParams,
        ReadResourceResponse, ServerConfig, ServerResult, SubscribeRequestParams, SubscriptionFilter,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, ServerInitializeError, SubscriptionContext},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

pub use self::mcp_server::{McpServer, NoHandler};
use self::{
    input::{ElicitationForm, RequestStates},
    list_contexts::ListContexts,
};
use crate::transport::ServerTransport;

/// An error from [`serve`] or [`serve_stdio`].
///
/// A client that closes the connection does not cause an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The first messages of the client are not valid in any supported protocol revision, or the
    /// response to them cannot be written.
    #[error("the MCP handshake failed")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The server task panicked or was aborted.
    #[error("the server ended unexpectedly")]
    TaskFailed(#[source] tokio::task::JoinError),
}

/// The time for calls in progress to finish after the end of the input. Unfinished calls are then
/// cancelled.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// The maximum number of elicitations of a call, for clients with sessions.
const MAX_ELICITATIONS: u32 = 10;
/// The beginning of a cursor. The name of the last tool in the page follows.
const CURSOR_PREFIX: &str = "haft-after:";

/// Serves `server`, usually a [`Toolset`](haft_core::Toolset), over standard input and output until
/// the input ends.
///
/// Supports protocol revision 2026-07-28, and revisions up to 2025-11-25.
///
/// Calls run through the pipeline of the toolset, which validates and repairs arguments, catches
/// panics and limits the size of results. If a call fails or panics, or if its arguments are
/// invalid, the client receives a result with `isError`. A call to an unknown tool returns a
/// JSON-RPC error. If the client sends `notifications/cancelled` for a call, the call is dropped
/// and no response is sent.
///
/// # Shutdown
///
/// After the end of the input, calls in progress have one second to finish before they are
/// cancelled. A client can therefore write a request, close its side of the connection and still
/// read the response.
///
/// Exit the process when the future completes, because a blocking thread of tokio may still be
/// waiting for standard input.
///
/// # Standard output
///
/// Standard output is reserved for MCP messages, so the program must not write to it. Write logs to
/// standard error.
///
/// # Errors
///
/// Fails if the handshake fails, or if the server task panics.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{export::schemars::{self, JsonSchema}, tool_fn, Toolset};
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Add {
///     x: i64,
///     y: i64,
/// }
///
/// # async fn example() -> Result<(), haft_mcp::ServeError> {
/// let add = tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y });
/// let tools = Toolset::new().with_tool(add);
/// haft_mcp::serve_stdio(tools).await
/// # }
/// ```
pub async fn serve_stdio<H: ServerHandler>(server: impl Into<McpServer<H>>) -> Result<(), ServeError> {
    serve(server, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves `server` over the byte streams `reader` and `writer`. See [`serve_stdio`].
///
/// # Errors
///
/// Fails if the handshake fails, or if the server task panics.
pub async fn serve<H, R, W>(server: impl Into<McpServer<H>>, reader: R, writer: W) -> Result<(), ServeError>
where
    H: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let input_closed = CancellationToken::new();
    let server = ToolServer::new(server.into(), input_closed.clone());
    let transport = ServerTransport::new(reader, writer, input_closed.clone());
    let service = match server.serve(transport).await {
        Ok(service) => service,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    let stop = service.cancellation_token();
    let mut served = pin!(service.waiting());
    let served = tokio::select! {
        served = &mut served => served,
        () = async { input_closed.cancelled().await; sleep(SHUTDOWN_GRACE).await } => {
            stop.cancel();
            served.await
        }
    };
    served.map(drop).map_err(ServeError::TaskFailed)
}

/// The service for `rmcp`: the tools of a server, and its handler of other requests.
pub(crate) struct ToolServer<H> {
    server: McpServer<H>,
    info: ServerConfig,
    /// A token that is cancelled when the input of the server ends.
    input_closed: CancellationToken,
    /// The states of suspended calls. `None` if the system has no source of randomness. Calls of
    /// clients of revision 2026-07-28 are then not suspended.
    states: Option<RequestStates>,
    list_contexts: Arc<ListContexts>,
    /// `true` if changes of the tool list are sent to the client of this session.
    sends_changes: AtomicBool,
    /// The calls in progress of each HTTP client. `None` over standard input and output.
    #[cfg(feature = "http-server")]
    slots: Option<http::ClientSlots>,
}

/// The parameters of a call.
struct CallParams {
    name: String,
    arguments: String,
    input_responses: Option<InputResponses>,
    request_state: Option<String>,
}

impl<H> Clone for ToolServer<H> {
    fn clone(&self) -> Self {
        Self {
            server: self.server.clone(),
            info: self.info.clone(),
            input_closed: self.input_closed.clone(),
            states: self.states.clone(),
            list_contexts: Arc::clone(&self.list_contexts),
            sends_changes: AtomicBool::new(false),
            #[cfg(feature = "http-server")]
            slots: self.slots.clone(),
        }
    }
}

impl<H: ServerHandler> ToolServer<H> {
    pub(crate) fn new(server: McpServer<H>, input_closed: CancellationToken) -> Self {
        let mut info = server.handler.get_info();
        info.capabilities.tools.get_or_insert_default().list_changed = Some(true);
        Self {
            server,
            info,
            input_closed,
            states: RequestStates::new(),
            list_contexts: Arc::default(),
            sends_changes: AtomicBool::new(false),
            #[cfg(feature = "http-server")]
            slots: None,
        }
    }

    /// Limits the calls in progress of each HTTP client.
    #[cfg(feature = "http-server")]
    pub(crate) fn with_call_slots(mut self, slots: http::ClientSlots) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Returns the handler if it has tools.
    fn handler_with_tools(&self) -> Option<&H> {
        let handler = &*self.server.handler;
        handler.get_info().capabilities.tools.is_some().then_some(handler)
    }

    /// Returns the principal of the HTTP request with `extensions`, or of the server.
    fn principal(&self, extensions: &Extensions) -> Option<Principal> {
        call::http_principal(extensions).or_else(|| self.server.principal.clone())
    }

    /// Returns the tools of `principal`.
    async fn list(&self, principal: Option<&Principal>) -> ToolList {
        self.server.tools.list(&self.list_contexts.get(principal)).await
    }

    async fn call(
        &self,
        params: CallParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        #[cfg(feature = "http-server")]
        let _slot = http::acquire_slot(self.slots.as_ref(), cx)?;
        let CallParams { name, arguments, input_responses, request_state } = params;
        let principal = self.principal(&cx.extensions);
        let tools = catch_panic(self.list(principal.as_ref())).await?;
        let call = ToolCall::new(cx.id.to_string(), name, arguments);
        let Some(tool) = tools.get(&call.name) else {
            let error = ErrorData::invalid_params(unknown_tool_message(&call.name, &tools), None);
            // The pipeline records the call.
            let batch = call::batch(tools, call, None, principal);
            catch_panic(call::run_batch(self.server.tools.pipeline(), batch, cx, &self.input_closed)).await?;
            return Err(error);
        };
        let definition = tool.definition().clone();
        let mut resumed = match (&self.states, request_state) {
            (Some(states), Some(state)) => {
                let pending = states.open(&state, &call, principal.as_ref())?;
                match input::response(input_responses) {
                    Some(response) => Some(input::resume(pending, response)?),
                    // The call has begun already, so only the request for input is repeated.
                    None => {
                        let result =
                            ElicitationForm::new(&call, &pending).and_then(|it| it.into_result(state));
                        let missing =
                            || ErrorData::invalid_params("the response to the elicitation is missing", None);
                        return result.map(CallToolResponse::from).ok_or_else(missing);
                    }
                }
            }
            _ => None,
        };
        for elicitations in 0..=MAX_ELICITATIONS {
            let batch = call::batch(tools.clone(), call.clone(), resumed.take(), principal.clone());
            let running = call::run_batch(self.server.tools.pipeline(), batch, cx, &self.input_closed);
            let outcome = catch_panic(running).await?;
            let outcome = outcome.ok_or_else(|| ErrorData::internal_error("the call has no result", None))?;
            if let CallOutcome::Pending(pending) = &outcome
                && input::supports_forms(cx)
                && let Some(denied) = input::denial_of_long_arguments(&pending.pending)
            {
                resumed = Some(input::decide(pending.pending.clone(), denied)?);
                continue;
            }
            let form = match &outcome {
                CallOutcome::Pending(_) if elicitations == MAX_ELICITATIONS => break,
                CallOutcome::Pending(pending) if input::supports_forms(cx) => {
                    ElicitationForm::new(&call, &pending.pending)
                }
                _ => None,
            };
            let (form, pending) = match (form, outcome) {
                (Some(form), CallOutcome::Pending(pending)) => (form, pending.pending),
                (_, outcome) => {
                    return Ok(result::encode_result(&definition, outcome.into_result()).into());
                }
            };
            if has_sessions(cx) {
                resumed = Some(input::resume(pending, form.send(cx).await?)?);
            } else {
                let states = self.states.as_ref();
                let state = states.and_then(|it| it.seal(&pending, &call, principal.as_ref()));
                let result = state.and_then(|state| form.into_result(state));
                let no_state = || ErrorData::internal_error("the call cannot be suspended", None);
                return result.map(CallToolResponse::from).ok_or_else(no_state);
            }
        }
        let message = format!("the call requests input more than {MAX_ELICITATIONS} times");
        Err(ErrorData::internal_error(message, None))
    }
}

/// Returns the definitions of the tools in `list`. They are encoded once for each list.
fn encoded_tools(list: &ToolList) -> Arc<Vec<rmcp::model::Tool>> {
    list.memoize(|list| {
        list.tools().iter().map(|tool| definition::encode_definition(tool.definition())).collect()
    })
}

/// Returns `true` if the client uses a revision up to 2025-11-25. The server then sends requests to
/// the client while a call is open.
fn has_sessions(cx: &RequestContext<RoleServer>) -> bool {
    cx.protocol_version().is_none_or(|version| version.has_initialize())
}

/// Passes requests and notifications to the handler of the server. A request whose handler panics
/// gets an error response.
macro_rules! forward {
    ($($method:ident($params:ty) -> $result:ty;)*) => {
        $(
            async fn $method(
                &self,
                params: $params,
                cx: RequestContext<RoleServer>,
            ) -> Result<$result, ErrorData> {
                // A method that is no `async fn` may panic before it returns its future.
                catch_panic(async { self.server.handler.$method(params, cx).await }).await?
            }
        )*
    };
    (notifications: $($method:ident($params:ty);)*) => {
        $(
            fn $method(
                &self,
                params: $params,
                cx: NotificationContext<RoleServer>,
            ) -> impl Future<Output = ()> + Send + '_ {
                self.server.handler.$method(params, cx)
            }
        )*
    };
}

#[expect(
    deprecated,
    reason = "clients of revisions up to 2025-11-25 use `logging/setLevel` and subscriptions"
)]
impl<H: ServerHandler> ServerHandler for ToolServer<H> {
    forward! {
        complete(CompleteRequestParams) -> CompleteResult;
        set_level(rmcp::model::SetLevelRequestParams) -> ();
        get_prompt(GetPromptRequestParams) -> GetPromptResponse;
        list_prompts(Option<PaginatedRequestParams>) -> ListPromptsResult;
        list_resources(Option<PaginatedRequestParams>) -> ListResourcesResult;
        list_resource_templates(Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        read_resource(ReadResourceRequestParams) -> ReadResourceResponse;
        subscribe(SubscribeRequestParams) -> ();
        unsubscribe(UnsubscribeRequestParams) -> ();
        get_task(GetTaskParams) -> GetTaskResult;
        update_task(UpdateTaskParams) -> ();
        cancel_task(CancelTaskParams) -> ();
        list_skills(Option<PaginatedRequestParams>) -> ListSkillsResult;
        get_skill(GetSkillRequestParams) -> GetSkillResult;
        read_resource_directory(ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult;
    }

    forward! {
        notifications:
        on_cancelled(CancelledNotificationParam);
        on_progress(ProgressNotificationParam);
        on_custom_notification(CustomNotification);
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        if !self.sends_changes.swap(true, Ordering::Relaxed) {
            let (tools, peer) = (self.server.tools.clone(), cx.peer.clone());
            let list_cx = self.list_contexts.get(self.principal(&cx.extensions).as_ref());
            // The task ends at most one interval after the connection.
            tokio::spawn(async move {
                let is_closed = || peer.is_transport_closed();
                let notify = || async { peer.notify_tool_list_changed().await.is_ok() };
                list_changes::notify_changes(&tools, &list_cx, is_closed, notify).await;
            });
        }
        self.server.handler.on_initialized(cx).await;
    }

    fn on_roots_list_changed(
        &self,
        cx: NotificationContext<RoleServer>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.server.handler.on_roots_list_changed(cx)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = self.server.handler.accepted_subscription_filter(requested).unwrap_or_default();
        accepted.tools_list_changed = requested.tools_list_changed;
        Some(accepted)
    }

    async fn listen(&self, cx: SubscriptionContext) -> Result<(), ErrorData> {
        let sink = cx.sink().clone();
        let list_cx = self.list_contexts.get(self.principal(&cx.request_context().extensions).as_ref());
        let sends_changes = sink.accepted().tools_list_changed == Some(true);
        let notify = || async { sink.notify_tool_list_changed().await.is_ok() };
        let handler = catch_panic(async { self.server.handler.listen(cx).await });
        let mut handler = pin!(handler.map(Result::flatten));
        tokio::select! {
            biased;
            ended = &mut handler => return ended,
            () = list_changes::notify_changes(&self.server.tools, &list_cx, || false, notify), if sends_changes => {}
        }
        handler.await
    }

    /// Returns the definition of the tool `name`. rmcp compares the `x-mcp-header` parameters in
    /// its schema with the headers of a request.
    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        // The listing of a source that has to wait is not compared.
        let listing = AssertUnwindSafe(self.list(self.server.principal.as_ref())).catch_unwind();
        let list = listing.now_or_never()?.ok()?;
        match list.get(name) {
            Some(_) => encoded_tools(&list).iter().find(|tool| tool.name == name).cloned(),
            None => self.handler_with_tools()?.get_tool(name),
        }
    }

    fn get_info(&self) -> ServerConfig {
        self.info.clone()
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = page.as_ref().and_then(|page| page.cursor.as_deref());
        if let Some(handler) = self.handler_with_tools()
            && cursor.is_some_and(|cursor| !cursor.starts_with(CURSOR_PREFIX))
        {
            return catch_panic(async { handler.list_tools(page, cx).await }).await?;
        }
        let principal = self.principal(&cx.extensions);
        let list = catch_panic(self.list(principal.as_ref())).await?;
        let mut tools = Arc::unwrap_or_clone(encoded_tools(&list));
        let mut next_cursor = None;
        if let Some(cursor) = cursor {
            let last = cursor.strip_prefix(CURSOR_PREFIX);
            let index = tools.iter().position(|tool| Some(&*tool.name) == last);
            let unknown = || ErrorData::invalid_params(format!("unknown cursor: {cursor}"), None);
            tools = tools.split_off(index.ok_or_else(unknown)? + 1);
        }
        if let Some(size) = self.server.page_size
            && tools.len() > size
        {
            tools.truncate(size);
            next_cursor = tools.last().map(|tool| format!("{CURSOR_PREFIX}{}", tool.name));
        }
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next_cursor;
        if !has_sessions(&cx) {
            result.ttl_ms = Some(u64::try_from(self.server.list_ttl.as_millis()).unwrap_or(u64::MAX));
        }
        if let Some(handler) = self.handler_with_tools()
            && result.next_cursor.is_none()
        {
            let ListToolsResult { tools, next_cursor, .. } =
                catch_panic(async { handler.list_tools(None, cx).await }).await??;
            result.tools.extend(tools);
            result.next_cursor = next_cursor;
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let principal = self.principal(&cx.extensions);
        if let Some(handler) = self.handler_with_tools()
            && catch_panic(self.list(principal.as_ref())).await?.get(&request.name).is_none()
        {
            return catch_panic(async { handler.call_tool(request, cx).await }).await?;
        }
        // The pipeline accepts the arguments as JSON text, which it parses and repairs.
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let params = CallParams {
            name: request.name.into_owned(),
            arguments,
            input_responses: request.input_responses,
            request_state: request.request_state,
        };
        self.call(params, &cx).await
    }

    /// Handles `tools/call` requests that rmcp cannot parse, for example if `arguments` is a list.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        cx: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != CallToolRequestMethod::VALUE {
            return catch_panic(async { self.server.handler.on_custom_request(request, cx).await }).await?;
        }
        let params = request.params;
        let field = |key| params.as_ref().and_then(|params| params.get(key));
        let Some(name) = field("name").and_then(Value::as_str) else {
            return Err(ErrorData::invalid_params("`tools/call` without `name`", None));
        };
        // The pipeline repairs the arguments or rejects them with an error for the model.
        let arguments = field("arguments").unwrap_or(&Value::Null).to_string();
        let responses = field("inputResponses").cloned().and_then(|it| serde_json::from_value(it).ok());
        let state = field("requestState").and_then(Value::as_str).map(str::to_owned);
        let params =
            CallParams { name: name.to_owned(), arguments, input_responses: responses, request_state: state };
        let mut response = self.call(params, &cx).await?;
        if let CallToolResponse::Complete(result) = &mut response
            && has_sessions(&cx)
        {
            // Only clients of revision 2026-07-28 or later support `resultType`.
            result.result_type = None;
        }
        let result = serde_json::to_value(ServerResult::from(response));
        result.map(CustomResult::new).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

/// Awaits `work` and converts a panic into a JSON-RPC error. Without this conversion, rmcp would
/// never respond to the request.
pub(crate) async fn catch_panic<F: Future>(work: F) -> Result<F::Output, ErrorData> {
    let internal = |_panic| ErrorData::internal_error(Cow::Borrowed("the server panicked"), None);
    AssertUnwindSafe(work).catch_unwind().await.map_err(internal)
}

#[cfg(test)]
mod tests;
