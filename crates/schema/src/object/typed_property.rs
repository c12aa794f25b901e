use std::{fmt, mem};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserializer,
    de::{DeserializeOwned, Error as _, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};

use super::{ObjectSchema, PropertySchema};
use crate::{
    deserialize::{TypeMismatch, deserialize_property},
    reference::join_pointer,
};

/// A property of an object, with values of type `T`. See the [module](super) for an example.
///
/// The property is required, unless it has a default value or `T` is an `Option`.
///
/// The operations on `T` are stored as function pointers, so only the constructors have trait
/// bounds for them. A type that does not satisfy the bounds therefore causes a single compiler
/// error.
pub struct TypedProperty<T> {
    name: &'static str,
    description: Option<&'static str>,
    schema: fn(&mut SchemaGenerator) -> Schema,
    deserialize: fn(Value, Option<&str>) -> Result<T, TypeMismatch>,
    /// Returns the value of an absent property: `Some(None)` if `T` is an `Option`, and `None` for
    /// most other types, because their properties are required.
    absent: fn() -> Option<T>,
    default: Option<DefaultValue<T>>,
    constrain: Option<fn(&mut PropertySchema<'_>)>,
}

/// A flattened property: its value, a map or a struct, is deserialized from all members of the
/// object that belong to no other property. It is the tail of a list of properties, for example
/// `(first, flattened)`. Created by [`TypedProperty::flattened`].
#[derive(Debug)]
pub struct FlattenedProperty<T>(TypedProperty<T>);

struct DefaultValue<T> {
    make: fn() -> T,
    /// Serializes the default value for the schema keyword `default`. Returns `None` if the value
    /// cannot be serialized.
    to_json: fn(T) -> Option<Value>,
}

impl<T: DeserializeOwned> TypedProperty<T> {
    /// Creates a property named `name`. Its schema is derived from `T`.
    pub fn new(name: &'static str) -> Self
    where
        T: JsonSchema,
    {
        Self { schema: SchemaGenerator::subschema_for::<T>, ..Self::without_schema(name) }
    }

    /// Creates a property named `name` whose schema accepts any value. Use it if `T` does not
    /// implement `JsonSchema`, because the object has an explicit schema.
    pub fn without_schema(name: &'static str) -> Self {
        Self {
            name,
            description: None,
            schema: |_| true.into(),
            deserialize: deserialize_property,
            absent: || T::deserialize(Absent).ok(),
            default: None,
            constrain: None,
        }
    }
}

impl<T> TypedProperty<T> {
    /// Sets the description of the property. It replaces the description of the type.
    #[must_use]
    pub fn with_description(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }

    /// Sets the default value, for objects without the property. `make` creates the value, and
    /// `to_json` converts it to JSON for the schema keyword `default`. If `to_json` returns `None`,
    /// the schema has no `default`.
    #[must_use]
    pub fn with_default(mut self, make: fn() -> T, to_json: fn(T) -> Option<Value>) -> Self {
        self.default = Some(DefaultValue { make, to_json });
        self
    }

    /// Sets the function `constrain`, which adds constraints to the schema of the property.
    #[must_use]
    pub fn with_constraints(mut self, constrain: fn(&mut PropertySchema<'_>)) -> Self {
        self.constrain = Some(constrain);
        self
    }

    /// Flattens the property: its value, a map or a struct, is deserialized from all members of the
    /// object that belong to no other property.
    pub fn flattened(self) -> FlattenedProperty<T> {
        FlattenedProperty(self)
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = (self.schema)(generator);
        if let Some(constrain) = self.constrain {
            constrain(&mut PropertySchema(&mut schema));
        }
        // The description of the property replaces the description of the property's type.
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

    fn take(&self, object: &mut Map<String, Value>) -> Result<T, TypeMismatch> {
        match (object.remove(self.name), &self.default) {
            (Some(value), _) => (self.deserialize)(value, Some(self.name)),
            (None, Some(default)) => Ok((default.make)()),
            (None, None) => (self.absent)().ok_or_else(|| TypeMismatch {
                pointer: join_pointer("", self.name),
                reason: "missing".to_owned(),
            }),
        }
    }
}

impl<T> fmt::Debug for TypedProperty<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedProperty").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A list of properties as nested pairs, for example `(first, (second, ()))`. The tail of the list
/// is `()` or a [`FlattenedProperty`].
///
/// This trait is sealed.
pub trait TypedProperties: Sealed {
    /// The types of the values as nested pairs, in the same order as the properties.
    type Values;

    /// Adds all properties to `object`, the builder of the schema.
    fn describe(&self, object: &mut ObjectSchema<'_>);

    /// Removes the values of all properties from `object`, and returns them.
    ///
    /// # Errors
    ///
    /// Fails if a required property is missing, or if a value cannot be deserialized.
    fn take(&self, object: &mut Map<String, Value>) -> Result<Self::Values, TypeMismatch>;
}

/// The supertrait that prevents other implementations of [`TypedProperties`].
pub trait Sealed {}

impl Sealed for () {}

impl<T> Sealed for FlattenedProperty<T> {}

impl<T, Rest: TypedProperties> Sealed for (TypedProperty<T>, Rest) {}

impl TypedProperties for () {
    type Values = ();

    fn describe(&self, _: &mut ObjectSchema<'_>) {}

    fn take(&self, _: &mut Map<String, Value>) -> Result<(), TypeMismatch> {
        Ok(())
    }
}

impl<T, Rest: TypedProperties> TypedProperties for (TypedProperty<T>, Rest) {
    type Values = (T, Rest::Values);

    fn describe(&self, object: &mut ObjectSchema<'_>) {
        let (first, rest) = self;
        let schema = first.schema(object.generator);
        object.add(first.name, schema, first.is_required());
        rest.describe(object);
    }

    fn take(&self, object: &mut Map<String, Value>) -> Result<Self::Values, TypeMismatch> {
        let (first, rest) = self;
        Ok((first.take(object)?, rest.take(object)?))
    }
}

impl<T> TypedProperties for FlattenedProperty<T> {
    type Values = T;

    fn describe(&self, object: &mut ObjectSchema<'_>) {
        let schema = self.0.schema(object.generator);
        object.flatten(schema);
    }

    fn take(&self, object: &mut Map<String, Value>) -> Result<T, TypeMismatch> {
        (self.0.deserialize)(Value::Object(mem::take(object)), None)
    }
}

/// A deserializer for an absent property. An `Option` is deserialized as `None`. Other types cause
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
