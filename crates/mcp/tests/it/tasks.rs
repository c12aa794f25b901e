use std::{collections::BTreeMap, sync::Arc, time::Duration};

use haft_core::{
    ToolCall, ToolContext, Toolset,
    call::{Decision, FailureKind},
    tool::{Principal, RunContext},
};
use haft_mcp::{HttpServer, McpSource, ServerConfig, ServerOptions, elicitation::ElicitationResponse};
use rmcp::{
    RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
        CreateTaskResult, ElicitRequest, ErrorData, GetTaskParams, GetTaskResult, InputRequest,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig as RmcpServerConfig,
        UpdateTaskParams,
    },
    service::RequestContext,
    task_manager::{TaskManager, TaskOptions},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    elicitation::{RmcpWebServer, form, resume, suspend},
    server,
    source::Reports,
    web::WebServer,
};

async fn tools_with(options: ServerOptions) -> Toolset {
    let source = McpSource::connect("tasks", server("tasks").with_options(options)).await.unwrap();
    Toolset::new().with_source(source)
}

/// Returns the log of the first task.
async fn log(tools: &Toolset) -> Value {
    tools.call("log", json!({})).await.into_output().unwrap().structured.unwrap()
}

/// A task is polled until its result, and its status messages are reported as progress.
#[tokio::test(flavor = "multi_thread")]
async fn task_is_polled_until_its_result() {
    let tools = tools_with(ServerOptions::default()).await;
    let reports = Reports::default();
    let run = RunContext { progress: Some(Arc::new(reports.clone())), ..RunContext::default() };
    let cx = ToolContext::new(Arc::new(run), "call_1");
    let result = tools.call_with("task", json!({}), &cx).await;
    assert_eq!(result.model_text(), "done: []");
    let reports = reports.0.lock().unwrap().clone();
    let reports: Vec<_> =
        reports.iter().map(|it| (it.progress, it.message.as_deref().unwrap_or_default())).collect();
    assert_eq!(reports, [(1.0, "created"), (2.0, "step 1"), (3.0, "step 2"), (4.0, "at the end")]);
    assert_eq!(log(&tools).await["is_cancelled"], false);
}

/// The end of a task has the error of an ordinary call. A task that the server does not know is
/// unconfirmed, because it may have had an effect.
#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_task_is_reported() {
    let tools = tools_with(ServerOptions::default()).await;
    for (arguments, kind, message) in [
        (json!({"isError": true}), FailureKind::Failed, "done: []"),
        (json!({"ends": "failed"}), FailureKind::Failed, "out of paper (code -32603)"),
        (json!({"ends": "cancelled"}), FailureKind::Failed, "the server cancelled the task: at the end"),
        (json!({"ends": "unknown"}), FailureKind::Unconfirmed, "no such task"),
        (json!({"ends": "nonsense"}), FailureKind::Unconfirmed, "invalid task"),
    ] {
        let failure = tools.call("task", arguments).await.into_output().unwrap_err();
        assert_eq!(failure.kind, kind, "{}", failure.message);
        assert!(failure.message.contains(message), "{}", failure.message);
    }
}

/// The deadline of a call applies to its task, which is then cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn timed_out_task_is_cancelled() {
    let tools = tools_with(ServerOptions::default()).await;
    let deadline = ToolContext::default().limit_deadline(Instant::now() + Duration::from_millis(300));
    let failure =
        tools.call_with("task", json!({"ends": "never"}), &deadline).await.into_output().unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut);
    let cancelled = async {
        while log(&tools).await["is_cancelled"] == false {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), cancelled).await.unwrap();
}

/// The elicitations of a task reach the handler once, and the server gets the responses.
#[tokio::test(flavor = "multi_thread")]
async fn task_elicits_input_with_a_handler() {
    let handler = |_elicitation| async { ElicitationResponse::accept(json!({"name": "Ann"})) };
    let tools = tools_with(ServerOptions::default().with_elicitation_handler(handler)).await;
    let result = tools.call("task", json!({"asks": 2})).await.into_output().unwrap();
    let accepted = json!({"action": "accept", "content": {"name": "Ann"}});
    assert_eq!(result.text(), format!("done: {}", json!([{"key0": accepted}, {"key1": accepted}])));
}

