//! Replies and results in the format of `generateContent`.

use std::borrow::Cow;

use haft_core::{ToolResult, content::Content};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    EncodingOptions,
    conversation::{EncodedReply, ReplyParts, arguments, raw},
    media::encode_medium,
    names::wire_name,
    result::encode_tool_result,
    stored::StoredPart,
};

/// The signature that Gemini accepts for a call that it has not generated. Source:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures>, "FAQs".
pub(super) const FIXED_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: Option<Box<RawValue>>,
}

pub(super) fn encode_reply(reply: &ReplyParts<'_>, options: &EncodingOptions) -> EncodedReply {
    let (mut parts, mut unsigned_call, mut has_call) = (Vec::new(), None, false);
    for stored in &reply.parts.0 {
        let signature = stored.signature.as_deref();
        match &stored.part {
            StoredPart::Text(start, end) => {
                let text = Some(reply.text(*start, *end));
                parts.extend(raw([Part { text, thought_signature: signature, ..Part::default() }]));
            }
            StoredPart::Thought(start, end) => {
                let text = Some(reply.thought(*start, *end));
                parts.extend(raw([Part {
                    text,
                    thought: true,
                    thought_signature: signature,
                    ..Part::default()
                }]));
            }
            StoredPart::Call { id, sent_id } => {
                let part = |signature| call_part(reply, id, sent_id.as_deref(), signature);
                if !has_call && signature.is_none() {
                    unsigned_call = Some((parts.len(), raw(part(Some(FIXED_SIGNATURE)))));
                }
                has_call = true;
                parts.extend(raw(part(signature)));
            }
            StoredPart::Media(index) => {
                parts.extend(raw(reply
                    .medium(*index)
                    .map(|medium| signed_medium(medium, signature, options))));
            }
            StoredPart::Other(part) => parts.extend(raw([part])),
        }
    }
    EncodedReply { parts, unsigned_call }
}

fn call_part<'a>(
    reply: &ReplyParts<'a>,
    id: &str,
    sent_id: Option<&'a str>,
    signature: Option<&'a str>,
) -> Option<Part<'a>> {
    let call = reply.call(id)?;
    let function_call =
        Some(FunctionCall { id: sent_id, name: wire_name(&call.name), args: arguments(call) });
    Some(Part { function_call, thought_signature: signature, ..Part::default() })
}

fn signed_medium(medium: &Content, signature: Option<&str>, options: &EncodingOptions) -> Value {
    let mut part = encode_medium(medium, options).unwrap_or_else(|| json!({"text": medium.as_text()}));
    if let (Value::Object(part), Some(signature)) = (&mut part, signature) {
        part.insert("thoughtSignature".to_owned(), signature.into());
    }
    part
}

pub(super) fn encode_result(result: &ToolResult, id: Option<&str>, options: &EncodingOptions) -> Value {
    let content = result.output().map(|output| output.content.as_slice()).unwrap_or_default();
    let is_sent = |piece: &&Content| options.sends_result_media && piece.media_len() > 0;
    let media: Vec<_> =
        content.iter().filter(is_sent).filter_map(|piece| encode_medium(piece, options)).collect();
    encode_tool_result(result, id, &media)
}
