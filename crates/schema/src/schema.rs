//! The schema type.

use std::fmt;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::check::{self, Check, Errors};
use crate::error::SchemaError;
use crate::memo::TypeMemo;
use crate::preflight::{self, SchemaLimits, exceeds_depth};
use crate::secret_members::SecretMembers;
use crate::violation::Violations;
use crate::{arguments, derive, explain, reference};

/// A JSON Schema as it was given, with its validator.
///
/// Cloning is cheap and shares both. Two schemas are equal when their JSON is, whatever the order of keys.
///
/// # Examples
///
/// ```
/// use haft_schema::Schema;
/// use serde_json::json;
///
/// let schema = Schema::new(json!({
///     "type": "object",
///     "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
///     "required": ["x"],
/// }))?;
/// assert!(schema.is_valid(&json!({"x": 1})));
///
/// let violations = schema.validate(&json!({"x": "abc"})).unwrap_err();
/// assert_eq!(violations.to_string(), r#"/x: expected integer, received string "abc""#);
/// # Ok::<(), haft_schema::SchemaError>(())
/// ```
#[derive(Clone)]
pub struct Schema(pub(crate) Arc<Compiled>);

/// One property that the root of a [`Schema`] declares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Property<'s> {
    /// Its name.
    pub name: &'s str,
    /// Its schema. A reference in it counts from the root of the whole schema.
    pub schema: &'s Value,
    /// Whether it must be there.
    pub required: bool,
}

pub(crate) struct Compiled {
    value: Value,
    pub(crate) check: Check,
    /// Whether an object has the members that its schema lists and no others, where that does not say so.
    pub(crate) lists_all: bool,
    pub(crate) secret_members: OnceLock<SecretMembers>,
    memo: TypeMemo,
}

impl Compiled {
    fn new(value: Value, check: Check) -> Self {
        Self { value, check, lists_all: false, secret_members: OnceLock::new(), memo: TypeMemo::default() }
    }
}

impl Schema {
    /// Checks a schema against the default [`SchemaLimits`] and compiles it.
    ///
    /// # Errors
    ///
    /// What is too large, refers to another document, refers to itself without an end, declares an unknown dialect
    /// or is no valid schema is refused, with the place and the reason.
    pub fn new(value: Value) -> Result<Self, SchemaError> {
        Self::with_limits(value, &SchemaLimits::default())
    }

    /// Checks a schema against limits of your own and compiles it.
    ///
    /// # Errors
    ///
    /// The same as [`Schema::new`].
    pub fn with_limits(value: Value, limits: &SchemaLimits) -> Result<Self, SchemaError> {
        match preflight::inspect(&value, limits) {
            Ok(draft) => {
                let check = Check::compile(&value, draft)?;
                Ok(Self(Arc::new(Compiled::new(value, check))))
            }
            Err(error) => {
                preflight::dismantle(value);
                Err(error)
            }
        }
    }

    /// Derives the schema of a type that is read from JSON.
    ///
    /// Types are written out where they are used; a recursive one stays a `$ref` into `$defs`. What tells a model
    /// nothing is left out: `$schema`, a title from the type's name, formats of numbers such as `int64`.
    ///
    /// # Errors
    ///
    /// Fails where the type describes itself by a schema that [`Schema::new`] refuses.
    pub fn from_type<T: JsonSchema + ?Sized>() -> Result<Self, SchemaError> {
        Self::new(derive::input::<T>())
    }

    /// Derives the schema of a type that is written as JSON, which may differ from [`Schema::from_type`] in names and in
    /// what is always there.
    ///
    /// # Errors
    ///
    /// The same as [`Schema::from_type`].
    pub fn from_output_type<T: JsonSchema + ?Sized>() -> Result<Self, SchemaError> {
        let mut schema = Self::new(derive::output::<T>())?;
        // What a type writes is what it lists: one that writes more says so.
        if let Some(compiled) = Arc::get_mut(&mut schema.0) {
            compiled.lists_all = true;
        }
        Ok(schema)
    }

    /// The schema of a tool without arguments: `{"type": "object", "properties": {}}`.
    pub fn object() -> Self {
        let value = json!({"type": "object", "properties": {}});
        Self(Arc::new(Compiled::new(value, Check::AnyObject)))
    }

