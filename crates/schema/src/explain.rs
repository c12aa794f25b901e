//! Conversion of validation errors to [`Violation`]s, which a model reads to correct its call.

#[cfg(test)]
mod tests;
mod union;

use std::collections::HashSet;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Value};

use super::violation::{MAX_LISTED, Violation, Violations};
use super::{reference, union_guards, wording};

/// The minimum Jaro-Winkler similarity, from 0 to 1, at which a declared property is suggested in
/// place of an unknown property.
const MIN_SIMILARITY: f64 = 0.8;
/// The maximum length of a property name in the search for similar names, in bytes. The cost of a
/// comparison is quadratic in the length.
const MAX_COMPARED_BYTES: usize = 64;
/// The maximum nesting of `allOf`, `anyOf` and `oneOf` in the search for declared properties.
const MAX_LEVELS: usize = 8;

/// Converts `errors`, the validation errors of `value`, to violations without duplicates. After 20
/// violations, further violations are only counted.
pub(super) fn explain(schema: &Value, value: &Value, errors: &[ValidationError<'_>]) -> Violations {
    let explainer = Explainer { schema, value };
    let lists_values =
        |error: &&ValidationError<'_>| matches!(error.kind(), Kind::Enum { .. } | Kind::Constant { .. });
    let listed: HashSet<_> =
        errors.iter().filter(lists_values).map(|error| error.instance_path().as_str()).collect();
    // The violation for an `enum` or `const` lists the allowed values, so a type error at the same
    // location adds no information.
    let is_relevant = |error: &&ValidationError<'_>| {
        !matches!(error.kind(), Kind::Type { .. }) || !listed.contains(error.instance_path().as_str())
    };
    let mut seen = HashSet::new();
    let mut violations = Vec::new();
    let mut omitted = 0;
    for error in errors.iter().filter(is_relevant) {
        if violations.len() >= MAX_LISTED {
            omitted += explainer.violation_count(error);
            continue;
        }
        let found = explainer.explain_error(error);
        omitted += found.omitted_count();
        violations.extend(found.iter().filter(|violation| seen.insert((*violation).clone())).cloned());
    }
    // `errors` may be empty for an invalid value, because `is_valid` and `iter_errors` of the
    // `jsonschema` crate may disagree if a subschema and the root declare different dialects.
    if violations.is_empty() {
        violations.push(unspecified_violation(value));
    }
    Violations::new(violations, omitted)
}

/// Creates the violation for a value that is nested deeper than `levels` levels.
pub(super) fn too_deep_violation(levels: usize) -> Violation {
    Violation::mismatch("", format!("a value nested at most {levels} levels deep"), "a deeper one".to_owned())
}

/// Creates the violation for a `value` that cannot be checked within the cost budget.
pub(super) fn too_costly_violation(value: &Value) -> Violation {
    let expected = "a value that can be validated in reasonable time".to_owned();
    Violation::mismatch("", expected, wording::describe_value(value))
}

/// Creates a violation without details, for an invalid `value` whose errors cannot be listed.
pub(super) fn unspecified_violation(value: &Value) -> Violation {
    Violation::mismatch("", "a value that fits the schema".to_owned(), wording::describe_value(value))
}

/// A converter from the validation errors of `value` to violations. The descriptions of properties
/// are looked up in `schema`.
struct Explainer<'s> {
    schema: &'s Value,
    value: &'s Value,
}

