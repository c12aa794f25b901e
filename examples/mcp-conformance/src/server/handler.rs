//! The handler of prompts, resources and completions, and of the tools that are about the protocol.

use rmcp::{
    RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientResult,
        CompleteRequestParams, CompleteResult, ContentBlock, ErrorData, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, ServerRequest,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde_json::{Value, json};

use super::{
    input::{self, question, required_result},
    tools::IMAGE,
};

#[derive(Default)]
pub(crate) struct Handler;

/// Converts `value` to a result of the protocol. `rmcp` removes `resultType` for clients of earlier
/// revisions.
fn result<T: serde::de::DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    from_json(value)
}

/// Converts `value` to a type of the protocol.
fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// Requests a reply of the client's model to `prompt`.
async fn sample(prompt: &str, cx: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    let params = json!({"messages": [message], "maxTokens": 100});
    let request: ServerRequest = from_json(json!({"method": "sampling/createMessage", "params": params}))?;
    let failed = |error: rmcp::ServiceError| ErrorData::internal_error(error.to_string(), None);
    let sent = cx.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    match sent.map_err(failed)?.await_response().await.map_err(failed)? {
        ClientResult::CreateMessageResult(result) => {
            let result = serde_json::to_value(result).unwrap_or_default();
            Ok(text(&format!("LLM response: {}", result["content"]["text"].as_str().unwrap_or_default())))
        }
        _ => Err(ErrorData::internal_error("invalid response", None)),
    }
}

#[expect(
    deprecated,
    reason = "clients of revisions up to 2025-11-25 use `logging/setLevel` and subscriptions"
)]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        let implementation = Implementation::new("mcp-conformance-server", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(implementation)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let others = ["test_sampling", "test_missing_capability", "test_logging_tool"];
        let tools = input::TOOLS.into_iter().chain(others).map(|name| {
            let mut schema = json!({"type": "object"});
            if name == "test_sampling" {
                schema = json!({"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]});
            }
            json!({"name": name, "description": "A tool of the rmcp handler.", "inputSchema": schema})
        });
        result(json!({"tools": tools.collect::<Vec<_>>()}))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "test_sampling" => {
                let prompt = request.arguments.as_ref().and_then(|it| it.get("prompt")?.as_str());
                sample(prompt.unwrap_or_default(), &cx).await
            }
            "test_logging_tool" => {
                // Revision 2026-07-28 permits log messages only if the request has a level.
                if cx.meta.log_level().is_some() {
                    let params = json!({"level": "info", "data": "Tool execution started"});
                    let message = json!({"method": "notifications/message", "params": params});
                    let sent = cx.peer.send_notification(from_json(message)?).await;
                    sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                }
                Ok(text("done"))
            }
            "test_missing_capability" => {
                let sampling = ClientCapabilities::builder().enable_sampling().build();
                let has_it = cx.client_capabilities().is_some_and(|it| it.sampling.is_some());
                let missing = || ErrorData::missing_required_client_capability(sampling);
                if has_it { Ok(text("the client supports sampling")) } else { Err(missing()) }
            }
            name if input::TOOLS.contains(&name) => input::call(request, &cx),
            name => Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None)),
        }
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let argument = |name: &str| json!({"name": name, "description": "An argument.", "required": true});
        let prompt = |name: &str, arguments: Value| json!({"name": name, "description": "A prompt.", "arguments": arguments});
        result(json!({"prompts": [
            prompt("test_simple_prompt", json!([])),
            prompt("test_prompt_with_arguments", json!([argument("arg1"), argument("arg2")])),
            prompt("test_prompt_with_embedded_resource", json!([argument("resourceUri")])),
            prompt("test_prompt_with_image", json!([])),
            prompt("test_input_required_result_prompt", json!([])),
        ]}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| {
            let arguments = serde_json::to_value(&request.arguments).unwrap_or_default();
            arguments[name].as_str().unwrap_or_default().to_owned()
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        let contents = match &*request.name {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => vec![text(&format!(
                "Prompt with arguments: arg1='{}', arg2='{}'",
                argument("arg1"),
                argument("arg2")
            ))],
            "test_prompt_with_embedded_resource" => vec![
                json!({"type": "resource", "resource": {
                    "uri": argument("resourceUri"), "mimeType": "text/plain",
                    "text": "Embedded resource content for testing.",
                }}),
                text("Please process the embedded resource above."),
            ],
            "test_prompt_with_image" => vec![
                json!({"type": "image", "data": IMAGE, "mimeType": "image/png"}),
                text("Please analyze the image above."),
            ],
            "test_input_required_result_prompt" => {
                let responses = request.input_responses.unwrap_or_default();
                let Some(answer) = responses.get("user_context") else {
                    let question = question("What context should the prompt use?", "context", "string");
                    return required_result(json!({"user_context": question}), None).map(Into::into);
                };
                vec![text(&format!("Context: {}", answer["content"]["context"]))]
            }
            name => return Err(ErrorData::invalid_params(format!("unknown prompt: {name}"), None)),
        };
        let messages = contents.into_iter().map(|content| json!({"role": "user", "content": content}));
        result::<GetPromptResult>(json!({"messages": messages.collect::<Vec<_>>()})).map(Into::into)
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = |name: &str, media_type: &str| json!({"uri": format!("test://{name}"), "name": name, "description": "A resource.", "mimeType": media_type});
        result(json!({"resources": [
            resource("static-text", "text/plain"),
            resource("static-binary", "image/png"),
            resource("watched-resource", "text/plain"),
        ]}))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        result(json!({"resourceTemplates": [{
            "uriTemplate": "test://template/{id}/data", "name": "template", "description": "A template.",
            "mimeType": "application/json",
        }]}))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &*request.uri;
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let content = match (uri, id) {
            ("test://static-text", _) => json!({
                "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource.",
            }),
            ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": IMAGE}),
            ("test://watched-resource", _) => {
                json!({"uri": uri, "mimeType": "text/plain", "text": "watched"})
            }
            (_, Some(id)) => {
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
            }
            _ => return Err(ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))),
        };
        result::<ReadResourceResult>(json!({"contents": [content]})).map(Into::into)
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        result(json!({"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false}}))
    }

    async fn set_level(
        &self,
        _request: rmcp::model::SetLevelRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}
