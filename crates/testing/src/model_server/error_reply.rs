//! Errors of model servers, as OpenAI and gateways send them.

use serde_json::{Value, json};

/// The cause of an error of a model server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Too many requests: status 429 with `Retry-After: 0`.
    RateLimit,
    /// The account has no credit: status 429 with the code `insufficient_quota`.
    Quota,
    /// The request does not fit into the context window: status 400.
    ContextOverflow,
    /// The prompt was filtered: status 400.
    ContentFilter,
    /// The server does not know a parameter of the request: status 400. The parameter is
    /// `temperature`.
    RejectedParameter,
    /// The model wrote a call that the server cannot parse: status 400 with the code
    /// `tool_use_failed`, as Groq sends it.
    BadGeneration,
    /// The API key is wrong: status 401.
    Authentication,
    /// The server is overloaded: status 503.
    Overloaded,
}

/// The place of an error in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorPlace {
    /// The body of a response with the status of the error.
    Status,
    /// The body of a response with status 200, or the first event of a stream.
    Reply,
    /// An event of a stream after a piece of text. In a whole reply, the same as [`Self::Reply`].
    Stream,
}

/// A gateway that wraps the errors of the servers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gateway {
    /// A constant message, and the error as JSON text in `metadata.raw`, as OpenRouter sends it.
    OpenRouter,
    /// The error as JSON text inside of the message, as `LiteLLM` sends it.
    LiteLlm,
    /// JSON text with `external_model_error` as the message of an object without `error`, as
    /// Databricks sends it.
    Databricks,
}

impl ErrorKind {
    /// All causes.
    pub const ALL: &[Self] = &[
        Self::RateLimit,
        Self::Quota,
        Self::ContextOverflow,
        Self::ContentFilter,
        Self::RejectedParameter,
        Self::BadGeneration,
        Self::Authentication,
        Self::Overloaded,
    ];

    /// Returns the HTTP status code of the error.
    pub const fn status(self) -> u16 {
        match self {
            Self::RateLimit | Self::Quota => 429,
            Self::ContextOverflow | Self::ContentFilter | Self::RejectedParameter | Self::BadGeneration => {
                400
            }
            Self::Authentication => 401,
            Self::Overloaded => 503,
        }
    }

    /// Returns the reason in the error, which a client should show.
    pub const fn message(self) -> &'static str {
        match self {
            Self::RateLimit => "Rate limit reached for requests. Please try again later.",
            Self::Quota => "You exceeded your current quota, please check your plan and billing details.",
            Self::ContextOverflow => {
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
            }
            Self::ContentFilter => "The prompt was filtered by the content management policy.",
            Self::RejectedParameter => {
                "Unsupported parameter: 'temperature' is not supported with this model."
            }
            Self::BadGeneration => "Failed to call a function. Please adjust your prompt.",
            Self::Authentication => "Incorrect API key provided.",
            Self::Overloaded => "The server is overloaded. Please try again later.",
        }
    }

    /// Returns the error as OpenAI sends it.
    fn body(self) -> Value {
        let (kind, code) = match self {
            Self::RateLimit => ("requests", "rate_limit_exceeded"),
            Self::Quota => ("insufficient_quota", "insufficient_quota"),
            Self::ContextOverflow => ("invalid_request_error", "context_length_exceeded"),
            Self::ContentFilter => ("invalid_request_error", "content_filter"),
            Self::RejectedParameter => ("invalid_request_error", "unsupported_parameter"),
            Self::BadGeneration => ("invalid_request_error", "tool_use_failed"),
            Self::Authentication => ("invalid_request_error", "invalid_api_key"),
            Self::Overloaded => ("server_error", "server_overloaded"),
        };
        let mut error = json!({"message": self.message(), "type": kind, "param": null, "code": code});
        match self {
            Self::RejectedParameter => error["param"] = json!("temperature"),
            Self::BadGeneration => error["failed_generation"] = json!("<function=add {\"x\": 17,"),
            _ => {}
        }
        json!({ "error": error })
    }
}

impl Gateway {
    /// All gateways.
    pub const ALL: &[Self] = &[Self::OpenRouter, Self::LiteLlm, Self::Databricks];

    fn wrap(self, inner: &Value, status: u16) -> Value {
        match self {
            Self::OpenRouter => json!({
                "error": {
                    "message": "Provider returned error", "code": status,
                    "metadata": {"raw": inner.to_string(), "provider_name": "Example"},
                },
                "user_id": "user_1",
            }),
            Self::LiteLlm => json!({
                "error": {
                    "message": format!("litellm.APIError: OpenAIException - {inner}"),
                    "type": null, "param": null, "code": status.to_string(),
                },
            }),
            Self::Databricks => json!({
                "error_code": match status {
                    401 => "UNAUTHENTICATED",
                    429 => "REQUEST_LIMIT_EXCEEDED",
                    503 => "TEMPORARILY_UNAVAILABLE",
                    _ => "BAD_REQUEST",
                },
                "message": json!({"external_model_provider": "openai", "external_model_error": inner}).to_string(),
            }),
        }
    }
}

pub(super) fn error_body(kind: ErrorKind, gateway: Option<Gateway>) -> Value {
    let body = kind.body();
    gateway.map_or_else(|| body.clone(), |gateway| gateway.wrap(&body, kind.status()))
}

/// Returns the error of a server that rejects a request because of `problem`.
pub(super) fn rejection(problem: &str) -> Value {
    json!({"error": {"message": problem, "type": "invalid_request_error", "param": null, "code": null}})
}
