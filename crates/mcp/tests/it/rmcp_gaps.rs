//! Gaps of `rmcp` that this crate covers (`docs/adr/0014-behaviour-of-dependencies.md`). If a test
//! fails after an update of `rmcp`, a gap is closed, and the code for it may be removable.

use std::{env, process::Stdio, time::Duration};

use rmcp::{
    ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResponse},
    service::{RequestContext, RunningService},
};
use tokio::{
    io::duplex,
    process::{Child, Command},
    time::timeout,
};

use crate::child;

/// The time after which a request counts as pending.
const PENDING: Duration = Duration::from_millis(500);

/// Starts the faulty server in `mode` and connects a client of `rmcp` to it.
async fn connect(mode: &str) -> (RunningService<RoleClient, ()>, Child) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(child::arguments(mode)).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut server = command.spawn().unwrap();
    let streams = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
    (().serve(streams).await.unwrap(), server)
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_responses_leave_their_calls_pending() {
    let (client, _server) = connect("legacy").await;
    for how in ["not_text", "cut", "deep", "wrong_id"] {
        let call = client.call_tool(CallToolRequestParams::new(how));
        assert!(timeout(PENDING, call).await.is_err(), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_no_timeout_and_lists_no_end() {
    for mode in ["no_list_response", "circular"] {
        let (client, _server) = connect(mode).await;
        assert!(timeout(PENDING, client.list_all_tools()).await.is_err(), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_tool_fails_the_list() {
    let (client, _server) = connect("bad_tools").await;
    assert!(timeout(Duration::from_secs(10), client.list_all_tools()).await.unwrap().is_err());
}

struct Panics;

impl ServerHandler for Panics {
    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        panic!("the handler panics")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_a_handler_leaves_the_call_pending() {
    let (near, far) = duplex(4096);
    let server = tokio::spawn(Panics.serve(far));
    let client = ().serve(near).await.unwrap();
    let _server = server.await.unwrap().unwrap();
    assert!(timeout(PENDING, client.call_tool(CallToolRequestParams::new("any"))).await.is_err());
}
