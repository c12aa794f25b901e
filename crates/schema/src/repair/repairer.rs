//! Repair of nested values, based on their validation errors.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::super::exact_json::{inexact_literal, parse_json};
use super::super::validator::ERROR_BUDGET;
use super::super::{Schema, json_type};
use super::{Repair, RepairKind};

/// The maximum number of validations in the repair of one value. Each attempt to repair an
/// alternative of a union takes at least one validation.
const MAX_ATTEMPTS: usize = 100;

/// The state of a search for changes that make a value valid.
pub(super) struct Repairer<'s> {
    schema: &'s Schema,
    attempts_left: usize,
    /// The remaining budget for all validations of this search, in the unit of `ValidationCost`.
    budget: u64,
}

/// A single change that may repair a validation error.
#[derive(Debug, Clone, PartialEq)]
enum Fix {
    /// Replaces the string at `pointer` with `parsed`, the JSON value parsed from the string.
    ParseString { pointer: String, parsed: Value },
    /// Removes the property at `pointer`, for the reason `kind`.
    Drop { pointer: String, kind: RepairKind },
}

/// A way to repair one validation error.
enum Remedy<'e> {
    Fix(Fix),
    /// The repair of all errors of one alternative of a union (`anyOf` or `oneOf`). `alternatives`
    /// contains the errors of each alternative for the value at `pointer`.
    Union {
        pointer: &'e str,
        alternatives: &'e [Vec<ValidationError<'static>>],
    },
}

impl<'s> Repairer<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self { schema, attempts_left: MAX_ATTEMPTS, budget: ERROR_BUDGET }
    }

    /// Repairs the errors of `value` at or below the JSON pointer `scope`. Returns the repaired
    /// value and its repairs. Returns `None` if an error cannot be repaired, or if the limits of
    /// this search are exceeded.
    pub(super) fn repair(&mut self, value: Value, scope: &str) -> Option<(Value, Vec<Repair>)> {
        self.attempts_left = self.attempts_left.checked_sub(1)?;
        if self.schema.is_too_deep(&value) {
            return None;
        }
        let errors = self.schema.errors(&value, &mut self.budget)?.errors;
        let errors = errors.iter().filter(|error| is_within(scope, error.instance_path().as_str()));
        let remedies: Vec<_> =
            errors.map(|error| remedy_for(self.schema, &value, error)).collect::<Option<_>>()?;
        if remedies.is_empty() {
            return Some((value, Vec::new()));
        }
        let fixes: Vec<_> = remedies.iter().filter_map(Remedy::fix).collect();
        if fixes.is_empty() {
            return self.repair_union(&value, scope, &remedies);
        }
        self.apply_and_repair(value.clone(), scope, fixes)
    }

    /// Repairs the first union in `remedies` with its first alternative that can be repaired, and
    /// then the remaining errors at or below `scope`. Returns the repaired value and its repairs,
    /// or `None` if no alternative can be repaired.
    fn repair_union(
        &mut self,
        value: &Value,
        scope: &str,
        remedies: &[Remedy<'_>],
    ) -> Option<(Value, Vec<Repair>)> {
        let (pointer, alternatives) = remedies.iter().find_map(Remedy::union)?;
        for errors in alternatives {
            let Some(fixes) = fixes_for(self.schema, value, errors) else { continue };
            let Some((repaired, mut repairs)) = self.apply_and_repair(value.clone(), pointer, fixes) else {
                continue;
            };
            if let Some((repaired, more)) = self.repair(repaired, scope) {
                repairs.extend(more);
                return Some((repaired, repairs));
            }
        }
        None
    }

    /// Applies `fixes` to `value`, and then repairs the remaining errors at or below `scope`.
    /// Returns the repaired value and its repairs. Returns `None` if an error cannot be repaired,
    /// or if `fixes` change nothing.
    fn apply_and_repair(
        &mut self,
        mut value: Value,
        scope: &str,
        fixes: Vec<Fix>,
    ) -> Option<(Value, Vec<Repair>)> {
        let mut repairs: Vec<_> = fixes.into_iter().filter_map(|fix| apply_fix(&mut value, fix)).collect();
        if repairs.is_empty() {
            return None;
        }
        let (repaired, more) = self.repair(value, scope)?;
        repairs.extend(more);
        Some((repaired, repairs))
    }
}

impl<'e> Remedy<'e> {
    fn fix(&self) -> Option<Fix> {
        match self {
            Self::Fix(fix) => Some(fix.clone()),
            Self::Union { .. } => None,
        }
    }

