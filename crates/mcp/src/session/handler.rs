use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult, ErrorCode, ErrorData,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::transport::ServerEvents;

/// The handler of the requests of a server.
pub(crate) struct RequestHandler {
    config: ClientConfig,
    events: Arc<ServerEvents>,
}

impl RequestHandler {
    pub(super) fn new(config: ClientConfig, events: Arc<ServerEvents>) -> Self {
        Self { config, events }
    }

    /// Passes an elicitation to the call that it belongs to. Returns the action `cancel` if there
    /// is no such call, or if the server cancels the elicitation.
    async fn elicit(&self, cx: &RequestContext<RoleClient>) -> Result<Value, ErrorData> {
        let Some(received) = self.events.elicitations.remove(&cx.id) else {
            tracing::warn!(id = %cx.id, "cancelled an elicitation that the transport did not read");
            return Ok(cancel());
        };
        let (elicitation, Some(call)) = received.assign().await else {
            tracing::debug!("cancelled an elicitation, because no call is open");
            return Ok(cancel());
        };
        let elicitation = elicitation.map_err(|reason| ErrorData::invalid_params(reason, None))?;
        let response = cx.ct.run_until_cancelled(call.elicit(elicitation)).await.flatten();
        Ok(response.unwrap_or_else(cancel))
    }
}

fn cancel() -> Value {
    json!({"action": "cancel"})
}

impl ClientHandler for RequestHandler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        cx: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let result = self.elicit(&cx).await?;
        serde_json::from_value(result).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    /// Handles an elicitation that rmcp cannot parse, for example because of an unknown keyword in
    /// its schema.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        cx: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "elicitation/create" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        self.elicit(&cx).await.map(CustomResult::new)
    }
}
