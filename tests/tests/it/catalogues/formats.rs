//! Checks that tool definitions and calls are in the format of each provider.

use haft_core::{
    Schema, ToolCall, ToolDefinition,
    schema::{ProviderSchema, SchemaTarget},
};
use haft_openai::{encode_strict_tool, encode_tool, encode_tool_for_target, responses};
use serde_json::{Value, json};

/// Encodes `definition` for each API that uses the schema target `target`, and returns a
/// description of each mistake in the encoded JSON.
pub(super) fn find_mistakes(
    definition: &ToolDefinition,
    target: SchemaTarget,
    converted: &ProviderSchema,
    sent: &Schema,
) -> Vec<String> {
    let function = described(definition, json!({"parameters": converted.value}));
    let mut chat = json!({"type": "function", "function": function});
    if converted.is_strict {
        chat["function"]["strict"] = json!(true);
    }
    let response = json!({"type": "function", "parameters": converted.value, "strict": converted.is_strict});
    let response = described(definition, response);
    // A definition that is created from the converted schema must have the same format.
    let back = ToolDefinition::new(definition.name().clone(), sent.clone());
    let back = back.with_description(definition.description());
    let checks = match target {
        SchemaTarget::OpenAi => vec![
            ("chat", encode_tool(definition) == chat && encode_tool(&back) == chat),
            (
                "responses",
                responses::encode_tool(definition) == response && responses::encode_tool(&back) == response,
            ),
            (
                "anthropic",
                haft_anthropic::encode_tool(definition)
                    == described(definition, json!({"input_schema": converted.value})),
            ),
            (
                "gemini",
                haft_gemini::encode_tool(definition)
                    == with_schema(
                        definition,
                        "parametersJsonSchema",
                        &definition.input_schema().for_provider(SchemaTarget::GeminiJsonSchema).value,
                    ),
            ),
        ],
        SchemaTarget::OpenAiStrict => vec![
            ("chat", encode_strict_tool(definition) == chat && encode_strict_tool(&back) == chat),
            (
                "responses",
                responses::encode_strict_tool(definition) == response
                    && responses::encode_strict_tool(&back) == response,
            ),
        ],
        SchemaTarget::Gemini => {
            let subset = with_schema(definition, "parameters", &converted.value);
            vec![
                ("chat", encode_tool_for_target(definition, target) == chat),
                ("gemini", haft_gemini::encode_openapi_tool(definition) == subset),
            ]
        }
        _ => vec![(
            "chat",
            encode_tool_for_target(definition, target) == chat
                && encode_tool_for_target(&back, target) == chat,
        )],
    };
    let wrong = checks.into_iter().filter(|(_, holds)| !holds);
    wrong.map(|(name, _)| format!("the format of {name} differs")).collect()
}

/// Returns the expected function declaration for Gemini. It contains `schema` under `key`, unless
/// the tool has no parameters.
fn with_schema(definition: &ToolDefinition, key: &str, schema: &Value) -> Value {
    let is_empty_object = ["properties", "required"]
        .iter()
        .all(|it| definition.input_schema().as_value().get(it).is_none_or(is_empty));
    let is_open = ["additionalProperties", "anyOf", "oneOf", "allOf", "$ref", "patternProperties"];
    let is_open = is_open
        .iter()
        .any(|it| definition.input_schema().as_value().get(it).is_some_and(|it| it != &json!(false)));
    described(definition, if is_empty_object && !is_open { json!({}) } else { json!({key: schema}) })
}

fn is_empty(value: &Value) -> bool {
    value == &json!({}) || value == &json!([])
}

fn described(definition: &ToolDefinition, mut rest: Value) -> Value {
    rest["name"] = json!(definition.name());
    if !definition.description().is_empty() {
        rest["description"] = json!(definition.description());
    }
    rest
}

/// Writes a call with `arguments` in the reply format of each provider. Returns `true` if all of
/// these calls are parsed without changes.
pub(super) fn calls_round_trip(definition: &ToolDefinition, arguments: &Value) -> bool {
    let (name, text) = (definition.name(), arguments.to_string());
    let call = ToolCall::new("call_1", name.as_str(), text.clone());
    let function = json!({"name": name, "arguments": text});
    let chat = json!({"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]});
    let item = json!({"type": "function_call", "call_id": "call_1", "name": name, "arguments": text});
    let block = json!({"type": "tool_use", "id": "call_1", "name": name, "input": arguments});
    let part = json!({"functionCall": {"id": "call_1", "name": name, "args": arguments}});
    [
        haft_openai::decode_tool_calls(&chat),
        responses::decode_tool_calls(&json!({"output": [item]})),
        haft_anthropic::decode_tool_calls(&json!({"role": "assistant", "content": [block]})),
        haft_gemini::decode_tool_calls(&json!({"role": "model", "parts": [part]})),
    ]
    .iter()
    .all(|calls| calls.as_deref().is_ok_and(|calls| calls == [call.clone()]))
}
