use std::mem;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserializer, Serialize,
    de::{DeserializeOwned, Error as _, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};

use super::{narrowed::Narrowed, object::Object};
use crate::{call::ToolError, schema::reference::join, tool::deserialize as read};

/// A type that an argument may have.
#[diagnostic::on_unimplemented(
    message = "a tool cannot take an argument of type `{Self}`",
    label = "not something that a model can give",
    note = "derive `serde::Deserialize` and `JsonSchema` for the type, and for those that it is made of: `use haft_core::export::schemars::{{self, JsonSchema}};`",
    note = "what the host program gives and not the model is `#[tool(state)]` or `#[tool(context)]`"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// A parameter that the model gives the value of.
///
/// It holds what its type can do, so that only [`argument`] asks for it: a type that cannot is one error.
pub struct Parameter<T> {
    name: &'static str,
    description: Option<&'static str>,
    schema: fn(&mut SchemaGenerator) -> Schema,
    read: fn(Value, Option<&str>) -> Result<T, ToolError>,
    absent: fn() -> Option<T>,
    default: Option<Default<T>>,
    narrow: Option<fn(&mut Narrowed<'_>)>,
    is_rest: bool,
}

struct Default<T> {
    make: fn() -> T,
    show: fn(T) -> Option<Value>,
}

/// Describes a parameter by its name and type.
pub fn argument<T: Argument>(name: &'static str) -> Parameter<T> {
    Parameter { schema: SchemaGenerator::subschema_for::<T>, ..undescribed(name) }
}

/// Describes a parameter whose schema is written by hand.
pub fn undescribed<T: DeserializeOwned>(name: &'static str) -> Parameter<T> {
    Parameter {
        name,
        description: None,
        schema: |_| true.into(),
        read,
        absent: || T::deserialize(Absent).ok(),
        default: None,
        narrow: None,
        is_rest: false,
    }
}

impl<T> Parameter<T> {
    /// Adds what the model reads about it.
    pub fn describe(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }

    /// Adds the value that it has when the model gives none, and how that value is shown.
    pub fn default(mut self, make: fn() -> T, show: fn(T) -> Option<Value>) -> Self {
        self.default = Some(Default { make, show });
        self
    }

    /// Narrows what its type allows.
    pub fn constrain(mut self, narrow: fn(&mut Narrowed<'_>)) -> Self {
        self.narrow = Some(narrow);
        self
    }

    /// Makes it take what no other argument has the name of.
    pub fn flatten(mut self) -> Self {
        self.is_rest = true;
        self
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = (self.schema)(generator);
        if let Some(narrow) = self.narrow {
            narrow(&mut Narrowed(&mut schema));
        }
        // What is said about the parameter wins over what its type says about itself.
        if let Some(description) = self.description {
            schema.insert("description".to_owned(), description.into());
        }
        if let Some(default) = self.default.as_ref().and_then(|default| (default.show)((default.make)())) {
            schema.insert("default".to_owned(), default);
        }
        schema
    }

    fn is_required(&self) -> bool {
        self.default.is_none() && (self.absent)().is_none()
    }

    fn take(&self, given: &mut Map<String, Value>) -> Result<T, ToolError> {
        if self.is_rest {
            return (self.read)(Value::Object(mem::take(given)), None);
        }
        match (given.remove(self.name), &self.default) {
            (Some(value), _) => (self.read)(value, Some(self.name)),
            (None, Some(default)) => Ok((default.make)()),
            (None, None) => (self.absent)().ok_or_else(|| {
                ToolError::InvalidArguments(format!("{}: missing", join("", self.name)).into())
            }),
        }
    }
}

/// A list of parameters: `()`, or a parameter and a list.
pub trait Parameters {
    /// Their values, as such a list.
    type Values;

    /// Adds each to the schema of the arguments.
    fn describe(&self, object: &mut Object<'_>);

    /// Takes the value of each out of what the model gave.
    fn take(&self, given: &mut Map<String, Value>) -> Result<Self::Values, ToolError>;
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
        if first.is_rest {
            object.open(schema);
        } else {
            object.add(first.name, schema, first.is_required());
        }
        rest.describe(object);
    }

    fn take(&self, given: &mut Map<String, Value>) -> Result<Self::Values, ToolError> {
        let (first, rest) = self;
        Ok((first.take(given)?, rest.take(given)?))
    }
}

/// Shows a value if its type can be written: the method of [`Shown`] itself wins over that of [`Hidden`].
pub struct Shown<T>(pub T);

impl<T: Serialize> Shown<T> {
    /// The value as JSON.
    pub fn value(self) -> Option<Value> {
        serde_json::to_value(self.0).ok()
    }
}

/// Shows nothing.
pub trait Hidden: Sized {
    /// Nothing.
    fn value(self) -> Option<Value> {
        None
    }
}

impl<T> Hidden for Shown<T> {}

/// What is read where nothing was given: an `Option` and what behaves like one becomes none, all else fails.
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
