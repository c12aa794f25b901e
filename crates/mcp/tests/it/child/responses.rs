use std::{
    collections::BTreeMap,
    env,
    fs::{self, OpenOptions},
    io::Write as _,
    process,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use serde_json::{Value, json};

use super::{pause, reject, reply, write, write_line};

const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// The number of `tools/list` requests received so far.
static LIST_REQUESTS: AtomicU32 = AtomicU32::new(0);
/// `true` if the server responds to no further message.
pub(super) static IS_STOPPED: AtomicBool = AtomicBool::new(false);
/// The number of calls to the tool `position` so far.
static POSITION: AtomicU32 = AtomicU32::new(0);
/// The number of `subscriptions/listen` requests received so far.
static SUBSCRIPTIONS: AtomicU32 = AtomicU32::new(0);

pub(super) fn list(mode: &str, request: &Value) {
    let cursor = request["params"]["cursor"].as_str();
    let listed = LIST_REQUESTS.fetch_add(1, Ordering::Relaxed);
    let page = match mode {
        "circular" => json!({"tools": [tool("add")], "nextCursor": "again"}),
        "endless" => {
            let page: u32 = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            json!({"tools": [tool("add")], "nextCursor": (page + 1).to_string()})
        }
        "rejects_refresh" if listed == 1 => return reject(request, -32603, "not now"),
        "no_list_response" => return,
        "growing" | "always_changing" | "subscriptions" => {
            if mode == "always_changing" {
                write(&json!({"jsonrpc": "2.0", "method": LIST_CHANGED}));
            }
            let tools = ["change".to_owned(), "listed".to_owned()]
                .into_iter()
                .chain((0..listed).map(|index| format!("new_{index}")));
            json!({"tools": tools.map(|name| tool(&name)).collect::<Vec<_>>()})
        }
        "limited" => {
            json!({"tools": "allocate spin open grow place pid stop arguments".split(' ').map(tool).collect::<Vec<_>>()})
        }
        "tasks" => json!({"tools": [tool("task"), tool("log")]}),
        "features" => json!({"tools": [tool("add"), tool("features_read_resource")]}),
        "empty_cursor" if cursor.is_none() => json!({"tools": [tool("first")], "nextCursor": ""}),
        "empty_cursor" => json!({"tools": [tool("second")]}),
        "bad_tools" => json!({"tools": [
            tool("good"),
            {"name": "null_schema", "inputSchema": null},
            {"name": "bad_type", "inputSchema": {"type": "nonsense"}},
            {"name": "remote", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "http://localhost:1/x"}}}},
            {"inputSchema": {"type": "object"}},
            {"name": "no.description!", "inputSchema": {"type": "object"}, "title": "Undescribed",
             "annotations": {"readOnlyHint": true}, "_meta": {"vendor/key": [1]}},
        ]}),
        _ => {
            let names = "add die count env echo error rpc_error progress wait cancelled too_long not_text cut deep wrong_id twice change listed flood position";
            json!({"tools": names.split(' ').map(tool).collect::<Vec<_>>()})
        }
    };
    reply(request, page);
}

/// Responds to a request for a resource or a prompt.
pub(super) fn feature(method: &str, request: &Value) {
    let params = &request["params"];
    match (method, params["uri"].as_str().or(params["name"].as_str())) {
        ("resources/list", _) if params["cursor"] == "2" => {
            reply(request, json!({"resources": [{"uri": "note://c", "name": "c"}]}));
        }
        ("resources/list", _) => {
            let resources = json!([{"uri": "note://b", "name": "b"}, {"uri": "note://a", "name": "a"}]);
            reply(request, json!({"resources": resources, "nextCursor": "2"}));
        }
        ("resources/read", Some("note://a")) => {
            reply(request, json!({"contents": [{"uri": "note://a", "text": "hello"}]}));
        }
        ("resources/read", _) => reject(request, -32002, "resource not found"),
        ("prompts/list", _) => {
            let arguments = json!([{"name": "code", "required": true}]);
            reply(request, json!({"prompts": [{"name": "review", "arguments": arguments}]}));
        }
        ("prompts/get", Some("review")) if params["arguments"]["code"].is_string() => {
            let text = format!("Review {}.", params["arguments"]["code"].as_str().unwrap());
            let content = json!({"type": "text", "text": text});
            reply(request, json!({"messages": [{"role": "user", "content": content}]}));
        }
        ("prompts/get", _) => reject(request, -32602, "the argument `code` is missing"),
        _ => reject(request, -32601, "method not found"),
    }
}

/// Rejects the first `subscriptions/listen` request and accepts later ones.
pub(super) fn listen(request: &Value) {
    if SUBSCRIPTIONS.fetch_add(1, Ordering::Relaxed) == 0 {
        return reject(request, -32603, "not now");
    }
    let meta = json!({"io.modelcontextprotocol/subscriptionId": request["id"]});
    let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    write(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}));
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}})
}

