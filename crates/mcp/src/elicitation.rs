//! Elicitation: a server requests input from the user during a call.

use std::sync::Arc;

use futures::future::BoxFuture;
use haft_core::{
    Schema,
    call::{Decision, PendingKind},
    text::{is_hidden, without_hidden_chars},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{callback::Callback, hidden_chars::remove_from_schema};

/// A request of an MCP server for input from the user, during a call (MCP 2026-07-28, client
/// features, "Elicitation").
///
/// A [handler](crate::ServerOptions::with_elicitation_handler) receives it. Without a handler, the
/// call is suspended with [`PendingKind::Input`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Elicitation {
    /// The text for the user. It comes from the server, so also display the name of the server.
    pub message: String,
    /// The expected input.
    pub kind: ElicitationKind,
}

/// The input that an [`Elicitation`] expects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ElicitationKind {
    /// An object that is valid for a JSON Schema with properties of primitive types.
    Form {
        /// The schema of the object.
        schema: Schema,
    },
    /// URL mode: a web page for input that must not pass through the client. Show the whole URL,
    /// and open it only if the user consents.
    Url {
        /// The URL, of the scheme `http` or `https`.
        url: String,
    },
}

/// The response to an [`Elicitation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitationResponse {
    /// The user has accepted.
    Accept {
        /// The object for a [form](ElicitationKind::Form). Missing properties get the default of
        /// their schema. For a [URL](ElicitationKind::Url), `false` declines, and another value
        /// means that the user has consented to open it.
        content: Value,
    },
    /// The user has refused.
    Decline,
    /// The user has made no choice, for example because the dialog was closed.
    Cancel,
}

impl ElicitationResponse {
    /// Creates a response with `content`, the object for a [form](ElicitationKind::Form).
    pub fn accept(content: impl Into<Value>) -> Self {
        Self::Accept { content: content.into() }
    }

    /// Converts a decision about a suspended call.
    pub(crate) fn from_decision(decision: &Decision) -> Self {
        match decision {
            Decision::Input { value } => Self::accept(value.clone()),
            Decision::Denied { .. } => Self::Decline,
            _ => Self::Cancel,
        }
    }
}

/// A function that responds to elicitations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElicitationHandler(Callback<Handler>);

type Handler = dyn Fn(Elicitation) -> BoxFuture<'static, ElicitationResponse> + Send + Sync;

impl ElicitationHandler {
    pub(crate) fn new<F, Response>(handler: F) -> Self
    where
        F: Fn(Elicitation) -> Response + Send + Sync + 'static,
        Response: Future<Output = ElicitationResponse> + Send + 'static,
    {
        Self(Callback::new(Arc::new(move |elicitation| Box::pin(handler(elicitation)))))
    }

    pub(crate) fn respond(&self, elicitation: Elicitation) -> BoxFuture<'static, ElicitationResponse> {
        (self.0)(elicitation)
    }
}

/// The parameters of `elicitation/create`. Before revision 2025-11-25 there is no `mode`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitationParams {
    mode: Option<String>,
    message: String,
    requested_schema: Option<Value>,
    url: Option<String>,
}

impl Elicitation {
    /// Parses `params`, the parameters of a request `elicitation/create`.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault if a parameter is missing, if the schema is invalid, or
    /// if the URL is not an HTTP URL.
    pub(crate) fn parse(params: &Value) -> Result<Self, String> {
        Self::parse_unescaped(params).map_err(|fault| without_hidden_chars(&fault).into_owned())
    }

    /// Parses `params`. The description of a fault may have hidden characters.
    fn parse_unescaped(params: &Value) -> Result<Self, String> {
        let ElicitationParams { mode, message, requested_schema, url } =
            ElicitationParams::deserialize(params).map_err(|error| error.to_string())?;
        let kind = match mode.as_deref() {
            None | Some("form") => {
                let mut schema = requested_schema.ok_or("`requestedSchema` is missing")?;
                remove_from_schema(&mut schema);
                let schema =
                    Schema::new(schema).map_err(|error| format!("`requestedSchema` is invalid: {error}"))?;
                ElicitationKind::Form { schema }
            }
            Some("url") => {
                let url = url.ok_or("`url` is missing")?;
                if !is_http_url(&url) {
                    return Err(format!("the URL {url:?} is not an HTTP URL"));
                }
                ElicitationKind::Url { url }
            }
            Some(other) => return Err(format!("the mode {other:?} is not supported")),
        };
        Ok(Self { message: without_hidden_chars(&message).into_owned(), kind })
    }

    /// Returns the kind of pending state of a call that waits for the response. `label` is the
    /// label of the source.
    pub(crate) fn pending_kind(&self, label: &str) -> PendingKind {
        let Self { message, kind } = self;
        match kind {
            ElicitationKind::Form { schema } => {
                let message = format!("{label} requests input: {message}");
                PendingKind::Input { message, schema: without_required_defaults(schema) }
            }
            ElicitationKind::Url { url } => {
                let message =
                    format!("{label} requests a visit of {url}, and then a confirmation: {message}");
                let schema = Map::from_iter([("type".to_owned(), Value::from("boolean"))]);
                PendingKind::Input { message, schema }
            }
        }
    }

    /// Completes `response` with the defaults of the schema, and encodes it as an `ElicitResult`.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault if the content is invalid for the schema.
    pub(crate) fn encode(&self, response: ElicitationResponse) -> Result<Value, String> {
        Ok(match (response, &self.kind) {
            (ElicitationResponse::Accept { mut content }, ElicitationKind::Form { schema }) => {
                add_defaults(&mut content, schema);
                schema.validate(&content).map_err(|violations| violations.to_string())?;
                json!({"action": "accept", "content": content})
            }
            (ElicitationResponse::Accept { content: Value::Bool(false) }, ElicitationKind::Url { .. }) => {
                json!({"action": "decline"})
            }
            (ElicitationResponse::Accept { .. }, ElicitationKind::Url { .. }) => json!({"action": "accept"}),
            (ElicitationResponse::Decline, _) => json!({"action": "decline"}),
            (ElicitationResponse::Cancel, _) => json!({"action": "cancel"}),
        })
    }
}

/// Returns `true` if `url` has the scheme `http` or `https`, a host of ASCII characters, and no
/// user name, which could look like a host.
fn is_http_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let is_plain_host = !host.is_empty() && host.is_ascii() && !host.contains('@');
    is_http && is_plain_host && !url.chars().any(|letter| letter.is_whitespace() || is_hidden(letter))
}

/// Returns `schema` without the requirement of properties that have a default.
fn without_required_defaults(schema: &Schema) -> Map<String, Value> {
    let mut object = schema.as_value().as_object().cloned().unwrap_or_default();
    if let Some(Value::Array(required)) = object.get_mut("required") {
        let has_default = |name: &Value| {
            let mut properties = schema.properties().filter(|property| *name == property.name);
            properties.any(|property| property.schema.get("default").is_some())
        };
        required.retain(|name| !has_default(name));
    }
    object
}

/// Adds the missing properties of `content` that have a default in `schema`.
fn add_defaults(content: &mut Value, schema: &Schema) {
    if content.is_null() {
        *content = json!({});
    }
    let Value::Object(content) = content else { return };
    for property in schema.properties() {
        if let Some(default) = property.schema.get("default")
            && !content.contains_key(property.name)
        {
            content.insert(property.name.to_owned(), default.clone());
        }
    }
}

#[cfg(test)]
mod tests;
