use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use langchain_rust::tools::Tool as ForeignTool;
use serde_json::{Map, Value};

use haft_core::{
    Schema, ToolCall, ToolContext, ToolDefinition, ToolName, Toolset,
    pipeline::unknown_tool_message,
    schema::{Property, parse_json, parse_json_object},
    tool::RunContext,
    toolset::{Diagnostic, ListContext, ToolList, ToolsetError},
};

/// An extension trait for the export of tools from a [`Toolset`] to LangChain.
///
/// # Calls
///
/// A call runs the tool that has the exported name at that time, through the
/// [pipeline](Toolset::pipeline) of the toolset: arguments are repaired and validated, and the
/// timeout, the gate, the recorder and the size limits apply. The text of the result is the output
/// for LangChain. A failed call is an error. Its text is the message for the model, and
/// `AgentExecutor` passes it on to the model.
///
/// LangChain has no approvals: a call fails instead of being suspended.
///
/// # Arguments
///
/// A JSON object is passed on unchanged. Other text, as `ConversationalAgent` writes it, becomes
/// the only argument of the tool: the only property of its input schema, or else the only required
/// property. If the schema of the argument is a string, other JSON, such as `2024`, stays text.
/// Blank text is an empty object.
#[async_trait]
pub trait ToolsetExt {
    /// Returns the tools named in `names` as LangChain tools, in this order. The definition of an
    /// exported tool is the definition at the time of the export.
    ///
    /// # Errors
    ///
    /// Fails with [`ToolsetError::UnknownTool`] if there is no tool with one of the `names`. The
    /// error contains the missing name and up to 30 existing names. Fails with
    /// [`ToolsetError::Defect`] if the tool has a defect, or if its host state is missing from the
    /// context.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Toolset, tool};
    /// use haft_langchain::{ToolsetExt, langchain_rust::tools::Tool};
    ///
    /// #[tool]
    /// fn double(n: i64) -> i64 {
    ///     2 * n
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let tools = Toolset::new().with_tool(Double).langchain_tools(["double"]).await?;
    /// assert_eq!(tools[0].call(r#"{"n": 21}"#).await.unwrap(), "42");
    /// # Ok::<(), haft_core::toolset::ToolsetError>(())
    /// # })?;
    /// # Ok::<(), haft_core::toolset::ToolsetError>(())
    /// ```
    async fn langchain_tools<N: AsRef<str> + Send>(
        &self,
        names: impl IntoIterator<Item = N, IntoIter: Send> + Send,
    ) -> Result<Vec<Arc<dyn ForeignTool>>, ToolsetError> {
        self.langchain_tools_with(names, RunContext::default()).await
    }

    /// Returns tools like [`langchain_tools`](Self::langchain_tools). Their calls run with
    /// `context`, for example with a principal, host state and a cancellation token.
    ///
    /// # Errors
    ///
    /// Fails like [`langchain_tools`](Self::langchain_tools).
    async fn langchain_tools_with<N: AsRef<str> + Send>(
        &self,
        names: impl IntoIterator<Item = N, IntoIter: Send> + Send,
        context: RunContext,
    ) -> Result<Vec<Arc<dyn ForeignTool>>, ToolsetError>;
}

#[async_trait]
impl ToolsetExt for Toolset {
    async fn langchain_tools_with<N: AsRef<str> + Send>(
        &self,
        names: impl IntoIterator<Item = N, IntoIter: Send> + Send,
        context: RunContext,
    ) -> Result<Vec<Arc<dyn ForeignTool>>, ToolsetError> {
        let names = names.into_iter();
        let list = self.list(&ListContext { state: context.state.clone(), ..ListContext::default() }).await;
        let context = Arc::new(context);
        let export = |name: N| match list.get(name.as_ref()) {
            Some(tool) => Ok(Arc::new(ExportedTool {
                toolset: self.clone(),
                context: Arc::clone(&context),
                definition: tool.definition().clone(),
            }) as Arc<dyn ForeignTool>),
            None => Err(missing_tool(name.as_ref(), &list)),
        };
        names.map(export).collect()
    }
}

/// Returns the error for the name `name` without a tool in `list`.
fn missing_tool(name: &str, list: &ToolList) -> ToolsetError {
    let quarantine = list.diagnostics().iter().find_map(|diagnostic| match diagnostic {
        Diagnostic::Quarantined { tool, reason, .. } if tool == name => Some(reason),
        _ => None,
    });
    match (ToolName::new(name), quarantine) {
        (Ok(name), Some(reason)) => ToolsetError::Defect { name, reason: reason.clone() },
        _ => ToolsetError::UnknownTool(unknown_tool_message(name, list)),
    }
}

/// A tool of a toolset as a LangChain tool.
struct ExportedTool {
    toolset: Toolset,
    context: Arc<RunContext>,
    definition: ToolDefinition,
}

#[async_trait]
impl ForeignTool for ExportedTool {
    fn name(&self) -> String {
        self.definition.name().to_string()
    }

    fn description(&self) -> String {
        self.definition.description().to_owned()
    }

    fn parameters(&self) -> Value {
        self.definition.input_schema().as_value().clone()
    }

    async fn run(&self, input: Value) -> Result<String, Box<dyn Error>> {
        let call = ToolCall::new(next_call_id(), self.definition.name().as_str(), input);
        let cx = ToolContext::new(Arc::clone(&self.context), call.id.as_str());
        let result = self.toolset.run_with(&call, &cx).await.into_result();
        match result.failure() {
            None => Ok(result.model_text().into_owned()),
            Some(failure) => Err(Box::new(failure.clone())),
        }
    }

    async fn parse_input(&self, input: &str) -> Value {
        object_arguments(self.definition.input_schema(), input)
    }
}

/// Returns a new id for a call. LangChain does not pass the id of the model to a tool.
fn next_call_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("langchain_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Converts `input`, the text that an agent of LangChain passes to a tool, to arguments for
/// `schema`. If no single argument can hold the text, returns the text, which the pipeline rejects
/// with an explanation.
fn object_arguments(schema: &Schema, input: &str) -> Value {
    if input.trim().is_empty() {
        return Value::Object(Map::new());
    }
    if let Some(object) = parse_json_object(input) {
        return Value::Object(object);
    }
    let parsed = parse_json(input).ok();
    let argument = only_argument(schema);
    // `2024` is the text of a search, not a number.
    let value = match (&argument, parsed) {
        (Some(argument), parsed) if is_text(argument.schema) => {
            parsed.filter(Value::is_string).unwrap_or_else(|| input.into())
        }
        (_, parsed) => parsed.unwrap_or_else(|| input.into()),
    };
    match argument {
        Some(argument) => Value::Object(Map::from_iter([(argument.name.to_owned(), value)])),
        None => value,
    }
}

/// Returns the only property of `schema`, or else its only required property.
fn only_argument(schema: &Schema) -> Option<Property<'_>> {
    let only = |required: bool| {
        let mut properties = schema.properties().filter(|it| it.is_required || !required);
        properties.next().filter(|_| properties.next().is_none())
    };
    only(false).or_else(|| only(true))
}

/// Returns `true` if `schema` has the type `string`, optionally with `null`.
fn is_text(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::Array(types)) => {
            types.iter().any(|it| it == "string") && types.iter().all(|it| it == "string" || it == "null")
        }
        Some(name) => name == "string",
        None => false,
    }
}
