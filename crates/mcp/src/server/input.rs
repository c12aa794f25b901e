//! Elicitations for suspended calls of a served toolset.

use std::fmt::Display;

use haft_core::{
    ToolCall,
    call::{Decision, Pending, PendingKind, ResumedCall},
    limits,
    schema::canonical_json,
    tool::Principal,
};
use rmcp::{
    RoleServer,
    model::{
        ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
        ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
        SealOptions, ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext, ServiceError},
};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::hidden_chars::escape_hidden;

/// The key of the elicitation in the requests of a result with the type `input_required`.
const INPUT_KEY: &str = "input";
/// The property of the input, if its schema is not an object schema.
const VALUE_PROPERTY: &str = "value";
/// The maximum length of the arguments in a request for an approval, in bytes. A user approves only
/// what the request shows, so a call with longer arguments is denied.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;
/// The length of the key that signs the states of suspended calls, in bytes.
const KEY_BYTES: usize = 32;

/// An elicitation in form mode, for the user of the client.
pub(super) struct ElicitationForm {
    message: String,
    schema: ElicitationSchema,
}

impl ElicitationForm {
    /// Creates the form for the decision about `call`. Returns `None` if a form cannot express it:
    /// if the call waits for something other than an approval or input, or if the input is neither
    /// of a primitive type nor an object with properties of primitive types.
    pub(super) fn new(call: &ToolCall, pending: &Pending) -> Option<Self> {
        let (message, schema) = match &pending.kind {
            PendingKind::Approval { arguments } => {
                let shown = shown_arguments(arguments);
                if shown.len() > MAX_ARGUMENT_BYTES {
                    return None;
                }
                let message = format!("Permit the call {}({shown})?", call.name);
                (message, json!({"type": "object", "properties": {}}))
            }
            PendingKind::Input { message, schema } if is_object(schema) => {
                (message.clone(), Value::Object(schema.clone()))
            }
            PendingKind::Input { message, schema } => {
                let value = if schema.is_empty() { json!({"type": "string"}) } else { json!(schema) };
                let schema = json!({
                    "type": "object", "properties": {VALUE_PROPERTY: value}, "required": [VALUE_PROPERTY],
                });
                (message.clone(), schema)
            }
            _ => return None,
        };
        Some(Self { message, schema: serde_json::from_value(schema).ok()? })
    }

