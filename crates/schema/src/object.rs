//! Objects with typed properties: the schema of the object, and the values of its properties.
//!
//! A [`TypedProperty`] has a name, a Rust type, and optionally a description, a default value and
//! constraints. [`Schema::from_properties`](crate::Schema::from_properties) builds the schema of an
//! object with a list of properties. [`TypedProperties::take`] deserializes their values from an
//! object. The macro `#[tool]` uses this module for the parameters of a function.
//!
//! # Examples
//!
//! ```
//! use haft_schema::{
//!     Schema,
//!     object::{TypedProperties as _, TypedProperty},
//! };
//! use serde_json::{Map, json};
//!
//! let city = TypedProperty::<String>::new("city").with_description("A city in Europe.");
//! let days = TypedProperty::<u8>::new("days")
//!     .with_default(|| 3, |days| Some(days.into()))
//!     .with_constraints(|schema| schema.at_most(json!(7)));
//! let properties = (city, (days, ()));
//!
//! let schema = Schema::from_properties(&properties)?;
//! let (city, (days, ())) = properties.take(&mut Map::from_iter([("city".to_owned(), json!("Oslo"))]))?;
//! assert_eq!((city.as_str(), days), ("Oslo", 3));
//! assert_eq!(
//!     schema.as_value(),
//!     &json!({
//!         "type": "object",
//!         "properties": {
//!             "city": {"type": "string", "description": "A city in Europe."},
//!             "days": {"type": "integer", "minimum": 0, "maximum": 7, "default": 3},
//!         },
//!         "required": ["city"],
//!         "additionalProperties": false,
//!     })
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod object_schema;
mod property_schema;
#[cfg(test)]
mod tests;
mod typed_property;

pub use object_schema::ObjectSchema;
pub use property_schema::PropertySchema;
pub use typed_property::{FlattenedProperty, TypedProperties, TypedProperty};
