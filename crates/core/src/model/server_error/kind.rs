//! The codes and phrases by which servers name the cause of an error.

/// Codes of a generation that the server could not parse or validate: Groq.
pub(super) const GENERATION_CODES: &[&str] = &["tool_use_failed", "json_validate_failed"];

pub(super) const GENERATION_TEXTS: &[&str] = &[
    // Groq, also inside the text of a gateway.
    "tool_use_failed",
    "json_validate_failed",
    // Ollama
    "error parsing tool call",
    // llama.cpp
    "failed to parse input at pos",
    "failed to parse tool call",
    "produced output that does not match the expected",
];

pub(super) const FILTER_CODES: &[&str] = &[
    // OpenAI and Azure
    "content_filter",
    "content_policy_violation",
    "ResponsibleAIPolicyViolation",
    "moderation_blocked",
    // Alibaba
    "data_inspection_failed",
    "DataInspectionFailed",
    // Gemini (`blockReason`)
    "SAFETY",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
];

/// Zhipu and MiniMax. Other servers have other meanings for these numbers, such as Cloudflare's
/// 1027, a rate limit.
pub(super) const FILTER_NUMBERS: &[&str] = &["1301", "1026", "1027"];

pub(super) const FILTER_TEXTS: &[&str] = &[
    "content_filter",
    "responsibleaipolicyviolation",
    "contentpolicyviolation",
    "content_policy_violation",
    // Azure and Anthropic
    "content management policy",
    "content filtering policy",
    // OpenAI and OpenRouter
    "flagged as potentially violating",
    "input was flagged",
    "our safety system",
    // DeepSeek, xAI, Moonshot and Alibaba
    "content exists risk",
    "content violates usage guidelines",
    "considered high risk",
    "inappropriate content",
];

/// Google sends them with status 400.
pub(super) const KEY_CODES: &[&str] = &["API_KEY_INVALID", "API_KEY_EXPIRED"];

pub(super) const KEY_TEXTS: &[&str] = &["api key not valid", "api key expired"];

pub(super) const QUOTA_CODES: &[&str] = &[
    "insufficient_quota",
    "exceeded_current_quota_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "budget_exceeded",
    "billing_error",
];

pub(super) const QUOTA_TEXTS: &[&str] = &[
    "insufficient_quota",
    // Anthropic, DeepSeek and OpenRouter
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    // LiteLLM
    "budget has been exceeded",
];

pub(super) const CONTEXT_CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "tokens_limit_reached",
    "model_max_prompt_tokens_exceeded",
    "request_too_large",
];

pub(super) const CONTEXT_TEXTS: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "contextwindowexceeded",
    "maximum context length",
    "model's context length",
    "context length is only",
    "context length of only",
    "greater than the context length",
    "exceeded max context length",
    "exceed context limit",
    "context window",
    "context size",
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "input is too long",
    "too many input tokens",
    "reduce the length of the",
    "exceeds the maximum number of tokens",
    "exceeded model token limit",
    "prompt token count",
    "maximum model length",
    "maximum prompt length",
    "range of input length should be",
    "`inputs` must have less than",
    "`inputs` tokens + `max_new_tokens`",
    // Servers send the next three phrases if a single request exceeds the token limit per minute.
    "request too large for model",
    "the input or output tokens must be reduced",
    "please reduce your message size",
    "number of tokens in the prompt exceeds",
];

/// Returns the HTTP status that corresponds to `word`, an error `code` or `type`, and whether it is
/// exact. OpenAI also sends the type `invalid_request_error` with status 401 and 404, so its status
/// is not exact. `None` for an unknown word.
pub(super) fn status_of_code(word: &str) -> Option<(u16, bool)> {
    Some(match word {
        "invalid_request_error" | "BAD_REQUEST" | "INVALID_ARGUMENT" | "INVALID_PARAMETER_VALUE" => {
            (400, false)
        }
        "invalid_prompt" | "image_too_large" | "invalid_base64_image" => (400, true),
        "unsupported_parameter" | "unsupported_value" | "unknown_parameter" => (400, true),
        "invalid_api_key" | "authentication_error" | "UNAUTHENTICATED" => (401, true),
        "permission_error" | "PERMISSION_DENIED" => (403, true),
        "model_not_found" | "not_found_error" => (404, true),
        "insufficient_quota" | "exceeded_current_quota_error" => (429, true),
        "rate_limit_exceeded" | "rate_limit_error" | "RESOURCE_EXHAUSTED" | "REQUEST_LIMIT_EXCEEDED" => {
            (429, true)
        }
        "overloaded_error" => (529, true),
        _ => return None,
    })
}

/// Returns `true` if `code` is one of `codes`, ignoring case.
pub(super) fn is_any(code: &str, codes: &[&str]) -> bool {
    codes.iter().any(|it| it.eq_ignore_ascii_case(code))
}

/// Returns `true` if `texts`, in lower case, contains one of `phrases`.
pub(super) fn contains_any(texts: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| texts.contains(phrase))
}

/// Returns the text of the model in `message`, an error of Ollama (`error parsing tool call:
/// raw='…', err=…`) or of llama.cpp (`Failed to parse input at pos 12: …`).
pub(super) fn quoted_generation(message: &str) -> Option<String> {
    if let Some((_, rest)) = message.split_once("error parsing tool call: raw='") {
        let end = rest.rfind("', err=").unwrap_or(rest.len());
        return rest.get(..end).map(str::to_owned);
    }
    let (_, rest) = message.split_once("Failed to parse input at pos ")?;
    let (_, generation) = rest.split_once(": ")?;
    Some(generation.trim().to_owned()).filter(|text| !text.is_empty())
}
