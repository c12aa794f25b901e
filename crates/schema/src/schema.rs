//! [`Schema`], a JSON Schema with its compiled validator.

use std::fmt;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::error::SchemaError;
use crate::memo::TypeMemo;
use crate::object::TypedProperties;
use crate::preflight::{self, SchemaLimits, exceeds_depth};
use crate::secret_members::SecretMembers;
use crate::validator::{self, Errors, SchemaValidator};
use crate::violation::{Violation, Violations};
use crate::{arguments, derive, exact_json, explain, reference};

/// A JSON Schema with its compiled validator.
///
/// Clones share the schema and the validator, so cloning is cheap. Two schemas are equal if their
/// JSON is equal, regardless of the order of keys.
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
pub struct Schema(pub(crate) Arc<Inner>);

/// A property declared by the root of a [`Schema`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Property<'s> {
    /// The name of the property.
    pub name: &'s str,
    /// The subschema of the property. Its references are resolved against the whole schema.
    pub schema: &'s Value,
    /// `true` if the declaring object schema lists the property in `required`.
    pub is_required: bool,
}

pub(crate) struct Inner {
    value: Value,
    pub(crate) validator: SchemaValidator,
    pub(crate) secret_members: OnceLock<SecretMembers>,
    memo: TypeMemo,
}

impl Inner {
    fn new(value: Value, validator: SchemaValidator) -> Self {
        Self { value, validator, secret_members: OnceLock::new(), memo: TypeMemo::default() }
    }
}

impl Schema {
    /// Checks the schema `value` against the default [`SchemaLimits`] and compiles it.
    ///
    /// # Errors
    ///
    /// Returns an error with the location and the reason if the schema
    ///
    /// - exceeds a limit,
    /// - contains a reference to another document, or a reference without a target,
    /// - defines an anchor twice, or contains a nested `$id` together with references,
    /// - recurses infinitely for one value, as in `{"$ref": "#"}`,
    /// - declares an unknown dialect in `$schema`, or
    /// - is not a valid JSON Schema.
    pub fn new(value: Value) -> Result<Self, SchemaError> {
        Self::with_limits(value, &SchemaLimits::default())
    }

    /// Checks the schema `value` against the given `limits` and compiles it.
    ///
    /// # Errors
    ///
    /// The same errors as [`Schema::new`].
    pub fn with_limits(value: Value, limits: &SchemaLimits) -> Result<Self, SchemaError> {
        match preflight::check_limits_and_references(&value, limits) {
            Ok(draft) => {
                let validator = SchemaValidator::compile(&value, draft)?;
                Ok(Self(Arc::new(Inner::new(value, validator))))
            }
            Err(error) => {
                preflight::drop_iteratively(value);
                Err(error)
            }
        }
    }

    /// Derives the schema of the JSON from which `T` is deserialized.
    ///
    /// The schemas of nested types are inlined. A recursive type becomes a `$ref` into `$defs`.
    /// Keywords that a model does not need are omitted: `$schema`, the title derived from the name
    /// of the type, and number formats such as `int64`.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Schema::new`] rejects the derived schema, for example because of a
    /// handwritten `JsonSchema` implementation.
    pub fn from_type<T: JsonSchema + ?Sized>() -> Result<Self, SchemaError> {
        Self::new(derive::derive_input_schema::<T>())
    }

    /// Derives the schema of the JSON to which `T` is serialized.
    ///
    /// This schema differs from the schema of [`Schema::from_type`] if `T` has different names for
    /// serialization and deserialization (`#[serde(rename(…))]`). It also differs for `Option`
    /// fields and fields with `#[serde(default)]`, which are optional in the input. In the output,
    /// they are required, unless they have `skip_serializing_if`.
    ///
    /// # Errors
    ///
    /// The same errors as [`Schema::from_type`].
    pub fn from_output_type<T: JsonSchema + ?Sized>() -> Result<Self, SchemaError> {
        Self::new(derive::derive_output_schema::<T>())
    }

    /// Derives the schema of an object with the given `properties`. See
    /// [`object`](crate::object) for an example.
    ///
    /// Additional properties are forbidden, unless a property is flattened or there are no
    /// properties. Nested types are handled as by [`Schema::from_type`].
    ///
    /// # Errors
    ///
    /// The same errors as [`Schema::from_type`].
    pub fn from_properties(properties: &impl TypedProperties) -> Result<Self, SchemaError> {
        Self::new(derive::derive_object_schema(properties))
    }

    /// Returns the schema of a tool without arguments: `{"type": "object", "properties": {}}`.
    pub fn object() -> Self {
        let value = json!({"type": "object", "properties": {}});
        Self(Arc::new(Inner::new(value, SchemaValidator::AnyObject)))
    }

    /// Creates the schema of a tool's arguments, which are always a JSON object.
    ///
    /// Sets the type of the root to `object`. Adds empty `properties` if the root has none of the
    /// keywords `properties`, `$ref`, `allOf`, `anyOf` and `oneOf`. A draft-07 `$ref` at the root
    /// is moved into an `allOf` if its target does not declare the type `object`.
    ///
    /// # Errors
    ///
    /// The same errors as [`Schema::new`], and
    /// [`SchemaFault::NotAnObject`](crate::SchemaFault::NotAnObject) if the root is a boolean, or
    /// if its `type` or the target of its `$ref` does not allow objects.
    pub fn for_arguments(value: Value) -> Result<Self, SchemaError> {
        Self::new(value)?.into_arguments()
    }

