//! [`OpenApiTool`]: an operation as a tool.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use haft_core::{Tool, ToolContext, ToolDefinition, ToolError, call::ToolResponse};
use reqwest::{
    Client, Method, StatusCode,
    header::{HeaderName, HeaderValue},
};
use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use crate::{
    Credentials,
    credentials::CredentialProvider,
    http::{self, HttpResponse},
    operation::Operation,
    request::{self, PreparedRequest},
    result,
};

/// The maximum number of times that a request is repeated because of `Retry-After`.
const MAX_REPEATS: usize = 2;

/// An operation of a document as a tool.
pub(crate) struct OpenApiTool {
    definition: ToolDefinition,
    operation: Operation,
    shared: Arc<SharedSettings>,
}

/// The settings that the tools of a source share.
pub(crate) struct SharedSettings {
    pub(crate) client: Client,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The values of `headers`, which a server may repeat in an error message.
    pub(crate) header_secrets: Vec<SecretString>,
    pub(crate) credentials: Credentials,
    pub(crate) principal_credentials: BTreeMap<String, Credentials>,
    pub(crate) provider: Option<CredentialProvider>,
    pub(crate) timeout: Duration,
    pub(crate) max_retry_wait: Duration,
    pub(crate) max_response_bytes: usize,
}

impl OpenApiTool {
    pub(crate) fn new(definition: ToolDefinition, operation: Operation, shared: Arc<SharedSettings>) -> Self {
        Self { definition, operation, shared }
    }

    async fn exchange(
        &self,
        arguments: &Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<ToolResponse, ToolError> {
        let credentials = self.credentials(cx).await?;
        let prepared =
            request::prepare(&self.operation, arguments, &credentials, &self.shared.headers).await?;
        let response = self.send(&prepared).await?;
        if result::is_success(&self.operation.method, response.status) {
            return Ok(ToolResponse::Done(result::output(response, &self.operation.responses)?));
        }
        let PreparedRequest { mut secrets, missing_schemes, .. } = prepared;
        secrets.extend(self.shared.header_secrets.iter().cloned());
        Err(result::status_error(&self.operation.method, &response, &secrets, &missing_schemes))
    }

    /// Sends the request. Repeats it after the wait that the server requests.
    async fn send(&self, prepared: &PreparedRequest) -> Result<HttpResponse, ToolError> {
        let SharedSettings { client, max_response_bytes, max_retry_wait, .. } = &*self.shared;
        let method = &self.operation.method;
        let mut repeats = 0;
        loop {
            let Some(request) = prepared.request.try_clone() else {
                return Err(ToolError::Fatal("the body of the request cannot be sent".to_owned()));
            };
            let response = http::send(client, request, *max_response_bytes).await;
            let response = response.map_err(|error| result::request_error(method, error))?;
            let wait = retry_wait(method, &response).filter(|wait| wait <= max_retry_wait);
            match wait.filter(|_| repeats < MAX_REPEATS && !max_retry_wait.is_zero()) {
                Some(wait) => sleep(wait).await,
                None => return Ok(response),
            }
            repeats += 1;
        }
    }

    async fn credentials(&self, cx: &ToolContext) -> Result<Credentials, ToolError> {
        let shared = &*self.shared;
        let mut fixed = shared.credentials.clone();
        if let Some(own) = cx.principal().and_then(|it| shared.principal_credentials.get(&it.id)) {
            fixed = fixed.merge(own.clone());
        }
        let Some(provider) = &shared.provider else { return Ok(fixed) };
        match provider.provide(cx.principal()).await {
            Ok(credentials) => Ok(fixed.merge(credentials)),
            Err(source) => {
                let message = "there are no credentials for this call".to_owned();
                Err(ToolError::Failed { message, source: Some(source) })
            }
        }
    }
}

/// Returns the wait before the request is repeated. `None` if it is not repeated.
///
/// A server has not executed a request with status 429 (RFC 6585, section 4). With status 503, only
/// a safe request is repeated.
fn retry_wait(method: &Method, response: &HttpResponse) -> Option<Duration> {
    let is_repeatable = match response.status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE => method.is_safe(),
        _ => false,
    };
    response.retry_after().filter(|_| is_repeatable)
}

#[async_trait]
impl Tool for OpenApiTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let after = self.shared.timeout;
        let result = timeout(after, self.exchange(&arguments, cx)).await;
        result.unwrap_or(Err(ToolError::TimedOut { after }))
    }
}

impl fmt::Debug for OpenApiTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiTool").field("name", self.definition.name()).finish_non_exhaustive()
    }
}
