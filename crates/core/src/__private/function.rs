use std::{borrow::Cow, future::Future, marker::PhantomData, pin::Pin};

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{object::Object, parameter::Parameters};
use crate::{
    call::{ToolError, ToolResponse},
    schema::Schema,
    tool::{IntoToolOutput, ToolContext, ToolDefinition},
};

/// A function with the attribute `#[tool]`.
pub trait Function: Send + Sync {
    /// The name of the tool.
    const NAME: &'static str;
    /// The values of the parameters as nested pairs, for example `(i64, (String, ()))`.
    type Arguments;
    /// The return type of the function.
    type Output: IntoToolOutput;

    /// Returns the parameters whose values come from the model. Parameters for the context and for
    /// host state are not included.
    fn parameters() -> impl Parameters<Values = Self::Arguments>;

    /// Calls the function with the deserialized `arguments`.
    fn call(
        &self,
        arguments: Self::Arguments,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// The return type of [`Tool::call`](crate::Tool::call), as expanded by `async_trait`.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolResponse, ToolError>> + Send + 'a>>;

/// Returns the tool definition of the function `F`. The input schema is inferred from its
/// parameters.
pub fn definition<F: Function>() -> ToolDefinition {
    ToolDefinition::from_types::<ArgumentsOf<F>, F::Output>(F::NAME)
}

/// Returns the tool definition of the function `F`, with the explicit input schema `schema`.
pub fn definition_with_schema<F: Function>(schema: Value) -> ToolDefinition {
    ToolDefinition::inferred::<F::Output>(F::NAME, Schema::arguments(schema))
}

/// Deserializes the validated `arguments` and calls `function` with them.
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

/// A type whose JSON Schema describes the arguments of the function `F`.
struct ArgumentsOf<F>(PhantomData<F>);

impl<F: Function> JsonSchema for ArgumentsOf<F> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed(F::NAME)
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        let mut object = Object::new(generator);
        F::parameters().describe(&mut object);
        object.into_schema()
    }
}
