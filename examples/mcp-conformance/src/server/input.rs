//! Requests for input with fixed keys, which the suite expects (SEP-2322). Tools of haft ask one
//! question at a time, with a key of their own.

use std::sync::LazyLock;

use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, ErrorData,
        InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

/// The codec of the states. The key is fixed, because this server protects nothing.
static STATES: LazyLock<RequestStateCodec> =
    LazyLock::new(|| RequestStateCodec::new_unchecked(*b"the key of the conformance tests"));

/// The names of the tools that request input.
pub(super) const TOOLS: [&str; 8] = [
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

/// Returns a request for an object with one property.
pub(super) fn question(message: &str, property: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {property: {"type": kind}}, "required": [property]});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn sampling(text: &str, max_tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// Calls the tool of `request`, one of [`TOOLS`].
pub(super) fn call(
    request: CallToolRequestParams,
    cx: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let name = request.name.trim_start_matches("test_input_required_result_").to_owned();
    let state = request.request_state.as_deref().map(open).transpose()?;
    let responses = request.input_responses.unwrap_or_default();
    let capabilities = cx.client_capabilities().unwrap_or_default();
    let (requests, next_state) = match (&*name, state.as_deref()) {
        ("elicitation", _) => (json!({"user_name": question("What is your name?", "name", "string")}), None),
        ("sampling", _) => {
            (json!({"capital_question": sampling("What is the capital of France?", 100)}), None)
        }
        ("list_roots", _) => (json!({"client_roots": roots()}), None),
        ("multiple_inputs", _) => {
            let requests = json!({
                "user_name": question("What is your name?", "name", "string"),
                "greeting": sampling("Generate a greeting", 50),
                "client_roots": roots(),
            });
            (requests, Some("all"))
        }
        ("multi_round", None) => {
            (json!({"step1": question("Step 1: What is your name?", "name", "string")}), Some("round 1"))
        }
        ("multi_round", Some("round 1")) if responses.contains_key("step1") => {
            let step = question("Step 2: What is your favorite color?", "color", "string");
            return required(json!({"step2": step}), Some("round 2"));
        }
        ("multi_round", _) => (
            json!({"step2": question("Step 2: What is your favorite color?", "color", "string")}),
            Some("round 2"),
        ),
        ("capabilities", _) => (supported(&capabilities), None),
        _ => (json!({"confirm": question("Please confirm", "ok", "boolean")}), Some("confirm")),
    };
    let is_answered = has_all(&requests, &responses);
    match is_answered && state.as_deref() == next_state {
        true => {
            Ok(CallToolResult::success(vec![ContentBlock::text(format!("state-ok: {}", json!(responses)))])
                .into())
        }
        false => required(requests, next_state),
    }
}

/// Returns the requests that a client with `capabilities` supports.
fn supported(capabilities: &ClientCapabilities) -> Value {
    let mut requests = json!({});
    if capabilities.elicitation.is_some() {
        requests["user_name"] = question("What is your name?", "name", "string");
    }
    if capabilities.sampling.is_some() {
        requests["greeting"] = sampling("Generate a greeting", 50);
    }
    requests
}

/// Returns `true` if `responses` has a valid response to each of `requests`.
fn has_all(requests: &Value, responses: &InputResponses) -> bool {
    let mut requests = requests.as_object().into_iter().flatten();
    requests.all(|(key, request)| {
        let response = responses.get(key).unwrap_or(&Value::Null);
        match request["method"].as_str() {
            Some("elicitation/create") => response["action"].is_string(),
            Some("roots/list") => response["roots"].is_array(),
            _ => response["content"].is_object() || response["content"].is_array(),
        }
    })
}

fn open(state: &str) -> Result<String, ErrorData> {
    STATES.open_json(state).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

/// Returns the result that requests `requests`. It has the signed `state`.
pub(super) fn required_result(
    requests: Value,
    state: Option<&str>,
) -> Result<InputRequiredResult, ErrorData> {
    let internal = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
    let requests: InputRequests = serde_json::from_value(requests).map_err(|error| internal(&error))?;
    let state = state.map(|state| STATES.seal_json(&state)).transpose().map_err(|error| internal(&error))?;
    Ok(InputRequiredResult::new(Some(requests), state))
}

fn required(requests: Value, state: Option<&str>) -> Result<CallToolResponse, ErrorData> {
    required_result(requests, state).map(CallToolResponse::from)
}
