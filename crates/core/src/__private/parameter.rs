use std::mem;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserializer, Serialize,
    de::{DeserializeOwned, Error as _, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};

use super::{constraints::Constraints, object_schema::Object};
use crate::{call::ToolError, schema::reference::join_pointer, tool::deserialize};

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

/// A function parameter that the model sets.
///
/// The operations on `T` are stored as function pointers, so only the constructors, such as
/// [`argument`], have trait bounds for them. A type that does not satisfy the bounds therefore
/// causes a single compiler error.
pub struct Parameter<T> {
    name: &'static str,
    description: Option<&'static str>,
    schema: fn(&mut SchemaGenerator) -> Schema,
    deserialize: fn(Value, Option<&str>) -> Result<T, ToolError>,
    /// Returns the value for a missing argument: `Some(None)` if `T` is an `Option`, and `None` for
    /// most other types, because their arguments are required.
    absent: fn() -> Option<T>,
    default: Option<DefaultValue<T>>,
    constrain: Option<fn(&mut Constraints<'_>)>,
    is_flattened: bool,
}

struct DefaultValue<T> {
    make: fn() -> T,
    /// Serializes the default value for the schema keyword `default`. Returns `None` if the value
    /// cannot be serialized.
    to_json: fn(T) -> Option<Value>,
}

/// Creates a parameter of type `T` for the argument named `name`.
pub fn argument<T: Argument>(name: &'static str) -> Parameter<T> {
    Parameter { schema: SchemaGenerator::subschema_for::<T>, ..argument_without_schema(name) }
}

/// Creates a parameter of type `T` for the argument named `name`, without a schema. Used if the
/// tool has an explicit input schema.
pub fn argument_without_schema<T: DeserializeOwned>(name: &'static str) -> Parameter<T> {
    Parameter {
        name,
        description: None,
        schema: |_| true.into(),
        deserialize,
        absent: || T::deserialize(Absent).ok(),
        default: None,
        constrain: None,
        is_flattened: false,
    }
}

impl<T> Parameter<T> {
    /// Sets the description of the parameter in the input schema.
    pub fn describe(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }

    /// Sets the default value. `make` creates the value, and `to_json` converts it to JSON for the
    /// schema.
    pub fn default(mut self, make: fn() -> T, to_json: fn(T) -> Option<Value>) -> Self {
        self.default = Some(DefaultValue { make, to_json });
        self
    }

    /// Sets the function `constrain`, which adds constraints to the schema of the parameter.
    pub fn constrain(mut self, constrain: fn(&mut Constraints<'_>)) -> Self {
        self.constrain = Some(constrain);
        self
    }

    /// Flattens the parameter: its value, a map or a struct, is deserialized from all arguments
    /// that belong to no other parameter. A flattened parameter must be the last argument.
    pub fn flatten(mut self) -> Self {
        self.is_flattened = true;
        self
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = (self.schema)(generator);
        if let Some(constrain) = self.constrain {
            constrain(&mut Constraints(&mut schema));
        }
        // The description of the parameter replaces the description of the parameter's type.
        if let Some(description) = self.description {
            schema.insert("description".to_owned(), description.into());
        }
        if let Some(default) = self.default.as_ref().and_then(|default| (default.to_json)((default.make)())) {
            schema.insert("default".to_owned(), default);
        }
        schema
    }

    fn is_required(&self) -> bool {
        self.default.is_none() && (self.absent)().is_none()
    }

    fn take(&self, arguments: &mut Map<String, Value>) -> Result<T, ToolError> {
        if self.is_flattened {
            return (self.deserialize)(Value::Object(mem::take(arguments)), None);
        }
        match (arguments.remove(self.name), &self.default) {
            (Some(value), _) => (self.deserialize)(value, Some(self.name)),
            (None, Some(default)) => Ok((default.make)()),
            (None, None) => (self.absent)().ok_or_else(|| {
                ToolError::InvalidArguments(format!("{}: missing", join_pointer("", self.name)).into())
            }),
        }
    }
}

/// A list of parameters as nested pairs, for example `(first, (second, ()))`.
pub trait Parameters {
    /// The types of the parameter values as nested pairs, in the same order as the parameters.
    type Values;

    /// Adds all parameters to `object`, the builder of the input schema.
    fn describe(&self, object: &mut Object<'_>);

    /// Removes the values of all parameters from `arguments`, and returns them. Fails if a required
    /// argument is missing, or if a value cannot be deserialized.
    fn take(&self, arguments: &mut Map<String, Value>) -> Result<Self::Values, ToolError>;
}

impl Parameters for () {
    type Values = ();

    fn describe(&self, _: &mut Object<'_>) {}

    fn take(&self, _: &mut Map<String, Value>) -> Result<(), ToolError> {
        Ok(())
    }
}

impl<T, Rest: Parameters> Parameters for (Parameter<T>, Rest) {
    type Values = (T, Rest::Values);

    fn describe(&self, object: &mut Object<'_>) {
        let (first, rest) = self;
        let schema = first.schema(object.generator);
        if first.is_flattened {
            object.flatten(schema);
        } else {
            object.add(first.name, schema, first.is_required());
        }
        rest.describe(object);
    }

    fn take(&self, arguments: &mut Map<String, Value>) -> Result<Self::Values, ToolError> {
        let (first, rest) = self;
        Ok((first.take(arguments)?, rest.take(arguments)?))
    }
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

/// A deserializer for a missing argument. An `Option` is deserialized as `None`. Other types cause
/// an error.
struct Absent;

impl<'de> Deserializer<'de> for Absent {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("missing"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
