//! Data that the program adds to the requests of a call: metadata, for example the trace context,
//! and HTTP headers, for example the token of the user.

use std::collections::BTreeMap;
#[cfg(feature = "http")]
use std::collections::HashMap;

#[cfg(feature = "http")]
use ::http::{HeaderName, HeaderValue, header::AUTHORIZATION};
use futures::future::BoxFuture;
use haft_core::{ToolContext, ToolError};
#[cfg(feature = "http")]
use rmcp::model::GetExtensions as _;
use rmcp::model::{ClientRequest, GetMeta as _};
use serde_json::{Map, Value};

use crate::callback::Callback;

/// A function that returns the metadata for the requests of a call. Its arguments are the name that
/// the server uses for the tool, and the context of the call.
pub(crate) type RequestMetadata = Callback<dyn Fn(&str, &ToolContext) -> Map<String, Value> + Send + Sync>;

/// A function that returns the HTTP headers for the requests of a call. It has the arguments of
/// [`RequestMetadata`].
pub(crate) type CallHeaders = Callback<dyn Fn(&str, &ToolContext) -> HeadersFuture + Send + Sync>;

type HeadersFuture = BoxFuture<'static, Result<BTreeMap<String, String>, ToolError>>;

/// The prefix of the metadata keys that the protocol defines.
const RESERVED_PREFIX: &str = "io.modelcontextprotocol/";
/// The metadata key of the progress token, which the client sets.
const PROGRESS_TOKEN: &str = "progressToken";

/// The data for the requests of a call.
#[derive(Clone, Default)]
pub(crate) struct CallData {
    pub(crate) metadata: Map<String, Value>,
    #[cfg(feature = "http")]
    pub(crate) headers: RequestHeaders,
}

/// The HTTP headers of a request. They are an extension of the request, so they are not serialized.
/// The HTTP transport reads the extension when it sends the request.
#[cfg(feature = "http")]
#[derive(Clone, Default)]
pub(crate) struct RequestHeaders(pub(crate) HashMap<HeaderName, HeaderValue>);

impl CallData {
    /// Adds the data to `request`. Metadata keys of the protocol are ignored.
    pub(crate) fn add_to(&self, request: &mut ClientRequest) {
        let is_own = |key: &str| !key.starts_with(RESERVED_PREFIX) && key != PROGRESS_TOKEN;
        for (key, value) in self.metadata.iter().filter(|(key, _)| is_own(key)) {
            request.get_meta_mut().insert(key.clone(), value.clone());
        }
        #[cfg(feature = "http")]
        if !self.headers.0.is_empty() {
            request.extensions_mut().insert(self.headers.clone());
        }
    }
}

#[cfg(feature = "http")]
impl RequestHeaders {
    /// Returns `true` if the request has its own authorization.
    pub(crate) fn has_authorization(&self) -> bool {
        self.0.contains_key(&AUTHORIZATION)
    }

    /// Adds the headers to `headers`, the headers of the server. A header of the same name is
    /// replaced. Removes the OAuth token in `token` if the request has its own authorization.
    pub(crate) fn add_to(&self, headers: &mut HashMap<HeaderName, HeaderValue>, token: &mut Option<String>) {
        if self.has_authorization() {
            *token = None;
        }
        headers.extend(self.0.clone());
    }
}