impl Explainer<'_> {
    /// Estimates the number of violations for `error` without converting it: the number of unknown
    /// properties, or 1 for any other error.
    fn violation_count(&self, error: &ValidationError<'_>) -> usize {
        match error.kind() {
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                unexpected.len()
            }
            Kind::FalseSchema if self.rejects_names(error) => self.members(error).map_or(0, Map::len),
            _ => 1,
        }
    }

    fn explain_error(&self, error: &ValidationError<'_>) -> Violations {
        match error.kind() {
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                self.explain_unknown_properties(error, unexpected.iter())
            }
            Kind::FalseSchema if self.rejects_names(error) => {
                self.explain_unknown_properties(error, self.members(error).into_iter().flat_map(Map::keys))
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => self.explain_union(error, context),
            Kind::PropertyNames { error: inner } => self.explain_property_names(error, inner),
            kind => Violations::new(vec![self.explain_single(error, kind)], 0),
        }
    }

    /// Converts `error`, a failure of the keyword `kind`, to a single violation.
    fn explain_single(&self, error: &ValidationError<'_>, kind: &Kind) -> Violation {
        let pointer = error.instance_path().as_str();
        match kind {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let described = self
                    .declared_schema(error, name)
                    .map(|schema| wording::describe_schema(self.schema, schema));
                Violation::missing_property(pointer, name, described.as_deref())
            }
            // `SchemaValidator::AnyObject` creates the only custom error. The error does not
            // contain the invalid value, which is always the root.
            Kind::Custom { message, .. } => {
                Violation::mismatch(pointer, message.clone(), wording::describe_value(self.value))
            }
            kind => Violation::mismatch(
                pointer,
                self.describe_expected(error, kind),
                describe_received(error, kind),
            ),
        }
    }

    fn explain_property_names(&self, error: &ValidationError<'_>, inner: &ValidationError<'_>) -> Violations {
        let pointer = error.instance_path().as_str();
        let inner = self.explain_error(inner);
        let name = |it: &Violation| {
            let expected = format!("property names to be {}", it.expected);
            Violation::mismatch(pointer, expected, it.received.clone())
        };
        Violations::new(inner.iter().map(name).collect(), inner.omitted_count())
    }

    /// Describes the values that the failed keyword `kind` allows, for example `at least 1`.
    fn describe_expected(&self, error: &ValidationError<'_>, kind: &Kind) -> String {
        match kind {
            Kind::Type { kind } => describe_types(kind),
            Kind::Enum { options } => options
                .as_array()
                .map_or_else(|| wording::describe_constant(options), |all| wording::describe_one_of(all)),
            Kind::Constant { expected_value } => wording::describe_constant(expected_value),
            Kind::Format { format } => wording::describe_format(format),
            Kind::Pattern { pattern } => format!("string that matches the pattern {pattern}"),
            Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
                "string that can be matched with its pattern in reasonable time".to_owned()
            }
            Kind::Minimum { limit } => format!("at least {limit}"),
            Kind::Maximum { limit } => format!("at most {limit}"),
            Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
            Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
            Kind::MultipleOf { multiple_of } => format!("multiple of {multiple_of}"),
            Kind::MinLength { limit } => format!("at least {}", wording::pluralize(*limit, "character")),
            Kind::MaxLength { limit } => format!("at most {}", wording::pluralize(*limit, "character")),
            Kind::MinItems { limit } => format!("at least {}", wording::pluralize(*limit, "item")),
            Kind::MaxItems { limit } => format!("at most {}", wording::pluralize(*limit, "item")),
            Kind::AdditionalItems { limit } => {
                format!("at most {}", wording::pluralize(*limit as u64, "item"))
            }
            Kind::MinProperties { limit } => format!("at least {}", wording::pluralize(*limit, "property")),
            Kind::MaxProperties { limit } => format!("at most {}", wording::pluralize(*limit, "property")),
            Kind::UniqueItems => "array of items that all differ".to_owned(),
            Kind::UnevaluatedItems { .. } => "array without further items".to_owned(),
            Kind::Contains => self.describe_contains(error),
            Kind::Not { schema } => format!("anything but {}", wording::describe_schema(self.schema, schema)),
            Kind::OneOfMultipleValid { .. } => "value that fits exactly one alternative".to_owned(),
            Kind::FalseSchema => "no value here".to_owned(),
            Kind::ContentEncoding { content_encoding } => format!("text encoded as {content_encoding}"),
            Kind::ContentMediaType { content_media_type } => {
                format!("text of media type {content_media_type}")
            }
            Kind::FromUtf8 { .. } => "text encoded as UTF-8".to_owned(),
            Kind::Referencing(failure) => failure.to_string(),
            Kind::AdditionalProperties { .. }
            | Kind::UnevaluatedProperties { .. }
            | Kind::Required { .. }
            | Kind::AnyOf { .. }
            | Kind::OneOfNotValid { .. }
            | Kind::PropertyNames { .. }
            | Kind::Custom { .. } => "value that fits its schema".to_owned(),
        }
    }

    fn describe_contains(&self, error: &ValidationError<'_>) -> String {
        let schema = self.failed_schema(error);
        let keyword = |name| schema.and_then(|schema| schema.get(name));
        let item = keyword("contains")
            .map_or_else(|| "value".to_owned(), |it| wording::describe_schema(self.schema, it));
        let least = keyword("minContains").map_or_else(|| "1".to_owned(), Value::to_string);
        let most = keyword("maxContains").map(|most| format!(" and at most {most}")).unwrap_or_default();
        format!("array with at least {least}{most} of: {item}")
    }

    fn explain_unknown_properties<'n>(
        &self,
        error: &ValidationError<'_>,
        names: impl Iterator<Item = &'n String>,
    ) -> Violations {
        let pointer = error.instance_path().as_str();
        let known =
            self.failed_schema(error).map(|schema| known_names(self.schema, schema)).unwrap_or_default();
        let words = match known.len() {
            0 => "no properties are known".to_owned(),
            _ => format!("known properties: {}", wording::join_names(known.iter().copied())),
        };
        let mut names = names;
        let listed = names.by_ref().take(MAX_LISTED);
        let listed =
            listed.map(|name| Violation::unknown_property(pointer, name, nearest_name(name, &known), &words));
        let listed = listed.collect();
        Violations::new(listed, names.count())
    }

    /// Returns the members of the object that `error` is about, or `None` if the invalid value is
    /// not an object.
    fn members(&self, error: &ValidationError<'_>) -> Option<&Map<String, Value>> {
        self.value.pointer(error.instance_path().as_str())?.as_object()
    }

    /// Returns `true` if `error` means that a `false` schema in `additionalProperties`,
    /// `unevaluatedProperties` or `propertyNames` rejected the names of properties. Returns `false`
    /// if the rejected value is an empty object, because only a reference to the `false` schema can
    /// reject an object without names.
    fn rejects_names(&self, error: &ValidationError<'_>) -> bool {
        let keyword = error.schema_path().as_str().rsplit('/').next();
        let owner = self.failed_schema(error).is_some_and(Value::is_object);
        owner
            && matches!(keyword, Some("additionalProperties" | "unevaluatedProperties" | "propertyNames"))
            && self.members(error).is_some_and(|members| !members.is_empty())
    }

    /// Returns the schema of the property `name` if it is declared in the same schema object as the
    /// failed keyword of `error`. Returns `None` in any other case.
    fn declared_schema(&self, error: &ValidationError<'_>, name: &str) -> Option<&Value> {
        let (owner, _) = error.schema_path().as_str().rsplit_once('/')?;
        let owners = [Some(owner.to_owned()), union_guards::alternative_pointer(owner)];
        owners.into_iter().flatten().find_map(|owner| {
            let owner = reference::follow(self.schema, self.schema.pointer(&owner)?);
            owner.get("properties")?.get(name)
        })
    }

    /// Returns the subschema that contains the failed keyword of `error`. Returns `None` if the
    /// schema path of `error` does not exist in the schema.
    fn failed_schema(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (pointer, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(pointer)
    }
}

