use std::{fmt, sync::Arc};

use async_trait::async_trait;
use langchain_rust::tools::Tool as ForeignTool;
use serde_json::{Value, json};

use haft_core::{Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, call::ToolResponse};

/// The argument of a tool with plain text, as in LangChain's default schema.
const TEXT_ARGUMENT: &str = "input";

/// A LangChain tool as a haft tool.
///
/// The definition is read once, when the value is created. Its name is the name that LangChain's
/// agents use: spaces are replaced with `_`. A name that is still invalid is
/// [sanitized](ToolName::sanitize). Parameters that are not a valid object schema are a
/// [defect](ToolDefinition::defect) of this tool only.
///
/// An error of the tool fails its call with [`ToolError::Failed`]. The model reads the error text.
/// The error value itself is dropped, because `Box<dyn Error>` cannot be sent to another thread.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use haft_core::Toolset;
/// use haft_langchain::{LangChainTool, langchain_rust::tools::Calculator};
/// use serde_json::json;
///
/// # futures::executor::block_on(async {
/// let calculator = LangChainTool::new(Arc::new(Calculator::new()));
/// let tools = Toolset::new().with_tool(calculator);
/// let result = tools.call("calculator", json!({"input": "6 * 7"})).await;
/// assert_eq!(result.model_text(), "42");
/// # });
/// ```
#[derive(Clone)]
pub struct LangChainTool {
    tool: Arc<dyn ForeignTool>,
    definition: ToolDefinition,
    input: InputForm,
}

/// The form of the input text of a LangChain tool.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InputForm {
    /// The arguments as a JSON object.
    Json,
    /// The value of [`TEXT_ARGUMENT`].
    Text,
}

impl LangChainTool {
    /// Wraps `tool`. Each call passes the arguments as the text of a JSON object, as LangChain's
    /// `OpenAiToolAgent` does. The input schema is [`parameters`](ForeignTool::parameters).
    pub fn new(tool: Arc<dyn ForeignTool>) -> Self {
        let definition = ToolDefinition::new(tool_name(&*tool), Schema::object())
            .with_description(tool.description())
            .with_input_schema(tool.parameters());
        Self { tool, definition, input: InputForm::Json }
    }

    /// Passes plain text instead of a JSON object, as LangChain's `ConversationalAgent` does. The
    /// input schema becomes one string argument, `input`.
    ///
    /// Use it for a tool that overrides `parse_input` and reads its input as text. The default
    /// `parse_input` extracts the text from a JSON object with the key `input`.
    #[must_use]
    pub fn with_text_input(mut self) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {TEXT_ARGUMENT: {"type": "string", "description": self.definition.description()}},
            "required": [TEXT_ARGUMENT],
            "additionalProperties": false,
        });
        self.definition = self.definition.with_input_schema(schema);
        self.input = InputForm::Text;
        self
    }
}

/// Returns the name of `tool` in haft.
pub(crate) fn tool_name(tool: &dyn ForeignTool) -> ToolName {
    // `AgentExecutor` finds a tool by this name.
    ToolName::sanitize(&tool.name().trim().replace(' ', "_"))
}

#[async_trait]
impl Tool for LangChainTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, _cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        let input = match (self.input, arguments.get(TEXT_ARGUMENT).and_then(Value::as_str)) {
            (InputForm::Text, Some(text)) => text.to_owned(),
            _ => arguments.to_string(),
        };
        // The error is not `Send`, so it must not be alive at a later `await`.
        let output = self.tool.call(&input).await.map_err(|error| failed(error.to_string()));
        output.map(ToolResponse::from)
    }
}

/// Creates the definition of a tool for a LangChain component.
pub(crate) fn definition(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::sanitize(name), Schema::object())
        .with_name(name)
        .with_description(description)
}

/// Creates the error of a LangChain component from its error text.
pub(crate) fn failed(text: String) -> ToolError {
    let message = if text.trim().is_empty() { "failed without an error message".to_owned() } else { text };
    ToolError::Failed { message, source: None }
}

impl From<Arc<dyn ForeignTool>> for LangChainTool {
    fn from(tool: Arc<dyn ForeignTool>) -> Self {
        Self::new(tool)
    }
}

impl fmt::Debug for LangChainTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LangChainTool")
            .field("definition", &self.definition)
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}
