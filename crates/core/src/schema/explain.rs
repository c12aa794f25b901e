//! The validator's errors in words that a model can act on.

#[cfg(test)]
mod tests;
mod union;

use std::collections::HashSet;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use super::violation::Violation;
use super::{describe, guarded, reference};

/// How alike two names must be for one to be suggested, from 0 to 1.
const ALIKE: f64 = 0.8;
/// How far the properties of an object are gathered from what its schema consists of.
const LEVELS: usize = 8;

/// All errors of one value, each once.
pub(super) fn explain(schema: &Value, value: &Value, errors: &[ValidationError<'_>]) -> Vec<Violation> {
    let explainer = Explainer { schema, value };
    let lists_values =
        |error: &&ValidationError<'_>| matches!(error.kind(), Kind::Enum { .. } | Kind::Constant { .. });
    let listed: HashSet<_> =
        errors.iter().filter(lists_values).map(|error| error.instance_path().as_str()).collect();
    // Where the allowed values are listed, their type is no news.
    let is_news = |error: &&ValidationError<'_>| {
        !matches!(error.kind(), Kind::Type { .. }) || !listed.contains(error.instance_path().as_str())
    };
    let mut told = HashSet::new();
    let violations = errors.iter().filter(is_news).flat_map(|error| explainer.violations(error));
    violations.filter(|violation| told.insert(violation.clone())).collect()
}

/// The violation of a value that is nested too deep to be looked at.
pub(super) fn too_deep(levels: usize) -> Violation {
    Violation::mismatch("", format!("a value nested at most {levels} levels deep"), "a deeper one".to_owned())
}

struct Explainer<'s> {
    schema: &'s Value,
    value: &'s Value,
}

