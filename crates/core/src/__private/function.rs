use std::{borrow::Cow, future::Future, marker::PhantomData, pin::Pin};

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{object::Object, parameter::Parameters};
use crate::{
    call::{ToolError, ToolResponse},
    schema::Schema,
    tool::{IntoToolOutput, ToolContext, ToolDefinition},
};

/// A function with `#[tool]`.
pub trait Function: Send + Sync {
    /// The name of the tool.
    const NAME: &'static str;
    /// The values of the parameters, as a nested list.
    type Arguments;
    /// The return type.
    type Output: IntoToolOutput;

    /// Returns the parameters for the model, without context and state.
    fn parameters() -> impl Parameters<Values = Self::Arguments>;

    /// Calls the function.
    fn call(
        &self,
        arguments: Self::Arguments,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// The future of [`Tool::call`](crate::Tool::call), as expanded by `async_trait`.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolResponse, ToolError>> + Send + 'a>>;

/// Returns the definition of a function, with the schema of its parameters.
pub fn definition<F: Function>() -> ToolDefinition {
    ToolDefinition::of::<ArgumentsOf<F>, F::Output>(F::NAME)
}

/// Returns the definition of a function, with an explicit schema.
pub fn definition_with_schema<F: Function>(schema: Value) -> ToolDefinition {
    ToolDefinition::inferred::<F::Output>(F::NAME, Schema::arguments(schema))
}

/// Calls a function with validated arguments.
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

/// The schema of the arguments of a function.
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
