use std::{borrow::Cow, future::Future, marker::PhantomData, pin::Pin};

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{object::Object, parameter::Parameters};
use crate::{
    call::{ToolError, ToolOutcome},
    schema::Schema,
    tool::{IntoToolOutput, ToolContext, ToolDefinition},
};

/// A function with what `#[tool]` found out about it.
pub trait Function: Send + Sync {
    /// The name by which models call it.
    const NAME: &'static str;
    /// What the model gives.
    type Arguments;
    /// What the function returns.
    type Output: IntoToolOutput;

    /// The parameters that the model gives the values of.
    fn parameters() -> impl Parameters<Values = Self::Arguments>;

    /// Calls the function.
    fn call(
        &self,
        arguments: Self::Arguments,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// The call of a tool, as `async_trait` writes it.
pub type Called<'a> = Pin<Box<dyn Future<Output = Result<ToolOutcome, ToolError>> + Send + 'a>>;

/// Defines a function's tool, with the schema of its parameters.
pub fn definition<F: Function>() -> ToolDefinition {
    ToolDefinition::of::<ArgumentsOf<F>, F::Output>(F::NAME)
}

/// Defines a function's tool, with a schema that was written by hand.
pub fn definition_by_hand<F: Function>(schema: Value) -> ToolDefinition {
    ToolDefinition::inferred::<F::Output>(F::NAME, Schema::arguments(schema))
}

/// Calls a function by arguments that were validated.
pub async fn call<F: Function>(
    function: &F,
    arguments: Value,
    cx: &ToolContext,
) -> Result<ToolOutcome, ToolError> {
    let mut given = match arguments {
        Value::Object(given) => given,
        other => {
            return Err(ToolError::InvalidArguments(format!("expected an object, received {other}").into()));
        }
    };
    let arguments = F::parameters().take(&mut given)?;
    function.call(arguments, cx).await?.into_tool_output()
}

/// The object that a function takes its arguments from.
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
