//! Wire types of replies. Unknown fields are ignored, and missing fields have defaults.

use haft_core::{
    model::adapter::{contains_error, surrogates},
    usage::Usage,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// A reply of `generateContent`, or a chunk of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireReply {
    pub(super) candidates: Option<Vec<WireCandidate>>,
    pub(super) prompt_feedback: Option<PromptFeedback>,
    pub(super) usage_metadata: Option<WireUsage>,
    pub(super) model_version: Option<String>,
    pub(super) response_id: Option<String>,
    error: Option<Value>,
    /// The whole body, if it is no reply.
    #[serde(skip)]
    body: Option<Value>,
}

/// The chunks of an event. Usually one; the elements of a list are also accepted, because Google
/// sends errors, and streams without `alt=sse`, as a list.
#[derive(Debug, Default)]
pub(crate) struct WireReplies {
    pub(super) replies: Vec<WireReply>,
    /// `true` if strings may contain private-use characters in place of lone surrogates.
    pub(super) has_stand_ins: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireCandidate {
    pub(super) index: i64,
    pub(super) content: Option<WireContent>,
    pub(super) finish_reason: Option<String>,
    pub(super) finish_message: Option<String>,
    pub(super) grounding_metadata: Option<Value>,
    pub(super) url_context_metadata: Option<Value>,
    pub(super) citation_metadata: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireContent {
    pub(super) parts: Option<Vec<Box<RawValue>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WirePart {
    pub(super) text: Option<String>,
    pub(super) thought: Option<bool>,
    pub(super) thought_signature: Option<String>,
    pub(super) function_call: Option<WireCall>,
    pub(super) inline_data: Option<InlineData>,
    pub(super) executable_code: Option<Value>,
    pub(super) code_execution_result: Option<Value>,
    pub(super) tool_call: Option<Value>,
    pub(super) tool_response: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireCall {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    #[serde(alias = "arguments")]
    pub(super) args: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InlineData {
    pub(super) mime_type: String,
    pub(super) data: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    pub(super) block_reason: Option<String>,
    pub(super) block_reason_message: Option<String>,
}

/// The usage of a request. In a stream, each chunk has the usage so far.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireUsage {
    prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
}

impl WireReplies {
    pub(super) fn read(data: &[u8]) -> serde_json::Result<Self> {
        let (replies, has_stand_ins) = surrogates::parse_raw_with_stand_ins(data, |json| {
            if json.trim_ascii_start().first() == Some(&b'[') {
                let list: Vec<Box<RawValue>> = serde_json::from_slice(json)?;
                return list.iter().map(|reply| WireReply::read(reply.get().as_bytes())).collect();
            }
            WireReply::read(json).map(|reply| vec![reply])
        })?;
        Ok(Self { replies, has_stand_ins })
    }
}

impl WireReply {
    fn read(json: &[u8]) -> serde_json::Result<Self> {
        let mut reply: Self = serde_json::from_slice(json)?;
        if reply.candidates.is_none() {
            reply.body = serde_json::from_slice(json).ok();
        }
        Ok(reply)
    }

    /// Returns the error in place of the reply. `None` if there is none.
    pub(super) fn take_error(&mut self) -> Option<Value> {
        let error = self.error.take().filter(|error| !error.is_null());
        error.or_else(|| self.body.take().filter(contains_error))
    }
}

impl WireUsage {
    /// Returns `newer` with the fields of `self` that it lacks.
    pub(super) fn merged(self, newer: Self) -> Self {
        Self {
            prompt_token_count: newer.prompt_token_count.or(self.prompt_token_count),
            cached_content_token_count: newer.cached_content_token_count.or(self.cached_content_token_count),
            candidates_token_count: newer.candidates_token_count.or(self.candidates_token_count),
            thoughts_token_count: newer.thoughts_token_count.or(self.thoughts_token_count),
            tool_use_prompt_token_count: newer
                .tool_use_prompt_token_count
                .or(self.tool_use_prompt_token_count),
        }
    }
}

impl From<WireUsage> for Usage {
    /// The tokens of the thoughts are not in `candidatesTokenCount`, and those of the results of
    /// hosted tools are not in `promptTokenCount`.
    fn from(usage: WireUsage) -> Self {
        let count = Option::unwrap_or_default;
        let input = count(usage.prompt_token_count).saturating_add(count(usage.tool_use_prompt_token_count));
        let thoughts = count(usage.thoughts_token_count);
        let output = count(usage.candidates_token_count).saturating_add(thoughts);
        Self {
            cached_input_tokens: count(usage.cached_content_token_count),
            reasoning_tokens: thoughts,
            ..Self::one_request(input, output)
        }
    }
}

/// Returns the arguments of a call as JSON text without whitespace. Google sends an object; a string
/// with the text of an object is also accepted. Missing arguments become `{}`.
pub(super) fn arguments_text(args: Option<&RawValue>) -> String {
    let text = args.map_or("null", RawValue::get);
    if text == "null" {
        return "{}".to_owned();
    }
    serde_json::from_str::<String>(text).unwrap_or_else(|_| without_whitespace(text))
}

/// Removes the whitespace between the tokens of `json`. A parsed and rewritten text could contain
/// rounded numbers.
fn without_whitespace(json: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_kept = |letter: &char| {
        let is_kept = is_string || !letter.is_ascii_whitespace();
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_string,
            '"' => is_string = !is_string,
            _ => {}
        }
        is_kept
    };
    json.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::arguments_text;

    #[test]
    fn arguments_become_compact_json_text() {
        for (args, text) in [
            (
                "{\n  \"a b\": [1, 12345678901234567890123],\t\"c\": \"\\\" x \"\n}",
                r#"{"a b":[1,12345678901234567890123],"c":"\" x "}"#,
            ),
            (r#""{\"x\": 1}""#, r#"{"x": 1}"#),
            ("null", "{}"),
        ] {
            let args = RawValue::from_string(args.to_owned()).unwrap();
            assert_eq!(arguments_text(Some(&args)), text);
        }
        assert_eq!(arguments_text(None), "{}");
    }
}