pub(super) fn call(request: &Value, cancelled: &[Value]) {
    let arguments = &request["params"]["arguments"];
    match request["params"]["name"].as_str().unwrap() {
        "add" => {
            reply_text(
                request,
                &(arguments["x"].as_i64().unwrap() + arguments["y"].as_i64().unwrap()).to_string(),
            );
        }
        "die" => {
            log_call(arguments);
            pause(arguments["pause"].as_u64().unwrap_or(0));
            process::abort();
        }
        "allocate" => {
            let bytes = usize::try_from(arguments["bytes"].as_u64().unwrap()).unwrap();
            let is_reserved = Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
            reply_text(request, if is_reserved { "reserved" } else { "refused" });
        }
        "spin" => loop {
            std::hint::spin_loop();
        },
        "arguments" => {
            let arguments: Vec<_> = env::args().skip(1).collect();
            reply(request, json!({"content": [], "structuredContent": {"arguments": arguments}}));
        }
        "pid" => reply_text(request, &process::id().to_string()),
        "stop" => {
            reply_text(request, "stopped");
            IS_STOPPED.store(true, Ordering::Relaxed);
        }
        "open" => {
            let files: Vec<_> = (0..1000).map_while(|_| fs::File::open("/dev/null").ok()).collect();
            reply_text(request, &files.len().to_string());
        }
        "grow" => fs::write("long", vec![0; 1 << 20]).unwrap(),
        "place" => {
            let place = json!({"cwd": env::current_dir().unwrap(), "variables": env::vars().count()});
            reply(request, json!({"content": [], "structuredContent": place}));
        }
        "count" => {
            log_call(arguments);
            reply_text(request, "counted");
        }
        "env" => reply(
            request,
            json!({"content": [], "structuredContent": env::vars().collect::<BTreeMap<_, _>>()}),
        ),
        "echo" => reply(request, arguments.clone()),
        "error" => {
            reply(request, json!({"isError": true, "content": [{"type": "text", "text": "no such file"}]}));
        }
        "rpc_error" => {
            let error = json!({"code": -32000, "message": "out of paper", "data": {"tray": 2}});
            write(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
        }
        "progress" => {
            let token = &request["params"]["_meta"]["progressToken"];
            for progress in 1..=3 {
                let report = json!({"progressToken": token, "progress": progress, "total": 3});
                write(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": report}));
                pause(arguments["pause"].as_u64().unwrap());
            }
            reply_text(request, "done");
        }
        "wait" => {
            pause(arguments["pause"].as_u64().unwrap());
            reply_text(request, "too late");
        }
        "cancelled" => reply_text(request, &cancelled.len().to_string()),
        "change" => {
            write(&json!({"jsonrpc": "2.0", "method": LIST_CHANGED}));
            reply_text(request, "changed");
        }
        "flood" => {
            (0..1000).for_each(|_| write(&json!({"jsonrpc": "2.0", "method": LIST_CHANGED})));
            reply_text(request, "flooded");
        }
        "position" => reply_text(request, &POSITION.fetch_add(1, Ordering::Relaxed).to_string()),
        "listed" => reply_text(request, &LIST_REQUESTS.load(Ordering::Relaxed).to_string()),
        broken => invalid_response(broken, request),
    }
}

/// Sends an invalid response to `request`. `how` names the fault, such as `too_long`. If `how` is
/// not the name of a fault, rejects `request` as a call to an unknown tool.
fn invalid_response(how: &str, request: &Value) {
    let id = &request["id"];
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
    match how {
        "too_long" => write_line(format!(r#"{start}{}"}}]}}}}"#, "x".repeat(20 << 20)).as_bytes()),
        "not_text" => write_line(&[start.as_bytes(), b"\xff\xfe\"}]}}"].concat()),
        "cut" => write_line(start.as_bytes()),
        "deep" => {
            let (open, close) = ("[".repeat(300), "]".repeat(300));
            write_line(format!(r#"{{"result":{open}{close},"jsonrpc":"2.0","id":{id}}}"#).as_bytes());
        }
        "wrong_id" => {
            let wrong = json!({"id": 1_000_000});
            reply(&wrong, json!({"content": []}));
        }
        "twice" => {
            reply_text(request, "once");
            reply_text(request, "again");
        }
        unknown => reject(request, -32602, &format!("unknown tool {unknown}")),
    }
}

fn reply_text(request: &Value, text: &str) {
    reply(request, json!({"content": [{"type": "text", "text": text}]}));
}

/// Appends the line `called` to the file at the path in `arguments["file"]`. Does nothing if
/// `arguments` has no `file`.
fn log_call(arguments: &Value) {
    let Some(path) = arguments["file"].as_str() else { return };
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(b"called\n").unwrap();
}
