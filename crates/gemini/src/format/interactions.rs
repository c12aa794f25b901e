//! Replies and results in the format of the Interactions API.

use std::borrow::Cow;

use haft_core::{ToolResult, content::Content, model::adapter::encode_result_content};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    EncodingOptions, WireApi,
    conversation::{EncodedReply, ReplyParts, arguments, raw},
    generate_content::FIXED_SIGNATURE,
    media::{encode_medium, text_part},
    names::wire_name,
    stored::StoredPart,
};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Step<'a> {
    Thought {
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        summary: Vec<Value>,
    },
    ModelOutput {
        content: Vec<Value>,
    },
    FunctionCall {
        id: &'a str,
        name: Cow<'a, str>,
        arguments: Option<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
}

impl WireApi {
    /// Returns the key of the parts of a reply in the provider data.
    pub(crate) fn stored_field(self) -> &'static str {
        match self {
            Self::GenerateContent => "parts",
            Self::Interactions => "steps",
        }
    }
}

/// Encodes `content`, the parts of a user message, as a step.
pub(super) fn user_input(content: Vec<Value>) -> Value {
    json!({"type": "user_input", "content": content})
}

pub(super) fn encode_reply(reply: &ReplyParts<'_>, options: &EncodingOptions) -> EncodedReply {
    let (mut steps, mut unsigned_call) = (Vec::new(), None);
    let (mut output, mut has_signature, mut has_call) = (Vec::new(), false, false);
    for stored in &reply.parts.0 {
        let content = match &stored.part {
            StoredPart::Text(start, end) => Some(text_part(reply.text(*start, *end), options)),
            StoredPart::Media(index) => reply.medium(*index).map(|medium| {
                encode_medium(medium, options).unwrap_or_else(|| text_part(&medium.as_text(), options))
            }),
            _ => None,
        };
        if let Some(content) = content {
            output.push(content);
            continue;
        }
        steps.extend(raw(finish_output(&mut output)));
        let signature = stored.signature.as_deref();
        has_signature |= signature.is_some();
        match &stored.part {
            StoredPart::Thought(start, end) => {
                let text = reply.thought(*start, *end);
                let summary = (!text.is_empty()).then(|| text_part(text, options)).into_iter().collect();
                steps.extend(raw([Step::Thought { signature, summary }]));
            }
            StoredPart::Call { id, .. } => {
                let step = raw(call_step(reply, id, signature));
                // In this API, the signature of a call is in the thought before it.
                if !has_call && !has_signature {
                    let thought =
                        raw([Step::Thought { signature: Some(FIXED_SIGNATURE), summary: Vec::new() }]);
                    unsigned_call = Some((steps.len(), thought.into_iter().chain(step.clone()).collect()));
                }
                has_call = true;
                steps.extend(step);
            }
            StoredPart::Other(step) => steps.extend(raw([step])),
            StoredPart::Text(..) | StoredPart::Media(_) => {}
        }
    }
    steps.extend(raw(finish_output(&mut output)));
    EncodedReply { parts: steps, unsigned_call }
}

/// Returns the step with the content in `output`, which becomes empty. `None` if it is empty.
fn finish_output(output: &mut Vec<Value>) -> Option<Step<'static>> {
    let content = std::mem::take(output);
    (!content.is_empty()).then_some(Step::ModelOutput { content })
}

fn call_step<'a>(reply: &ReplyParts<'a>, id: &str, signature: Option<&'a str>) -> Option<Step<'a>> {
    let call = reply.call(id)?;
    let name = wire_name(&call.name);
    Some(Step::FunctionCall { id: &call.id, name, arguments: arguments(call), signature })
}

/// Encodes `result` as a step. The API requires an id.
pub(super) fn encode_result(result: &ToolResult, id: Option<&str>, options: &EncodingOptions) -> Value {
    let media = |piece: &Content| {
        let is_sent = options.sends_result_media && piece.media_len() > 0;
        is_sent.then(|| encode_medium(piece, options)).flatten()
    };
    let part = |piece: &Content| media(piece).unwrap_or_else(|| text_part(&piece.as_text(), options));
    let output = encode_result_content(result, |piece| media(piece).is_some(), part);
    let mut step = json!({
        "type": "function_result",
        "call_id": id.unwrap_or(&result.call_id),
        "name": wire_name(&result.name),
        "result": output,
    });
    if let (Some(_), Value::Object(step)) = (result.failure(), &mut step) {
        step.insert("is_error".to_owned(), true.into());
    }
    step
}
