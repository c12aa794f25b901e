use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::schema::object::TypedProperty as Parameter;

/// A type that can be an argument of a tool. Implemented for all types that satisfy the bounds. The
/// trait exists for the error message that the compiler prints for other types.
#[diagnostic::on_unimplemented(
    message = "a tool cannot take an argument of type `{Self}`",
    label = "not an argument type",
    note = "derive `serde::Deserialize` and `JsonSchema` for the type and the types of its fields: `use haft_core::export::schemars::{{self, JsonSchema}};`",
    note = "mark a parameter with a value from the host program by `#[tool(state)]` or `#[tool(context)]`"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// Creates a parameter of type `T` for the argument named `name`.
pub fn argument<T: Argument>(name: &'static str) -> Parameter<T> {
    Parameter::new(name)
}

/// Creates a parameter of type `T` for the argument named `name`, without a schema. Used if the
/// tool has an explicit input schema.
pub fn argument_without_schema<T: DeserializeOwned>(name: &'static str) -> Parameter<T> {
    Parameter::without_schema(name)
}

/// A wrapper that serializes a default value if its type implements `Serialize`.
///
/// Method resolution selects the inherent method `value` if `T` implements `Serialize`. If `T` does
/// not implement it, the method `value` of the trait [`NotSerializable`] is selected.
pub struct MaybeJson<T>(pub T);

impl<T: Serialize> MaybeJson<T> {
    /// Returns the value as JSON, or `None` if the serialization fails.
    pub fn value(self) -> Option<Value> {
        serde_json::to_value(self.0).ok()
    }
}

/// The fallback of [`MaybeJson`] for types that do not implement `Serialize`.
pub trait NotSerializable: Sized {
    /// Returns `None`, because the value cannot be serialized.
    fn value(self) -> Option<Value> {
        None
    }
}

impl<T> NotSerializable for MaybeJson<T> {}
