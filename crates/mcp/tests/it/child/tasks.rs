//! A server with tasks (extension `io.modelcontextprotocol/tasks`).

use std::sync::Mutex;

use serde_json::{Value, json};

use super::{reject, reply};

/// The tasks of the server. The id of a task is its index.
static TASKS: Mutex<Vec<Task>> = Mutex::new(Vec::new());

struct Task {
    /// The arguments of its call. `ends` is the final status, or `never` or `unknown`. `asks` is
    /// the number of elicitations.
    arguments: Value,
    polls: u64,
    responses: Vec<Value>,
    is_cancelled: bool,
}

/// Responds to a request about a task, or to a call. The tool `task` creates a task, and the tool
/// `log` returns the responses and the cancellation of the task `task`.
pub(super) fn respond(method: &str, request: &Value) {
    let params = &request["params"];
    let mut tasks = TASKS.lock().unwrap();
    if method == "tools/call" {
        let arguments = &params["arguments"];
        if params["name"] == "log" {
            let Task { responses, is_cancelled, .. } = &tasks[index(&arguments["task"])];
            let log = json!({"responses": responses, "is_cancelled": is_cancelled});
            return reply(request, json!({"content": [], "structuredContent": log}));
        }
        let capabilities = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{capabilities}");
        let task =
            Task { arguments: arguments.clone(), polls: 0, responses: Vec::new(), is_cancelled: false };
        tasks.push(task);
        let id = (tasks.len() - 1).to_string();
        return reply(request, state(&id, "task", &json!({"status": "working", "statusMessage": "created"})));
    }
    let id = params["taskId"].as_str().unwrap();
    let task = &mut tasks[index(&params["taskId"])];
    match method {
        "tasks/get" if task.arguments["ends"] == "unknown" => reject(request, -32602, "no such task"),
        "tasks/get" => {
            task.polls += 1;
            reply(request, state(id, "complete", &task.status()));
        }
        "tasks/update" => {
            task.responses.push(params["inputResponses"].clone());
            reply(request, json!({"resultType": "complete"}));
        }
        _ => {
            task.is_cancelled = true;
            reply(request, json!({"resultType": "complete"}));
        }
    }
}

fn index(id: &Value) -> usize {
    id.as_str().unwrap_or("0").parse().unwrap()
}

fn state(id: &str, kind: &str, status: &Value) -> Value {
    let mut state = json!({
        "resultType": kind, "taskId": id, "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "pollIntervalMs": 1,
    });
    state.as_object_mut().unwrap().extend(status.as_object().cloned().unwrap());
    state
}

impl Task {
    fn status(&self) -> Value {
        let asked = self.arguments["asks"].as_u64().unwrap_or(0);
        let answered = self.responses.len() as u64;
        if answered < asked {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let params = json!({"message": "Your name?", "requestedSchema": schema});
            // The latest answered request is listed again, as by a slow server.
            let keys = answered.saturating_sub(1)..=answered;
            let requests: serde_json::Map<_, _> = keys
                .map(|key| (format!("key{key}"), json!({"method": "elicitation/create", "params": params})))
                .collect();
            return json!({"status": "input_required", "inputRequests": requests});
        }
        let ends = self.arguments["ends"].as_str().unwrap_or("completed");
        if self.polls < 3 || ends == "never" {
            return json!({"status": "working", "statusMessage": format!("step {}", self.polls)});
        }
        let text = format!("done: {}", Value::from(self.responses.clone()));
        json!({
            "status": ends, "statusMessage": "at the end",
            "result": {"content": [{"type": "text", "text": text}], "isError": self.arguments["isError"] == true},
            "error": {"code": -32603, "message": "out of paper"},
        })
    }
}
