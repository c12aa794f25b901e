use std::borrow::Cow;

use serde::Serialize;

use crate::call::{BoxError, ToolError, ToolOutput, ToolResponse};
use crate::{
    content::Content,
    schema::{Schema, SchemaError},
};

/// A conversion from the return value of a tool function to a [`ToolResponse`].
///
/// | return type | output |
/// |---|---|
/// | strings, numbers, `bool`, `char` | text |
/// | [`Json<T>`] | structured data, with an output schema |
/// | [`Content`], `Vec<Content>`, [`ToolOutput`], [`ToolResponse`] | the value itself |
/// | `()` | an empty output |
/// | `Result` of one of these | as above, or the error as a [`ToolError`] |
///
/// # Examples
///
/// A custom return type:
///
/// ```
/// use haft_core::{ToolError, ToolExt as _, call::ToolResponse, tool, tool::IntoToolOutput};
/// use serde_json::json;
///
/// struct Celsius(f64);
///
/// impl IntoToolOutput for Celsius {
///     fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
///         Ok(format!("{:.1} °C", self.0).into())
///     }
/// }
///
/// /// Converts a temperature.
/// #[tool]
/// fn from_fahrenheit(degrees: f64) -> Celsius {
///     Celsius((degrees - 32.0) / 1.8)
/// }
///
/// # fn main() {
/// assert_eq!(FromFahrenheit.invoke_blocking(json!({"degrees": 68})).model_text(), "20.0 °C");
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a tool output",
    note = "return text, a number, `()`, `Vec<Content>`, `ToolOutput`, or `Result` of one of these",
    note = "return any other value as `Json(value)`: its type derives `serde::Serialize` and \
            `haft_core::export::schemars::JsonSchema`",
    note = "return bytes as `Content::from_bytes(bytes, \"image/png\")`, with their media type, and an `Option` as `Json(option)`",
    note = "the error of a `Result` may be a `String`, a `ToolError`, or any type with `std::error::Error`"
)]
pub trait IntoToolOutput {
    /// Converts the return value to the response of the tool.
    ///
    /// # Errors
    ///
    /// Fails with the error that the function returned, or if the value cannot be serialized.
    fn into_tool_output(self) -> Result<ToolResponse, ToolError>;

    /// Returns the output schema of a tool with this return type. `None` if the type defines no
    /// output schema, as in the default implementation.
    fn output_schema() -> Option<Result<Schema, SchemaError>> {
        None
    }
}

/// A wrapper that turns the return value of a tool into structured output. The output schema of the
/// tool is generated from `T`.
///
/// # Examples
///
/// ```
/// use haft_core::{call::ToolResponse, Json, tool::IntoToolOutput};
///
/// let ToolResponse::Done(output) = Json(vec![1, 2]).into_tool_output()? else { unreachable!() };
/// assert_eq!(output.text(), "[1,2]");
/// # Ok::<(), haft_core::ToolError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

#[diagnostic::do_not_recommend]
impl<T: Serialize + schemars::JsonSchema> IntoToolOutput for Json<T> {
    fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
        let value = serde_json::to_value(self.0).map_err(ToolError::failed)?;
        Ok(ToolResponse::Done(ToolOutput::structured(value)))
    }

    fn output_schema() -> Option<Result<Schema, SchemaError>> {
        Some(Schema::from_output_type::<T>())
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoToolOutput, E: Into<BoxError>> IntoToolOutput for Result<T, E> {
    fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
        self.map_err(ToolError::failed)?.into_tool_output()
    }

    fn output_schema() -> Option<Result<Schema, SchemaError>> {
        T::output_schema()
    }
}

impl IntoToolOutput for ToolResponse {
    fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
        Ok(self)
    }
}

impl IntoToolOutput for () {
    fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
        Ok(ToolResponse::Done(ToolOutput::default()))
    }
}

impl IntoToolOutput for Vec<Content> {
    fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
        Ok(ToolResponse::Done(ToolOutput { content: self, ..ToolOutput::default() }))
    }
}

macro_rules! outcome_from {
    ($($type:ty),*) => {$(
        impl IntoToolOutput for $type {
            fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
                Ok(self.into())
            }
        }
    )*};
}
outcome_from!(String, &'static str, Content, ToolOutput);

impl IntoToolOutput for Cow<'static, str> {
    fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
        Ok(self.into_owned().into())
    }
}

macro_rules! text_of {
    ($($type:ty),*) => {$(
        impl IntoToolOutput for $type {
            fn into_tool_output(self) -> Result<ToolResponse, ToolError> {
                Ok(self.to_string().into())
            }
        }
    )*};
}
text_of!(bool, char, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);