/// Without a handler, an elicitation of a task suspends its call, and the task goes on after the
/// decision.
#[tokio::test(flavor = "multi_thread")]
async fn task_elicits_input_without_a_handler() {
    let tools = tools_with(ServerOptions::default()).await;
    let call = ToolCall::new("call_1", "task", r#"{"asks": 1}"#);
    let pending = suspend(&tools, &call).await;
    assert_eq!(log(&tools).await, json!({"responses": [], "is_cancelled": false}));
    let input = Decision::Input { value: json!({"name": "Bob"}) };
    let result = resume(&tools, &call, pending, input).await.into_result().into_output().unwrap();
    let accepted = json!({"action": "accept", "content": {"name": "Bob"}});
    assert_eq!(result.text(), format!("done: {}", json!([{"key0": accepted}])));
}

/// Over HTTP, the requests of a task have the headers of its call, and the id of the task in
/// `Mcp-Name`.
#[tokio::test(flavor = "multi_thread")]
async fn task_is_polled_over_http() {
    let server = WebServer::start("tasks").await;
    let config = server.config().with_call_headers(|_tool, cx| {
        let user = cx.principal().map(|principal| principal.id.clone()).unwrap_or_default();
        async move { Ok(BTreeMap::from([("X-User".to_owned(), user)])) }
    });
    let tools = Toolset::new().with_source(McpSource::connect("web", config).await.unwrap());
    let principal = Principal { id: "ann".to_owned(), ..Principal::default() };
    let cx = ToolContext::default().with_principal(principal);
    assert_eq!(tools.call_with("add", json!({}), &cx).await.model_text(), "42");
    let polls = server.requests_of("tasks/get");
    assert_eq!(polls.len(), 1);
    assert_eq!((polls[0].header("mcp-name"), polls[0].header("x-user")), ("task-1", "ann"));
    // The deadline is before the first poll.
    let deadline = cx.limit_deadline(Instant::now() + Duration::from_millis(50));
    tools.call_with("add", json!({}), &deadline).await.into_output().unwrap_err();
    let cancelled = async {
        while server.requests_of("tasks/cancel").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), cancelled).await.unwrap();
    let cancel = &server.requests_of("tasks/cancel")[0];
    assert_eq!((cancel.header("mcp-name"), cancel.header("x-user")), ("task-1", "ann"));
}

/// A server of another implementation. Its tool `book` is a task that elicits a seat.
#[derive(Clone)]
struct TaskServer(TaskManager);

impl ServerHandler for TaskServer {
    fn get_info(&self) -> RmcpServerConfig {
        RmcpServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = json!([{"name": "book", "inputSchema": {"type": "object"}}]);
        Ok(serde_json::from_value(json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"})).unwrap())
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let options = TaskOptions::new().with_poll_interval_ms(10);
        let task = self.0.spawn(options, |task| {
            Box::pin(async move {
                let form = InputRequest::Elicitation(ElicitRequest::new(form()));
                let response = task.request_input("seat", form).await?;
                Ok(CallToolResult::success(vec![ContentBlock::text(response.to_string())]))
            })
        });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.0.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.cancel_task(&request.task_id)
    }
}

/// Serves [`TaskServer`] over standard input and output. Runs in the child process.
pub(crate) fn rmcp_child() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = TaskServer(TaskManager::new());
        let service = server.serve((tokio::io::stdin(), tokio::io::stdout())).await.unwrap();
        service.waiting().await.unwrap();
    });
}

/// The task of a server of another implementation is suspended and resumed, over each transport.
#[tokio::test(flavor = "multi_thread")]
async fn task_of_another_implementation_is_performed() {
    let web = RmcpWebServer::start(TaskServer(TaskManager::new())).await;
    for config in [ServerConfig::from(HttpServer::new(&web.url)), server("rmcp_tasks").into()] {
        let tools = Toolset::new().with_source(McpSource::connect("booking", config).await.unwrap());
        let call = ToolCall::new("call_1", "book", "{}");
        let pending = suspend(&tools, &call).await;
        let input = Decision::Input { value: json!({"seat": "12A"}) };
        let result = resume(&tools, &call, pending, input).await.into_result();
        let response: Value = serde_json::from_str(&result.model_text()).unwrap();
        let accepted = json!({"action": "accept", "content": {"seat": "12A", "class": "economy"}});
        assert_eq!(response, accepted);
    }
}
