//! Results of LangChain as replies of haft.

use std::collections::HashSet;

use langchain_rust::{language_models::GenerateResult, schemas as foreign};

use haft_core::{
    ToolCall,
    content::Content,
    message::{AssistantMessage, ProviderData},
    model::{CallIds, ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError},
    toolset::ToolList,
    usage::Usage,
};

use super::error;
use crate::{
    llm,
    message::{from_langchain_calls, unique_id},
};

/// The reason of [`ModelError::Truncated`] for a reply that ends inside a call.
const INCOMPLETE_CALL: &str = "the arguments of a call are incomplete";

/// Converts a result to a reply. `streamed` is the text of the stream before the result, or
/// `None` if the result was not streamed.
///
/// Fails if the result is empty, or if the arguments of a call are truncated. A result has no
/// finish reason, so the token limit of the request is compared with the tokens of the result.
pub(super) fn from_result(
    result: GenerateResult,
    streamed: Option<String>,
    request: &ChatRequest,
    call_ids: &CallIds,
) -> Result<ChatResponse, ModelError> {
    let GenerateResult { tokens, generation, tool_calls } = result;
    let written = foreign::ToolCall::parse_list(&generation).filter(|calls| !calls.is_empty());
    let is_list_of_calls = written.is_some();
    let calls = if tool_calls.is_empty() { written_calls(written, &request.tools) } else { tool_calls };
    let text = match streamed {
        Some(text) if !text.is_empty() => text,
        // `GenerateResult::with_tool_calls` replaces the text with the calls as JSON.
        _ if is_list_of_calls && !calls.is_empty() => String::new(),
        _ => generation,
    };
    let mut tool_calls = from_langchain_calls(calls);
    let is_truncated = tool_calls.iter().any(has_truncated_arguments);
    let mut provider_data = ProviderData::default();
    call_ids.record_issued(tool_calls.iter().map(|call| &*call.id), &mut provider_data);
    make_ids_unique(&mut tool_calls);
    let content = if text.is_empty() { Vec::new() } else { vec![Content::text(text)] };
    let message = AssistantMessage { content, tool_calls, provider_data, ..AssistantMessage::default() };
    if is_truncated {
        return Err(error::truncated(INCOMPLETE_CALL, message));
    }
    check_names(&message)?;
    if message.is_empty() {
        return Err(ModelError::EmptyResponse);
    }
    let usage = llm::usage(tokens.as_ref());
    let response = ChatResponse::new(message);
    let is_at_limit =
        request.settings.max_tokens.is_some_and(|limit| usage.output_tokens >= u64::from(limit.max(1)));
    let finish_reason = if is_at_limit { FinishReason::Length } else { response.finish_reason.clone() };
    Ok(ChatResponse { finish_reason, usage: usage.counted_as_request(), ..response })
}

/// Returns `written`, the calls in the text of a reply, if each call is for an offered tool. Models
/// without typed calls write them as text.
fn written_calls(written: Option<Vec<foreign::ToolCall>>, offered: &ToolList) -> Vec<foreign::ToolCall> {
    let is_offered = |call: &foreign::ToolCall| offered.get(&call.name).is_some();
    written.filter(|calls| calls.iter().all(is_offered)).unwrap_or_default()
}

/// Returns `true` if the arguments of `call` are the beginning of a JSON text. Empty arguments are
/// complete: some servers send none for a call without arguments.
fn has_truncated_arguments(call: &ToolCall) -> bool {
    let text = call.arguments.trim();
    !text.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

/// Fails if a call has no name.
fn check_names(message: &AssistantMessage) -> Result<(), ModelError> {
    if message.tool_calls.iter().any(|call| call.name.is_empty()) {
        return Err(ModelError::InvalidResponse("a call in it has no name".to_owned()));
    }
    Ok(())
}

/// Replaces empty and repeated ids. A repeated id would merge two calls.
fn make_ids_unique(calls: &mut [ToolCall]) {
    let mut used: HashSet<String> = calls.iter().map(|call| call.id.clone()).collect();
    let mut seen = HashSet::new();
    for call in calls {
        if call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = unique_id(&call.id, &used);
            used.insert(call.id.clone());
        }
    }
}

/// Returns the remaining events of `response`. `is_text_sent` is `true` if its text
/// was already streamed.
pub(super) fn closing_events(response: ChatResponse, is_text_sent: bool) -> impl Iterator<Item = ChatEvent> {
    let is_open = move |event: &ChatEvent| !(is_text_sent && matches!(event, ChatEvent::TextDelta { .. }));
    response.into_events().filter(is_open)
}

/// Creates the reply of a stream from its parts. `lacks_arguments` is `true` if the last call has
/// no arguments. Fails if the reply is empty, or if it ends inside a call.
pub(super) fn from_parts(
    message: AssistantMessage,
    finish_reason: FinishReason,
    usage: Usage,
    lacks_arguments: bool,
) -> Result<ChatResponse, ModelError> {
    let is_done = matches!(finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
    if !is_done && (lacks_arguments || message.tool_calls.iter().any(has_truncated_arguments)) {
        return Err(error::truncated(INCOMPLETE_CALL, message));
    }
    check_names(&message)?;
    if is_done && message.is_empty() {
        return Err(ModelError::EmptyResponse);
    }
    let response = ChatResponse::new(message);
    // Some servers send `stop` after calls.
    let finish_reason = if is_done { response.finish_reason.clone() } else { finish_reason };
    Ok(ChatResponse { finish_reason, usage: usage.counted_as_request(), ..response })
}
