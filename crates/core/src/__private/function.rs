use std::future::Future;

use serde_json::Value;

use crate::{
    call::{ToolError, ToolResponse},
    schema::{Schema, object::TypedProperties},
    tool::{IntoToolOutput, ToolContext, ToolDefinition},
};

/// A function with the attribute `#[tool]`. The macro generates the implementation of this trait.
pub trait Function: Send + Sync {
    /// The name of the tool.
    const NAME: &'static str;
    /// The types of the arguments as nested pairs, for example `(i64, (String, ()))`.
    type Arguments;
    /// The return type of the function.
    type Output: IntoToolOutput;

    /// Returns the parameters that the model sets. Parameters for the context and for host state
    /// are not included.
    fn parameters() -> impl TypedProperties<Values = Self::Arguments>;

    /// Calls the function with the deserialized `arguments`.
    fn call(
        &self,
        arguments: Self::Arguments,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// Returns the tool definition of the function `F`, with an input schema inferred from the
/// parameters.
pub fn definition<F: Function>() -> ToolDefinition {
    ToolDefinition::inferred::<F::Output>(F::NAME, Schema::from_properties(&F::parameters()))
}

/// Returns the tool definition of the function `F`, with the explicit input schema `schema`.
pub fn definition_with_schema<F: Function>(schema: Value) -> ToolDefinition {
    ToolDefinition::inferred::<F::Output>(F::NAME, Schema::for_arguments(schema))
}

/// Deserializes the validated `arguments` and calls `function` with the deserialized values.
pub async fn call<F: Function>(
    function: &F,
    arguments: Value,
    cx: &ToolContext,
) -> Result<ToolResponse, ToolError> {
    let mut arguments = match arguments {
        Value::Object(arguments) => arguments,
        other => {
            return Err(ToolError::InvalidArguments(format!("expected an object, received {other}").into()));
        }
    };
    let arguments = F::parameters().take(&mut arguments)?;
    function.call(arguments, cx).await?.into_tool_output()
}