impl Explainer<'_> {
    fn violations(&self, error: &ValidationError<'_>) -> Vec<Violation> {
        let pointer = error.instance_path().as_str();
        match error.kind() {
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                unexpected.iter().map(|name| self.unknown(error, name)).collect()
            }
            Kind::FalseSchema if self.refuses_names(error) => {
                let object = self.value.pointer(pointer).and_then(Value::as_object);
                object.into_iter().flatten().map(|(name, _)| self.unknown(error, name)).collect()
            }
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let described =
                    self.declared(error, name).map(|schema| describe::schema(self.schema, schema));
                vec![Violation::missing(pointer, name, described.as_deref())]
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => self.union(error, context),
            Kind::PropertyNames { error: inner } => {
                let inner = self.violations(inner);
                let name = |it: Violation| {
                    Violation::mismatch(pointer, format!("property names to be {}", it.expected), it.received)
                };
                inner.into_iter().map(name).collect()
            }
            // The validator did not see the value.
            Kind::Custom { message, .. } => {
                vec![Violation::mismatch(pointer, message.clone(), describe::received(self.value))]
            }
            kind => vec![Violation::mismatch(pointer, self.expected(error, kind), received(error, kind))],
        }
    }

    /// What the schema asks for, where that is a property of the value itself.
    fn expected(&self, error: &ValidationError<'_>, kind: &Kind) -> String {
        match kind {
            Kind::Type { kind } => types(kind),
            Kind::Enum { options } => {
                options.as_array().map_or_else(|| describe::literal(options), |all| describe::one_of(all))
            }
            Kind::Constant { expected_value } => describe::literal(expected_value),
            Kind::Format { format } => describe::format(format),
            Kind::Pattern { pattern } => format!("string that matches the pattern {pattern}"),
            Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
                "string that can be matched with its pattern in reasonable time".to_owned()
            }
            Kind::Minimum { limit } => format!("at least {limit}"),
            Kind::Maximum { limit } => format!("at most {limit}"),
            Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
            Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
            Kind::MultipleOf { multiple_of } => format!("multiple of {multiple_of}"),
            Kind::MinLength { limit } => format!("at least {}", describe::count(*limit, "character")),
            Kind::MaxLength { limit } => format!("at most {}", describe::count(*limit, "character")),
            Kind::MinItems { limit } => format!("at least {}", describe::count(*limit, "item")),
            Kind::MaxItems { limit } => format!("at most {}", describe::count(*limit, "item")),
            Kind::AdditionalItems { limit } => format!("at most {}", describe::count(*limit as u64, "item")),
            Kind::MinProperties { limit } => format!("at least {}", describe::count(*limit, "property")),
            Kind::MaxProperties { limit } => format!("at most {}", describe::count(*limit, "property")),
            Kind::UniqueItems => "array of items that all differ".to_owned(),
            Kind::UnevaluatedItems { .. } => "array without further items".to_owned(),
            Kind::Contains => self.contains(error),
            Kind::Not { schema } => format!("anything but {}", describe::schema(self.schema, schema)),
            Kind::OneOfMultipleValid { .. } => "value that fits exactly one alternative".to_owned(),
            Kind::FalseSchema => "no value here".to_owned(),
            Kind::ContentEncoding { content_encoding } => format!("text encoded as {content_encoding}"),
            Kind::ContentMediaType { content_media_type } => {
                format!("text of media type {content_media_type}")
            }
            Kind::FromUtf8 { .. } => "encoded text of UTF-8".to_owned(),
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

    fn contains(&self, error: &ValidationError<'_>) -> String {
        let parent = self.parent(error);
        let keyword = |name| parent.and_then(|parent| parent.get(name));
        let item =
            keyword("contains").map_or_else(|| "value".to_owned(), |it| describe::schema(self.schema, it));
        let least = keyword("minContains").map_or_else(|| "1".to_owned(), Value::to_string);
        let most = keyword("maxContains").map(|most| format!(" and at most {most}")).unwrap_or_default();
        format!("array with at least {least}{most} of: {item}")
    }

    fn unknown(&self, error: &ValidationError<'_>, name: &str) -> Violation {
        let mut known = Vec::new();
        if let Some(parent) = self.parent(error) {
            gather_names(self.schema, parent, LEVELS, &mut known);
        }
        let words = match known.len() {
            0 => "no properties are known".to_owned(),
            _ => format!("known properties: {}", describe::names(known.iter().copied())),
        };
        let alike = known.iter().map(|it| (strsim::jaro_winkler(name, it), it.as_str()));
        let best = alike.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
        Violation::unknown(error.instance_path().as_str(), name, best.map(|(_, it)| it), &words)
    }

    /// Whether the failed `false` stands for all properties that are not declared, rather than for a value.
    fn refuses_names(&self, error: &ValidationError<'_>) -> bool {
        let keyword = error.schema_path().as_str().rsplit('/').next();
        let owner = self.parent(error).is_some_and(Value::is_object);
        owner
            && matches!(keyword, Some("additionalProperties" | "unevaluatedProperties" | "propertyNames"))
            && self.value.pointer(error.instance_path().as_str()).is_some_and(Value::is_object)
    }

    /// The schema of a property, as the subschema declares it whose keyword failed.
    fn declared(&self, error: &ValidationError<'_>, name: &str) -> Option<&Value> {
        let (owner, _) = error.schema_path().as_str().rsplit_once('/')?;
        let owners = [Some(owner.to_owned()), guarded::alternative_at(owner)];
        owners.into_iter().flatten().find_map(|owner| {
            let owner = reference::follow(self.schema, self.schema.pointer(&owner)?);
            owner.get("properties")?.get(name)
        })
    }

    /// The subschema whose keyword failed.
    fn parent(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(parent)
    }
}

fn received(error: &ValidationError<'_>, kind: &Kind) -> String {
    let words = describe::received(error.instance());
    match (kind, error.instance().as_ref()) {
        (Kind::MinLength { .. }, Value::String(text)) => {
            format!("{words} ({})", describe::count(text.chars().count() as u64, "character"))
        }
        (Kind::OneOfMultipleValid { .. }, _) => format!("{words}, which fits several"),
        _ => words,
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(single) => single.as_str().to_owned(),
        TypeKind::Multiple(several) => {
            // What else is allowed reads better after what is meant.
            let (null, meant): (Vec<_>, Vec<_>) = several.iter().partition(|it| *it == JsonType::Null);
            describe::either(meant.into_iter().chain(null).map(|it| it.as_str().to_owned()))
        }
    }
}

/// The properties that an object may have by one schema and by those that it consists of.
fn gather_names<'s>(root: &'s Value, schema: &'s Value, levels: usize, names: &mut Vec<&'s String>) {
    let schema = reference::follow(root, schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, allowed) in properties.into_iter().flatten() {
        if allowed != &Value::Bool(false) && !names.contains(&name) {
            names.push(name);
        }
    }
    if levels > 0 {
        let parts =
            ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
        parts.for_each(|part| gather_names(root, guarded::alternative(part), levels - 1, names));
    }
}