    fn union(&self) -> Option<(&'e str, &'e [Vec<ValidationError<'static>>])> {
        match self {
            Self::Fix(_) => None,
            Self::Union { pointer, alternatives } => Some((pointer, alternatives)),
        }
    }
}

/// Returns the remedy for `error`, or `None` if the error cannot be repaired.
fn remedy_for<'e>(schema: &Schema, value: &Value, error: &'e ValidationError<'_>) -> Option<Remedy<'e>> {
    let pointer = error.instance_path().as_str();
    match (value.pointer(pointer)?, error.kind()) {
        (Value::Null, _) => is_member(value, pointer)
            .then(|| Remedy::Fix(Fix::Drop { pointer: pointer.to_owned(), kind: RepairKind::DroppedNull })),
        (
            Value::Object(members),
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected },
        ) => {
            let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
            let keywords = schema.as_value().pointer(parent)?.as_object()?;
            let is_copy =
                |name: &String| keywords.contains_key(name) && keywords.get(name) == members.get(name);
            let name = unexpected.first().filter(|_| unexpected.iter().all(is_copy))?;
            // The remaining names are errors of the next pass.
            let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            Some(Remedy::Fix(Fix::Drop { pointer, kind: RepairKind::DroppedKeyword }))
        }
        (_, Kind::AnyOf { context } | Kind::OneOfNotValid { context }) => {
            Some(Remedy::Union { pointer, alternatives: context })
        }
        (Value::String(text), kind) => {
            let parsed = parse_non_string(text).filter(|parsed| satisfies_keyword(parsed, kind))?;
            Some(Remedy::Fix(Fix::ParseString { pointer: pointer.to_owned(), parsed }))
        }
        _ => None,
    }
}

/// Returns the fixes for `errors`, the errors of one alternative. For a nested union, returns the
/// fixes of its first alternative that can be repaired. Returns `None` if an error cannot be
/// repaired.
fn fixes_for(schema: &Schema, value: &Value, errors: &[ValidationError<'_>]) -> Option<Vec<Fix>> {
    let mut all = Vec::new();
    for error in errors {
        match remedy_for(schema, value, error)? {
            Remedy::Fix(fix) => all.push(fix),
            Remedy::Union { alternatives, .. } => {
                all.extend(alternatives.iter().find_map(|errors| fixes_for(schema, value, errors))?);
            }
        }
    }
    Some(all)
}

/// Applies `fix` to `value` and returns the repair. Returns `None` if the fix was already applied,
/// for example because two keywords require the same fix.
fn apply_fix(value: &mut Value, fix: Fix) -> Option<Repair> {
    match fix {
        Fix::ParseString { pointer, parsed } => {
            let place = value.pointer_mut(&pointer).filter(|place| place.is_string())?;
            let spells = json_type(&parsed).to_owned();
            *place = parsed;
            Some(Repair { pointer, kind: RepairKind::ReadString { spells } })
        }
        Fix::Drop { pointer, kind } => {
            let (parent, key) = pointer.rsplit_once('/')?;
            let members = value.pointer_mut(parent)?.as_object_mut()?;
            members.shift_remove(&key.replace("~1", "/").replace("~0", "~"))?;
            Some(Repair { pointer, kind })
        }
    }
}

/// Parses `text` as JSON. Returns `None` if `text` is not valid JSON, is a JSON string, or is a
/// number that cannot be held exactly.
fn parse_non_string(text: &str) -> Option<Value> {
    let parsed = parse_json(text.trim()).ok().filter(|parsed| !parsed.is_string())?;
    inexact_literal(&parsed).is_none().then_some(parsed)
}

/// Returns `true` if `value` would satisfy the failed keyword `kind`. Only `type`, `enum` and
/// `const` are evaluated. Returns `false` for any other keyword.
fn satisfies_keyword(value: &Value, kind: &Kind) -> bool {
    match kind {
        Kind::Type { kind: TypeKind::Single(wanted) } => has_type(value, JsonTypeSet::from(*wanted)),
        Kind::Type { kind: TypeKind::Multiple(wanted) } => has_type(value, *wanted),
        Kind::Enum { options } => options.as_array().is_some_and(|options| options.contains(value)),
        Kind::Constant { expected_value } => **expected_value == *value,
        _ => false,
    }
}

fn has_type(value: &Value, wanted: JsonTypeSet) -> bool {
    let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    wanted.contains(JsonType::from(value)) || (is_whole && wanted.contains(JsonType::Integer))
}

fn is_member(value: &Value, pointer: &str) -> bool {
    let parent = pointer.rsplit_once('/').and_then(|(parent, _)| value.pointer(parent));
    parent.is_some_and(Value::is_object)
}

/// Returns `true` if the JSON pointer `pointer` is equal to `scope` or below it.
fn is_within(scope: &str, pointer: &str) -> bool {
    pointer.strip_prefix(scope).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
