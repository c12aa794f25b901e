//! Child processes of the tests. A child process runs this test binary as an MCP server, or as a
//! program that owns an MCP server.

mod owner;
mod responses;
mod tasks;

pub(crate) use owner::launcher_server;

use std::{
    env,
    io::{self, BufRead as _, Write as _},
    process,
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

const MODE_PREFIX: &str = "mode:";

/// Returns the command line arguments for the test binary that run only the test [`child`], in the
/// mode `mode` and without capturing its output.
pub(crate) fn arguments(mode: &str) -> Vec<String> {
    ["child::child", "--exact", "--nocapture", "--test-threads=1"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("{MODE_PREFIX}{mode}")])
        .collect()
}

/// The entry point of a child process. In an ordinary test run, the arguments contain no mode, and
/// the function does nothing.
#[test]
fn child() {
    let Some(mode) = env::args().find_map(|argument| argument.strip_prefix(MODE_PREFIX).map(str::to_owned))
    else {
        return;
    };
    // A server that was updated has the same command line.
    let mode = env::var("UPDATED_MODE").unwrap_or(mode);
    // The test harness may have written an incomplete line to standard output. Terminate it.
    write_line(b"");
    match mode.split_once('=') {
        Some(("own", how)) => owner::run(how),
        Some(("leaks", marker)) => crate::leaks::child(marker),
        Some(("open_calls", marker)) => crate::guarantees::child(marker),
        Some(("elicits", version)) => crate::elicitation::child(version),
        Some(("calls", url)) => crate::connection_pool::child(url),
        _ if mode == "rmcp_tasks" => crate::tasks::rmcp_child(),
        _ if mode == "own_elicits" => crate::elicitation::own_child(),
        _ if mode == "toolset" => crate::serving::child(),
        _ => serve(&mode),
    }
    process::exit(0);
}

/// Runs an MCP server that does not use `rmcp`. `mode` selects its behaviour.
///
/// Unless the table states otherwise, the server accepts `initialize`, rejects `server/discover`,
/// and responds correctly to `tools/list`.
///
/// | mode | behaviour |
/// |---|---|
/// | `legacy` | behaves as stated above |
/// | `modern` | supports only revision 2026-07-28 and rejects `initialize` |
/// | `slow_modern` | behaves like `modern`, but reads its first request after 3.5 s |
/// | `exits_on_discover` | exits on `server/discover` |
/// | `exits_after_discover` | rejects `server/discover`, and then exits |
/// | `ignores_discover` | never responds to `server/discover` |
/// | `discover_2025` | responds to `server/discover` with revision 2025-11-25 only |
/// | `no_response` | never responds to any request |
/// | `no_list_response` | never responds to `tools/list` |
/// | `growing` | returns one more tool in each `tools/list` result |
/// | `subscriptions` | behaves like `growing` with 2026-07-28; rejects the first subscription |
/// | `always_changing` | behaves like `growing`, and sends `list_changed` before each result |
/// | `rejects_refresh` | rejects the second `tools/list` request |
/// | `circular` | returns the same cursor for every page of the tool list |
/// | `endless` | returns a new cursor for every page of the tool list |
/// | `empty_cursor` | returns an empty string as the cursor of the second page |
/// | `bad_tools` | lists one valid tool, and several tools with invalid or missing fields |
/// | `limited` | lists tools that use much of a resource, and a tool that stops all responses |
/// | `features` | has resources and prompts, and a tool `features_read_resource` |
/// | `tasks` | behaves like `modern`, and creates tasks |
/// | `noisy` | first writes other text to standard output and standard error |
fn serve(mode: &str) {
    let mut cancelled = Vec::new();
    match mode {
        "noisy" => write_stray_output(),
        "slow_modern" => pause(3500),
        _ => {}
    }
    let mode = mode.strip_prefix("slow_").unwrap_or(mode);
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        if method == "notifications/cancelled" {
            cancelled.push(message["params"]["requestId"].clone());
        }
        if message["id"].is_null() || responses::IS_STOPPED.load(Ordering::Relaxed) {
            continue;
        }
        match (method, mode) {
            (_, "no_response") => {}
            ("server/discover", "exits_on_discover") => process::exit(1),
            ("server/discover", "exits_after_discover") => {
                reject(&message, -32600, "expected `initialize`");
                process::exit(1);
            }
            ("server/discover", "ignores_discover") => {}
            ("server/discover", "modern" | "subscriptions" | "discover_2025" | "tasks") => {
                let version = if mode == "discover_2025" { "2025-11-25" } else { "2026-07-28" };
                let tools = if mode == "subscriptions" { json!({"listChanged": true}) } else { json!({}) };
                reply(
                    &message,
                    json!({
                        "resultType": "complete", "supportedVersions": [version], "capabilities": {"tools": tools},
                        "ttlMs": 0, "cacheScope": "private",
                    }),
                );
            }
            ("subscriptions/listen", "subscriptions") => responses::listen(&message),
            ("initialize", "modern") => reject(&message, -32022, "unsupported version"),
            ("initialize", _) => reply(
                &message,
                json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": capabilities(mode),
                    "serverInfo": {"name": "faulty", "version": "1"},
                }),
            ),
            ("tools/list", "modern")
                if message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() =>
            {
                reject(&message, -32602, "no version in _meta");
            }
            ("tools/list", _) => responses::list(mode, &message),
            ("tools/call", "tasks") => tasks::respond(method, &message),
            (method, "tasks") if method.starts_with("tasks/") => tasks::respond(method, &message),
            (method, "features") if !method.starts_with("tools/") => responses::feature(method, &message),
            ("tools/call", _) => responses::call(&message, &cancelled),
            _ => reject(&message, -32601, "method not found"),
        }
    }
}

fn capabilities(mode: &str) -> Value {
    match mode {
        "features" => json!({"tools": {}, "resources": {}, "prompts": {}}),
        _ => json!({"tools": {"listChanged": true}}),
    }
}

fn write_stray_output() {
    println!("Welcome to the noisy server!");
    for line in 0..2000 {
        println!("[info] {line} things happened");
    }
    let mut stderr = io::stderr().lock();
    for _ in 0..2048 {
        stderr.write_all(&[b'x'; 1024]).unwrap();
    }
}

fn reply(request: &Value, result: Value) {
    write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

fn reject(request: &Value, code: i32, message: &str) {
    write(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}));
}

fn write(message: &Value) {
    write_line(message.to_string().as_bytes());
}

fn write_line(line: &[u8]) {
    let mut stdout = io::stdout().lock();
    stdout.write_all(line).unwrap();
    stdout.write_all(b"\n").unwrap();
    stdout.flush().unwrap();
}

fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}