    /// Converts this schema to the schema of a tool's arguments, as [`Schema::for_arguments`] does.
    /// The schema is recompiled only if its root changes.
    ///
    /// # Errors
    ///
    /// Returns [`SchemaFault::NotAnObject`](crate::SchemaFault::NotAnObject) if the root is a
    /// boolean, or if its `type` or the target of its `$ref` does not allow objects.
    pub fn into_arguments(self) -> Result<Self, SchemaError> {
        match arguments::to_object_root(self.as_value(), self.0.validator.draft())? {
            Some(value) => self.with_root(value),
            None => Ok(self),
        }
    }

    /// Compiles `value`, a slightly changed copy of this schema, without another preflight. The
    /// change must add at most a few keywords, because the limits are not checked again.
    pub(crate) fn with_root(&self, value: Value) -> Result<Self, SchemaError> {
        let validator = self.0.validator.recompile(&value)?;
        Ok(Self(Arc::new(Inner::new(value, validator))))
    }

    /// Returns the schema as JSON.
    pub fn as_value(&self) -> &Value {
        &self.0.value
    }

    /// Returns `true` if `value` is valid for this schema.
    ///
    /// The time of a check is bounded. If a check would take longer than a fraction of a second,
    /// `value` is treated as invalid. See the [threat model](crate::threat_model).
    pub fn is_valid(&self, value: &Value) -> bool {
        self.try_is_valid(value) == Some(true)
    }

    /// Validates `value` against this schema.
    ///
    /// # Errors
    ///
    /// Returns up to 20 violations, and the number of further violations. Only the first error is
    /// reported if the value contains more than 10,000 nested values, or if a list of all errors
    /// could take too much memory. The list has a single violation if the value is nested too deep,
    /// if it is too expensive to check, or if its errors are too expensive to list.
    pub fn validate(&self, value: &Value) -> Result<(), Violations> {
        if self.is_too_deep(value) {
            return Err(Violations::new(
                vec![explain::too_deep_violation(self.0.validator.max_value_depth())],
                0,
            ));
        }
        match self.try_is_valid(value) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return Err(Violations::new(vec![explain::too_costly_violation(value)], 0)),
        }
        let inexact = self.inexact_numbers(value);
        let mut budget = validator::ERROR_BUDGET;
        match self.errors(value, &mut budget) {
            Some(Errors { errors, .. }) if errors.is_empty() && !inexact.is_empty() => {
                Err(Violations::new(inexact, 0))
            }
            Some(Errors { schema, errors }) => {
                Err(explain::explain(schema, value, &errors).with_inexact_numbers(inexact))
            }
            None if !inexact.is_empty() => Err(Violations::new(inexact, 0)),
            None => Err(Violations::new(vec![explain::unspecified_violation(value)], 0)),
        }
    }

    /// Returns the violations for the numbers in `value` that cannot be held exactly, including
    /// integers beyond 64 bits where this schema requires an integer.
    fn inexact_numbers(&self, value: &Value) -> Vec<Violation> {
        if exact_json::is_exact(value) {
            return Vec::new();
        }
        let mut found = exact_json::inexact_numbers(value);
        if let Some((changed, wide)) = exact_json::with_fractions(value)
            && self.0.validator.is_valid(self.as_value(), value) == Some(true)
            && self.0.validator.is_valid(self.as_value(), &changed) != Some(true)
        {
            found.extend(wide);
        }
        found
    }

    /// Returns an iterator over the properties declared by the root of the schema. If the root is a
    /// `$ref`, the properties of its target are returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::Schema;
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(json!({"properties": {"x": {}, "y": {}}, "required": ["x"]}))?;
    /// let required = schema.properties().filter(|it| it.is_required).map(|it| it.name);
    /// assert_eq!(required.collect::<Vec<_>>(), ["x"]);
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn properties(&self) -> impl Iterator<Item = Property<'_>> {
        let root = reference::follow(self.as_value(), self.as_value());
        let required = root.get("required").and_then(Value::as_array);
        let is_required = move |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
        let properties = root.get("properties").and_then(Value::as_object).into_iter().flatten();
        properties.map(move |(name, schema)| Property { name, schema, is_required: is_required(name) })
    }

    /// Returns a value computed from this schema, such as its encoding for a provider. The first
    /// call for a type `T` computes the value with `compute`. Later calls, including calls on
    /// clones of the schema, return the stored value (see [`TypeMemo`] for exceptions).
    pub fn memoize<T: Send + Sync + 'static>(&self, compute: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.0.memo.get_or_insert_with(|| compute(self))
    }

    /// Checks `value`. Returns `Some(true)` if it is valid, and `Some(false)` if it is invalid or
    /// nested too deeply. Returns `None` if the check exceeds its cost budget, or if the validator
    /// with a budget cannot be compiled.
    pub(crate) fn try_is_valid(&self, value: &Value) -> Option<bool> {
        if self.is_too_deep(value) {
            return Some(false);
        }
        let is_valid = self.0.validator.is_valid(self.as_value(), value);
        if is_valid == Some(true) && !exact_json::is_exact(value) {
            return Some(self.inexact_numbers(value).is_empty());
        }
        is_valid
    }

    /// Returns `true` if `value` is nested deeper than the validator of this schema allows. A
    /// deeper value might overflow the stack.
    pub(crate) fn is_too_deep(&self, value: &Value) -> bool {
        exceeds_depth(value, self.0.validator.max_value_depth())
    }

    /// Lists the validation errors of `value`, and subtracts the cost from `budget`. Returns `None`
    /// if the list could take too much time or memory to produce. The caller must first reject
    /// values for which `is_too_deep` returns `true`.
    pub(crate) fn errors<'v>(&'v self, value: &'v Value, budget: &mut u64) -> Option<Errors<'v>> {
        self.0.validator.errors(self.as_value(), value, budget)
    }
}

/// Checks and compiles the value as [`Schema::new`] does.
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