    /// Takes the arguments of a tool: a schema whose root is an object.
    ///
    /// A root that leaves its type open is given `"type": "object"`, and one that lists no properties an empty
    /// `properties`. Everything else stays as it is.
    ///
    /// # Errors
    ///
    /// The same as [`Schema::new`], and [`SchemaFault::NotAnObject`](crate::SchemaFault::NotAnObject) for a root that cannot be an object.
    pub fn arguments(value: Value) -> Result<Self, SchemaError> {
        Self::new(value)?.into_arguments()
    }

    /// Makes this schema one of [`arguments`](Schema::arguments). It is compiled again only if its root changes.
    ///
    /// # Errors
    ///
    /// [`SchemaFault::NotAnObject`](crate::SchemaFault::NotAnObject) for a root that cannot be an object.
    pub fn into_arguments(self) -> Result<Self, SchemaError> {
        match arguments::object_root(self.as_value(), self.0.check.draft())? {
            Some(value) => self.with_root(value),
            None => Ok(self),
        }
    }

    /// This schema with a few more keywords: the limits that it was held to still speak for it.
    pub(crate) fn with_root(&self, value: Value) -> Result<Self, SchemaError> {
        let check = self.0.check.of_same_draft(&value)?;
        Ok(Self(Arc::new(Compiled::new(value, check))))
    }

    /// The schema as it was given.
    pub fn as_value(&self) -> &Value {
        &self.0.value
    }

    /// Whether a value fits. This is all that a valid call costs.
    ///
    /// What that takes is bounded: a value that cannot be held against its schema in a part of a second, which takes a
    /// schema that asks for the same again and again, does not fit.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.fits(value) == Some(true)
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// Lists the first violations, not only one, and counts the others. Of a value with more than 10,000 parts it
    /// tells the first.
    pub fn validate(&self, value: &Value) -> Result<(), Violations> {
        if self.is_too_deep(value) {
            return Err(Violations::new(vec![explain::too_deep(self.0.check.depth())], 0));
        }
        match self.fits(value) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return Err(Violations::new(vec![explain::too_costly(value)], 0)),
        }
        let mut effort = check::LISTING;
        match self.errors(value, &mut effort) {
            Some(Errors { schema, errors }) => Err(explain::explain(schema, value, &errors)),
            None => Err(Violations::new(vec![explain::unlisted(value)], 0)),
        }
    }

    /// The properties that the root declares. A root that is a `$ref` is followed.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::Schema;
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(json!({"properties": {"x": {}, "y": {}}, "required": ["x"]}))?;
    /// let required: Vec<_> = schema.properties().filter(|it| it.required).map(|it| it.name).collect();
    /// assert_eq!(required, ["x"]);
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn properties(&self) -> impl Iterator<Item = Property<'_>> {
        let root = reference::follow(self.as_value(), self.as_value());
        let required = root.get("required").and_then(Value::as_array);
        let is_required = move |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
        let properties = root.get("properties").and_then(Value::as_object).into_iter().flatten();
        properties.map(move |(name, schema)| Property { name, schema, required: is_required(name) })
    }

    /// Returns a value derived from this schema, such as its form in a wire format. It is computed
    /// once per type ([`TypeMemo`]) and shared by all clones.
    pub fn rendering<T: Send + Sync + 'static>(&self, render: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.0.memo.get_or_insert_with(|| render(self))
    }

    /// Whether a value fits, or `None` if that takes too much to find out.
    pub(crate) fn fits(&self, value: &Value) -> Option<bool> {
        if self.is_too_deep(value) {
            return Some(false);
        }
        self.0.check.is_valid(self.as_value(), value)
    }

    pub(crate) fn is_too_deep(&self, value: &Value) -> bool {
        exceeds_depth(value, self.0.check.depth())
    }

    /// What the validator holds against a value that is not too deep, unless that takes more than is left.
    pub(crate) fn errors<'v>(&'v self, value: &'v Value, effort: &mut u64) -> Option<Errors<'v>> {
        self.0.check.errors(self.as_value(), value, effort)
    }
}

/// The same as [`Schema::new`].
impl TryFrom<Value> for Schema {
    type Error = SchemaError;

    fn try_from(value: Value) -> Result<Self, SchemaError> {
        Self::new(value)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_value() == other.as_value()
    }
}

impl Eq for Schema {}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.as_value())
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
