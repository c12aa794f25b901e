//! The route `POST /chat`.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response, sse::Event},
};
use futures::{StreamExt as _, stream::BoxStream};
use haft_core::{
    Message, RunEvent, RunInput, RunOutput, Transcript,
    agent::{AgentStep, RunStart},
    toolset::ListContext,
};
use haft_session::{RunStatus, SessionKey};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    runs::{OnActive, describe, events_of, start_or_send},
    server::{Caller, OfferedTools, Shared, read_json},
    sse,
    stored::RunRequest,
};

/// The body of `POST /chat`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatRequest {
    messages: Vec<ChatMessage>,
    session_id: Option<String>,
    #[serde(default)]
    use_tools: bool,
    #[serde(default)]
    use_memory: bool,
    available_tools: Option<Vec<String>>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    on_active: OnActive,
}

/// A message of a client.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatMessage {
    role: Role,
    content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    System,
    User,
    Assistant,
}

impl ChatMessage {
    pub(crate) fn into_message(self) -> Message {
        match self.role {
            Role::System => Message::system(self.content),
            Role::User => Message::user(self.content),
            Role::Assistant => Message::assistant(self.content),
        }
    }
}

/// Returns the tools that a request offers to the model. An unknown name is an error.
pub(crate) async fn offered(
    shared: &Shared,
    caller: &Caller,
    use_tools: bool,
    available: Option<Vec<String>>,
) -> Result<OfferedTools, ApiError> {
    let available = match (use_tools, available) {
        (true, None) => return Ok(OfferedTools(None)),
        (true, Some(available)) => available,
        (false, _) => Vec::new(),
    };
    let cx = ListContext { state: caller.state(), ..ListContext::default() };
    let list = shared.agent.tools().list(&cx).await;
    if let Some(unknown) = available.iter().find(|name| list.get(name).is_none()) {
        let known: Vec<_> = list.names().map(ToString::to_string).collect();
        let known = known.join(", ");
        return Err(ApiError::invalid(format!("Tool '{unknown}' not found; available: {known}")));
    }
    Ok(OfferedTools(Some(BTreeSet::from_iter(available))))
}

pub(crate) async fn chat(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut request: ChatRequest = read_json(&body)?;
    let Some(last) = request.messages.pop().filter(|message| message.role == Role::User) else {
        return Err(ApiError::invalid("`messages` must end with a message of the role `user`"));
    };
    let tools = offered(&shared, &caller, request.use_tools, request.available_tools).await?;
    let context = caller.context(tools);
    let earlier = request.messages.into_iter().map(ChatMessage::into_message);
    let Some(session) = request.session_id else {
        if request.use_memory {
            return Err(ApiError::invalid("`use_memory` needs a `session_id`"));
        }
        let mut input = RunInput::new("").with_context(context);
        let transcript: Transcript = earlier.collect();
        input.start = RunStart::New { messages: vec![last.into_message()], transcript };
        return answer_once(&shared, input, request.stream).await;
    };
    let (stored, key) = (shared.stored()?, SessionKey::of_tenant(caller.tenant(), session)?);
    // The store has the earlier conversation.
    let messages = vec![last.into_message()];
    let request_of_run = RunRequest { messages, context, is_fresh: !request.use_memory };
    let after = stored.store().create(&key, None).await?.last_event;
    let (run, _) = start_or_send(stored, &key, request_of_run, request.on_active).await?;
    let live = stored.live().get(caller.tenant(), &run);
    if request.stream && live.is_some() {
        return Ok(events_of(stored, key, Some(run), after).into_response());
    }
    // A run that waits, and has only received the message, is not driven.
    if let Some(live) = live {
        live.ended.cancelled().await;
    }
    let mut body = describe(stored.store().run(caller.tenant(), &run).await?)?;
    let status = match body["status"].as_str() {
        Some("finished") => StatusCode::OK,
        Some("suspended" | "active") => StatusCode::ACCEPTED,
        Some("cancelled") => StatusCode::CONFLICT,
        _ => StatusCode::BAD_GATEWAY,
    };
    if status.is_client_error() || status.is_server_error() {
        body["detail"] = format!("the run is {}", body["status"].as_str().unwrap_or_default()).into();
    }
    add_tools(&mut body);
    Ok((status, Json(body)).into_response())
}

/// Runs the agent without a session.
async fn answer_once(shared: &Shared, input: RunInput, stream: bool) -> Result<Response, ApiError> {
    if stream {
        let events = shared.agent.stream(input).map(|event| {
            let data = match event {
                Ok(RunEvent::Done { output }) => sse::output_event(&output),
                Ok(event) => json!(event),
                Err(error) => sse::error_event(&error.kind),
            };
            Ok::<_, Infallible>(Event::default().data(data.to_string()))
        });
        let events: BoxStream<'static, _> = events.boxed();
        return Ok(sse::events(events).into_response());
    }
    let output = shared.agent.run(input).await.map_err(|error| ApiError::from(&*error.kind))?;
    match output {
        RunOutput::Answer(answer) => {
            let status = RunStatus::Finished;
            let mut body = json!({"status": status, "text": answer.text, "agent_steps": answer.steps, "usage": answer.usage});
            add_tools(&mut body);
            Ok(Json(body).into_response())
        }
        RunOutput::Suspended(_) => Err(ApiError::new(
            StatusCode::CONFLICT,
            "a call needs a decision: send a `session_id`, so that the run can wait",
        )),
    }
}

/// Adds the lists of tools, calls and results to a body with `agent_steps`.
fn add_tools(body: &mut Value) {
    let steps: Vec<AgentStep> = serde_json::from_value(body["agent_steps"].take()).unwrap_or_default();
    let used: BTreeSet<_> = steps.iter().map(|step| step.tool_name.as_str()).collect();
    let calls = steps
        .iter()
        .map(|step| json!({"id": step.result.call_id, "name": step.tool_name, "arguments": step.tool_args}));
    let results = steps.iter().map(|step| {
        let mut result = step.result.to_json();
        result["call_id"] = step.result.call_id.as_str().into();
        result["name"] = step.tool_name.as_str().into();
        result
    });
    body["tools_used"] = json!(used);
    body["tool_calls"] = calls.collect();
    body["tool_results"] = results.collect();
    body["agent_steps"] = json!(steps);
}