fn describe_received(error: &ValidationError<'_>, kind: &Kind) -> String {
    let words = wording::describe_value(error.instance());
    match (kind, error.instance().as_ref()) {
        (Kind::MinLength { .. }, Value::String(text)) => {
            format!("{words} ({})", wording::pluralize(text.chars().count() as u64, "character"))
        }
        (Kind::OneOfMultipleValid { .. }, _) => format!("{words}, which fits several"),
        _ => words,
    }
}

fn describe_types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(single) => single.as_str().to_owned(),
        TypeKind::Multiple(several) => {
            // `integer or null` reads better than `null or integer`.
            let (null, others): (Vec<_>, Vec<_>) = several.iter().partition(|it| *it == JsonType::Null);
            wording::join_with_or(others.into_iter().chain(null).map(|it| it.as_str().to_owned()))
        }
    }
}

/// Returns the name in `known` that is most similar to `name`, or `None` if no name reaches
/// [`MIN_SIMILARITY`]. Names longer than [`MAX_COMPARED_BYTES`] are not compared.
fn nearest_name<'k>(name: &str, known: &[&'k String]) -> Option<&'k str> {
    let comparable = |it: &str| it.len() <= MAX_COMPARED_BYTES;
    let known = known.iter().filter(|it| comparable(name) && comparable(it));
    let alike = known.map(|it| (strsim::jaro_winkler(name, it), it.as_str()));
    let best = alike.filter(|(score, _)| *score >= MIN_SIMILARITY).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, it)| it)
}

/// Returns the names of the properties that `schema` declares, either directly or in nested
/// `allOf`, `anyOf` and `oneOf`. References are resolved in `root`. Properties with the schema
/// `false` are omitted.
fn known_names<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s String> {
    let mut seen_names = HashSet::new();
    let mut names = Vec::new();
    let mut open = vec![(schema, MAX_LEVELS)];
    let mut visited = HashSet::new();
    while let Some((schema, levels)) = open.pop() {
        let schema = reference::follow(root, schema);
        if !visited.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let allowed = properties.filter(|(_, allowed)| *allowed != &Value::Bool(false)).map(|(name, _)| name);
        names.extend(allowed.filter(|name| seen_names.insert(name.as_str())));
        if levels > 0 {
            let parts = ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
            let parts = parts.flatten().map(|part| (union_guards::original_alternative(part), levels - 1));
            let parts: Vec<_> = parts.collect();
            open.extend(parts.into_iter().rev());
        }
    }
    names
}
