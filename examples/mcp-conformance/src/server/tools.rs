//! The tools that run through the pipeline of haft.

use std::time::Duration;

use haft_core::{
    Schema, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput, Toolset,
    call::{Decision, Pending, PendingKind, ToolResponse},
    content::{BinaryData, Content, ResourceBody},
    tool,
    tool::{DynamicTool, Progress},
};
use rmcp::{Peer, RoleServer, model::ServerNotification};
use serde_json::{Value, json};
use tokio::time::sleep;

/// A PNG image of one pixel.
pub(crate) const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A WAV file without samples.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
/// The pause between two messages of a tool.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the tools.
pub(crate) fn toolset() -> Result<Toolset, Box<dyn std::error::Error>> {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
            "street": {"type": "string"}, "city": {"type": "string"},
        }}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    let mirrored = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "query": {"type": "string"},
    }});
    Ok(Toolset::new()
        .with_tools((TestSimpleText, TestImageContent, TestAudioContent, TestEmbeddedResource))
        .with_tools((TestMultipleContentTypes, TestErrorHandling, TestToolWithProgress, TestToolWithLogging))
        .with_tools((TestElicitation, TestElicitationSep1034Defaults, TestElicitationSep1330Enums))
        .with_tool(TestStreamingElicitation)
        .with_tool(echo("json_schema_2020_12_tool", "Has a schema of JSON Schema 2020-12.", schema)?)
        .with_tool(echo("test_headers_tool", "Has parameters that are sent as headers.", mirrored)?))
}

/// Creates a tool that returns its arguments.
fn echo(name: &str, description: &str, schema: Value) -> Result<DynamicTool, Box<dyn std::error::Error>> {
    let definition = ToolDefinition::new(ToolName::new(name)?, Schema::for_arguments(schema)?);
    let definition = definition.with_description(description);
    Ok(DynamicTool::new(definition, |arguments: Value, _cx| async move { arguments.to_string() }))
}

/// Returns a text.
#[tool]
fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

fn image() -> Result<Content, ToolError> {
    let data = BinaryData::from_base64(IMAGE).map_err(ToolError::failed)?;
    Ok(Content::Image { data, media_type: "image/png".to_owned() })
}

fn resource(uri: &str, media_type: &str, text: &str) -> Content {
    let (media_type, body) = (Some(media_type.to_owned()), ResourceBody::Text(text.to_owned()));
    Content::Resource { uri: uri.to_owned(), media_type, body }
}

fn output(content: Vec<Content>) -> ToolOutput {
    ToolOutput { content, ..ToolOutput::default() }
}

/// Returns an image.
#[tool]
fn test_image_content() -> Result<ToolOutput, ToolError> {
    Ok(output(vec![image()?]))
}

/// Returns audio data.
#[tool]
fn test_audio_content() -> Result<ToolOutput, ToolError> {
    let data = BinaryData::from_base64(AUDIO).map_err(ToolError::failed)?;
    Ok(output(vec![Content::Audio { data, media_type: "audio/wav".to_owned() }]))
}

/// Returns an embedded resource.
#[tool]
fn test_embedded_resource() -> ToolOutput {
    let text = "This is an embedded resource content.";
    output(vec![resource("test://embedded-resource", "text/plain", text)])
}

/// Returns a text, an image and a resource.
#[tool]
fn test_multiple_content_types() -> Result<ToolOutput, ToolError> {
    let text = Content::Text { text: "Multiple content types test:".to_owned() };
    let data = r#"{"test":"data","value":123}"#;
    let resource = resource("test://mixed-content-resource", "application/json", data);
    Ok(output(vec![text, image()?, resource]))
}

/// Fails.
#[tool]
fn test_error_handling() -> Result<String, ToolError> {
    Err(ToolError::failed("This tool intentionally returns an error for testing"))
}

/// Reports its progress.
#[tool]
async fn test_tool_with_progress(#[tool(context)] cx: &ToolContext) -> &'static str {
    for progress in [0.0, 50.0, 100.0] {
        cx.report_progress(Progress { progress, total: Some(100.0), message: None });
        sleep(PAUSE).await;
    }
    "done"
}

/// Sends log messages.
#[tool]
async fn test_tool_with_logging(#[tool(context)] cx: &ToolContext) -> Result<&'static str, ToolError> {
    let peer = cx.state::<Peer<RoleServer>>()?;
    for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        let message = json!({"method": "notifications/message", "params": {"level": "info", "data": text}});
        let message: ServerNotification = serde_json::from_value(message).map_err(ToolError::failed)?;
        peer.send_notification(message).await.map_err(ToolError::failed)?;
        sleep(PAUSE).await;
    }
    Ok("done")
}

/// Returns the answer to a question with the schema `schema`.
fn ask(cx: &ToolContext, message: &str, schema: Value) -> ToolResponse {
    match cx.decision() {
        Some(Decision::Input { value }) => {
            format!("Elicitation completed: action=accept, content={value}").into()
        }
        Some(Decision::Denied { .. }) => "Elicitation completed: action=decline".into(),
        _ => {
            let schema = schema.as_object().cloned().unwrap_or_default();
            let kind = PendingKind::Input { message: message.to_owned(), schema };
            ToolResponse::Pending(Pending::new(kind).with_denial_handling())
        }
    }
}

/// Asks the user.
#[tool]
fn test_elicitation(message: String, #[tool(context)] cx: &ToolContext) -> ToolResponse {
    let schema = json!({"type": "object", "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }, "required": ["username", "email"]});
    ask(cx, &message, schema)
}

/// Asks the user for a confirmation.
#[tool]
fn test_streaming_elicitation(#[tool(context)] cx: &ToolContext) -> ToolResponse {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    ask(cx, "Continue?", schema)
}

/// Asks the user, with defaults.
#[tool]
fn test_elicitation_sep1034_defaults(#[tool(context)] cx: &ToolContext) -> ToolResponse {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }});
    ask(cx, "Confirm the values.", schema)
}

/// Asks the user to choose.
#[tool]
fn test_elicitation_sep1330_enums(#[tool(context)] cx: &ToolContext) -> ToolResponse {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |first: &str| {
        json!([
            {"const": "value1", "title": format!("First {first}")},
            {"const": "value2", "title": format!("Second {first}")},
            {"const": "value3", "title": format!("Third {first}")},
        ])
    };
    let schema = json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }});
    ask(cx, "Choose.", schema)
}
