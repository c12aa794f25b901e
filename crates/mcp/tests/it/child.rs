//! Child processes for the tests. They run this test binary as an MCP server, or as the owner of an
//! MCP server.

mod owner;
mod responses;

pub(crate) use owner::launcher;

use std::{
    env,
    io::{self, BufRead as _, Write as _},
    process, thread,
    time::Duration,
};

use serde_json::{Value, json};

const MODE: &str = "mode:";

/// Returns the arguments with which the test binary runs only the test [`child`] in the mode
/// `mode`, without capturing its output.
pub(crate) fn arguments(mode: &str) -> Vec<String> {
    ["child::child", "--exact", "--nocapture", "--test-threads=1"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("{MODE}{mode}")])
        .collect()
}

/// The entry point of a child process. It does nothing if the arguments contain no mode.
#[test]
fn child() {
    let Some(mode) = env::args().find_map(|argument| argument.strip_prefix(MODE).map(str::to_owned)) else {
        return;
    };
    // The test harness may have written an incomplete line, which this line break ends.
    write_line(b"");
    match mode.split_once('=') {
        Some(("own", how)) => owner::run(how),
        _ if mode == "toolset" => crate::serving::child(),
        _ => serve(&mode),
    }
    process::exit(0);
}

/// Runs an MCP server without `rmcp`, with the faults of `mode`.
///
/// | mode | behaviour |
/// |---|---|
/// | `legacy` | only `initialize`, like all modes below that name no revision |
/// | `modern`, `slow_modern` | only revision 2026-07-28; slow: the first response takes 3.5 s |
/// | `exits_on_discover`, `ignores_discover` | exits on `server/discover`, or ignores it |
/// | `discover_2025` | responds to `server/discover` with revision 2025-11-25 |
/// | `no_response`, `no_list_response` | responds to no request at all, or not to `tools/list` |
/// | `subscriptions` | revision 2026-07-28; rejects the first subscription |
/// | `growing` | adds one tool to each `tools/list` result |
/// | `always_changing` | like `growing`, and sends `list_changed` before each result |
/// | `rejects_refresh` | rejects the second `tools/list` |
/// | `circular`, `endless`, `empty_cursor` | paginates the tool list in an unusual or invalid way |
/// | `bad_tools` | lists tools with invalid definitions |
/// | `noisy` | writes other text to standard output and standard error |
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
        if message["id"].is_null() {
            continue;
        }
        match (method, mode) {
            (_, "no_response") => {}
            ("server/discover", "exits_on_discover") => process::exit(1),
            ("server/discover", "ignores_discover") => {}
            ("server/discover", "modern" | "subscriptions" | "discover_2025") => {
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
                    "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "faulty", "version": "1"},
                }),
            ),
            ("tools/list", "modern")
                if message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() =>
            {
                reject(&message, -32602, "no version in _meta");
            }
            ("tools/list", _) => responses::list(mode, &message),
            ("tools/call", _) => responses::call(&message, &cancelled),
            _ => reject(&message, -32601, "method not found"),
        }
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