    /// Sends the form to the client of a session, and waits for the response.
    ///
    /// # Errors
    ///
    /// Fails if the client rejects the request, if it does not respond within
    /// [`limits::ELICITATION_TIMEOUT`], or if it cancels the call.
    pub(super) async fn send(self, cx: &RequestContext<RoleServer>) -> Result<ElicitResult, ErrorData> {
        let failed = |reason: &dyn Display| {
            ErrorData::internal_error(format!("the elicitation failed: {reason}"), None)
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(self.into_params()));
        let options = PeerRequestOptions::no_options();
        let mut sent =
            cx.peer.send_cancellable_request(request, options).await.map_err(|error| failed(&error))?;
        let response = tokio::select! {
            response = timeout(limits::ELICITATION_TIMEOUT, &mut sent.rx) => response.ok(),
            () = cx.ct.cancelled() => None,
        };
        let Some(response) = response else {
            let _ = sent.cancel(Some("the call ended".to_owned())).await;
            return Err(failed(&"the call was cancelled, or the time is over"));
        };
        match response.unwrap_or(Err(ServiceError::TransportClosed)) {
            Ok(ClientResult::ElicitResult(result)) => Ok(result),
            Ok(_) => Err(failed(&"invalid response")),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Returns the result that requests the input. The client sends the call again, with `state`.
    pub(super) fn into_result(self, state: String) -> Option<InputRequiredResult> {
        let request = json!({"method": "elicitation/create", "params": self.into_params()});
        let request: InputRequest = serde_json::from_value(request).ok()?;
        let requests = InputRequests::from([(INPUT_KEY.to_owned(), request)]);
        Some(InputRequiredResult::new(Some(requests), Some(state)))
    }

    fn into_params(self) -> ElicitRequestParams {
        let Self { message, schema: requested_schema } = self;
        ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
    }
}

fn shown_arguments(arguments: &Value) -> String {
    escape_hidden(&arguments.to_string())
}

/// Returns the denial of `pending` if it waits for an approval whose request cannot show all
/// arguments.
pub(super) fn denial_of_long_arguments(pending: &Pending) -> Option<Decision> {
    let PendingKind::Approval { arguments } = &pending.kind else { return None };
    let bytes = shown_arguments(arguments).len();
    (bytes > MAX_ARGUMENT_BYTES).then(|| {
        Decision::denied(format!(
            "the request for an approval can show {MAX_ARGUMENT_BYTES} bytes of arguments, and the call has \
             {bytes}: split the call"
        ))
    })
}

/// Returns the response in `responses`, the responses of a client to
/// [`ElicitationForm::into_result`].
pub(super) fn response(responses: Option<InputResponses>) -> Option<ElicitResult> {
    serde_json::from_value(responses?.remove(INPUT_KEY)?).ok()
}

/// Combines `pending` with `result`, the response to its form.
///
/// # Errors
///
/// Fails if the input is invalid for the schema of `pending`.
pub(super) fn resume(pending: Pending, result: ElicitResult) -> Result<ResumedCall, ErrorData> {
    let decision = match (result.action, &pending.kind) {
        (ElicitationAction::Accept, PendingKind::Approval { .. }) => Decision::approved(),
        (ElicitationAction::Accept, PendingKind::Input { schema, .. }) => {
            let mut content = result.content.unwrap_or_else(|| json!({}));
            let value = match is_object(schema) {
                true => content,
                false => content.get_mut(VALUE_PROPERTY).map(Value::take).unwrap_or_default(),
            };
            Decision::Input { value }
        }
        (ElicitationAction::Cancel, _) => Decision::denied("the user made no choice"),
        _ => Decision::denied("the user declined"),
    };
    decide(pending, decision)
}

/// Combines `pending` with `decision`.
///
/// # Errors
///
/// Fails if the decision is invalid for `pending`.
pub(super) fn decide(pending: Pending, decision: Decision) -> Result<ResumedCall, ErrorData> {
    pending.resume(decision).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

fn is_object(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// Returns `true` if the client of a request supports forms. An empty capability declares them (MCP
/// 2025-11-25, "Elicitation").
pub(super) fn supports_forms(cx: &RequestContext<RoleServer>) -> bool {
    let elicitation = cx.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// The signed states of suspended calls. The client keeps the state of a call, and returns it with
/// the response (MCP 2026-07-28, "Multi Round-Trip Requests").
///
/// A client can read a state, but not change it. A state is valid for one caller, tool and set of
/// arguments, in this process.
#[derive(Clone)]
pub(super) struct RequestStates(RequestStateCodec);

impl RequestStates {
    /// Creates a random key. Returns `None` if the system has no source of randomness.
    pub(super) fn new() -> Option<Self> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).ok()?;
        RequestStateCodec::try_new(key).ok().map(Self)
    }

    /// Returns the signed state of `pending`.
    pub(super) fn seal(
        &self,
        pending: &Pending,
        call: &ToolCall,
        principal: Option<&Principal>,
    ) -> Option<String> {
        let context = context(call, principal);
        let options = SealOptions::new().associated_data(&context).ttl(limits::ELICITATION_TIMEOUT);
        self.0.seal_json_with(pending, &options).ok()
    }

    /// Returns the pending state in `state`.
    ///
    /// # Errors
    ///
    /// Fails if `state` was changed, has expired, or belongs to another call.
    pub(super) fn open(
        &self,
        state: &str,
        call: &ToolCall,
        principal: Option<&Principal>,
    ) -> Result<Pending, ErrorData> {
        let opened = self.0.open_json_with(state, &context(call, principal));
        opened.map_err(|error| ErrorData::invalid_params(format!("invalid `requestState`: {error}"), None))
    }
}

/// Returns the data that a state is bound to.
fn context(call: &ToolCall, principal: Option<&Principal>) -> Vec<u8> {
    let arguments = call.arguments.value().unwrap_or(&Value::Null);
    let principal = principal.map(|principal| &principal.id);
    canonical_json(&json!([principal, call.name, arguments])).into_bytes()
}
