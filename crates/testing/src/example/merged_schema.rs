use serde_json::{Map, Number, Value};

/// The schemas that apply to the same value, after references were followed and one alternative of
/// each `anyOf`, `oneOf` and `if` was selected.
#[derive(Default)]
pub(super) struct MergedSchema<'s> {
    pub(super) parts: Vec<&'s Map<String, Value>>,
    /// The memory addresses of the members of `dependentRequired`, `dependentSchemas` and
    /// `dependencies` that were already applied, so that none is applied twice.
    pub(super) applied_dependencies: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    Null,
}

const ALL_TYPES: [JsonType; 7] = [
    JsonType::String,
    JsonType::Object,
    JsonType::Array,
    JsonType::Integer,
    JsonType::Number,
    JsonType::Boolean,
    JsonType::Null,
];

impl<'s> MergedSchema<'s> {
    /// Returns the values of `keyword` in all merged schemas.
    pub(super) fn keyword_values(&self, keyword: &'s str) -> impl Iterator<Item = &'s Value> + Clone {
        self.parts.iter().filter_map(move |part| part.get(keyword))
    }

    /// Returns the largest value of `keyword` in the merged schemas, for a lower bound such as
    /// `minLength`. Returns 0 if no schema has the keyword.
    pub(super) fn lower_bound(&self, keyword: &'s str) -> usize {
        self.keyword_values(keyword).filter_map(parse_size).max().unwrap_or(0)
    }

    /// Returns the smallest value of `keyword` in the merged schemas, for an upper bound such as
    /// `maxLength`. `None` if no schema has the keyword.
    pub(super) fn upper_bound(&self, keyword: &'s str) -> Option<usize> {
        self.keyword_values(keyword).filter_map(parse_size).min()
    }

    /// Returns the values that all `enum`, `const` and `type` keywords allow. `None` if no merged
    /// schema has an `enum` or a `const`.
    pub(super) fn allowed_values(&self) -> Option<Vec<&'s Value>> {
        let lists = self.keyword_values("enum").filter_map(Value::as_array).map(|list| list.iter().collect());
        let mut lists = lists.chain(self.keyword_values("const").map(|only| vec![only]));
        let first: Vec<_> = lists.next()?;
        let mut options = lists.fold(first, |options: Vec<&Value>, list: Vec<&Value>| {
            options.into_iter().filter(|option| list.iter().any(|other| are_equal(option, other))).collect()
        });
        let types = self.allowed_types();
        options.retain(|option| !self.has_type() || types.iter().any(|json_type| json_type.matches(option)));
        Some(options)
    }

    fn has_type(&self) -> bool {
        self.keyword_values("type").next().is_some()
    }

    /// Returns the types that all `type` keywords allow, or all types if no schema has the keyword.
    /// `null` comes last.
    pub(super) fn allowed_types(&self) -> Vec<JsonType> {
        let mut lists = self.keyword_values("type").map(|value| match value {
            Value::Array(names) => names.iter().filter_map(JsonType::from_name).collect(),
            name => JsonType::from_name(name).into_iter().collect::<Vec<_>>(),
        });
        let mut types = match lists.next() {
            None => self.inferred_types(),
            Some(first) => lists.fold(first, |types, list| {
                // An integer is also a number, so the intersection of `integer` and `number` is
                // `integer`.
                let both = types
                    .iter()
                    .flat_map(|json_type| list.iter().filter_map(|other| json_type.intersect(*other)));
                both.collect()
            }),
        };
        types.sort_by_key(|json_type| *json_type == JsonType::Null);
        types
    }

    /// Returns all types, for schemas without the keyword `type`. The most likely type comes first,
    /// for example `number` if a schema has `minimum`.
    fn inferred_types(&self) -> Vec<JsonType> {
        let has_any = |keywords: &[&str]| {
            self.parts.iter().any(|part| keywords.iter().any(|it| part.contains_key(*it)))
        };
        let constrained = if has_any(&[
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "minProperties",
            "propertyNames",
        ]) {
            JsonType::Object
        } else if has_any(&["items", "prefixItems", "minItems", "contains", "uniqueItems"]) {
            JsonType::Array
        } else if has_any(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
            JsonType::Number
        } else {
            JsonType::String
        };
        let mut types = vec![constrained];
        types.extend(ALL_TYPES.into_iter().filter(|json_type| *json_type != constrained));
        types
    }
}

impl JsonType {
    fn from_name(name: &Value) -> Option<Self> {
        Some(match name.as_str()? {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "null" => Self::Null,
            _ => return None,
        })
    }

    fn intersect(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Integer, Self::Number) | (Self::Number, Self::Integer) => Some(Self::Integer),
            _ => (self == other).then_some(self),
        }
    }

    fn matches(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Null => value.is_null(),
        }
    }
}

/// Returns `true` if `left` and `right` are equal by the rules of JSON Schema, which compare
/// numbers by their value: `1` and `1.0` are equal, unlike in `serde_json`.
fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => are_equal_numbers(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| are_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| are_equal(value, other)))
        }
        _ => left == right,
    }
}

fn are_equal_numbers(left: &Number, right: &Number) -> bool {
    // A conversion to `f64` rounds integers above 2^53, so two integers are compared directly.
    if left.is_f64() || right.is_f64() { left.as_f64() == right.as_f64() } else { left == right }
}

/// Parses `value`, the value of a size keyword such as `minLength`. `None` if it is not a
/// non-negative integer.
pub(super) fn parse_size(value: &Value) -> Option<usize> {
    // JSON Schema allows a size to be written as `2.0`.
    let size = value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|it| it.fract() == 0.0 && (0.0..1e15).contains(it))
            .and_then(|it| format!("{it:.0}").parse().ok())
    });
    size.and_then(|size| usize::try_from(size).ok())
}
