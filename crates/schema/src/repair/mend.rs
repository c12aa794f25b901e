//! Repairs inside a value, driven by what the validator holds against it.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::super::check::LISTING;
use super::super::{Schema, describe};
use super::{Repair, RepairKind};

/// How often one value is validated to find its repairs. Each alternative of a union that is tried counts.
const ATTEMPTS: usize = 100;

/// Looks for the repairs of one value.
pub(super) struct Mender<'s> {
    schema: &'s Schema,
    attempts: usize,
    /// What is left for all of them together.
    effort: u64,
}

/// One change that might help.
#[derive(Debug, Clone, PartialEq)]
enum Fix {
    /// Puts what the string spells in its place.
    Read { pointer: String, spelled: Value },
    /// Drops a property whose value is `null`.
    Drop { pointer: String },
}

/// What could make the errors of one value go away.
enum Remedy<'e> {
    Fix(Fix),
    /// The errors of each alternative of a union: it is enough to mend one.
    Choice {
        pointer: &'e str,
        alternatives: &'e [Vec<ValidationError<'static>>],
    },
}

impl<'s> Mender<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self { schema, attempts: ATTEMPTS, effort: LISTING }
    }

    /// The value without errors at `scope` and below, or `None` if one of them has no remedy.
    pub(super) fn mend(&mut self, value: Value, scope: &str) -> Option<(Value, Vec<Repair>)> {
        self.attempts = self.attempts.checked_sub(1)?;
        if self.schema.is_too_deep(&value) {
            return None;
        }
        let errors = self.schema.errors(&value, &mut self.effort)?.errors;
        let errors = errors.iter().filter(|error| is_within(scope, error.instance_path().as_str()));
        let remedies: Vec<_> = errors.map(|error| remedy(&value, error)).collect::<Option<_>>()?;
        if remedies.is_empty() {
            return Some((value, Vec::new()));
        }
        let fixes: Vec<_> = remedies.iter().filter_map(Remedy::fix).collect();
        if fixes.is_empty() {
            return self.mend_choice(&value, scope, &remedies);
        }
        self.mend_after(value.clone(), scope, fixes)
    }

    /// Mends the first union in the scope by the first alternative that can be mended, and then the rest.
    fn mend_choice(
        &mut self,
        value: &Value,
        scope: &str,
        remedies: &[Remedy<'_>],
    ) -> Option<(Value, Vec<Repair>)> {
        let (pointer, alternatives) = remedies.iter().find_map(Remedy::choice)?;
        for errors in alternatives {
            let Some(fixes) = fixes(value, errors) else { continue };
            let Some((mended, mut repairs)) = self.mend_after(value.clone(), pointer, fixes) else {
                continue;
            };
            if let Some((mended, more)) = self.mend(mended, scope) {
                repairs.extend(more);
                return Some((mended, repairs));
            }
        }
        None
    }

    /// Applies some fixes, and mends what they leave.
    fn mend_after(&mut self, mut value: Value, scope: &str, fixes: Vec<Fix>) -> Option<(Value, Vec<Repair>)> {
        let mut repairs: Vec<_> = fixes.into_iter().filter_map(|fix| apply(&mut value, fix)).collect();
        if repairs.is_empty() {
            return None;
        }
        let (mended, more) = self.mend(value, scope)?;
        repairs.extend(more);
        Some((mended, repairs))
    }
}

impl<'e> Remedy<'e> {
    fn fix(&self) -> Option<Fix> {
        match self {
            Self::Fix(fix) => Some(fix.clone()),
            Self::Choice { .. } => None,
        }
    }

    fn choice(&self) -> Option<(&'e str, &'e [Vec<ValidationError<'static>>])> {
        match self {
            Self::Fix(_) => None,
            Self::Choice { pointer, alternatives } => Some((pointer, alternatives)),
        }
    }
}

/// What could make an error go away.
fn remedy<'e>(value: &Value, error: &'e ValidationError<'_>) -> Option<Remedy<'e>> {
    let pointer = error.instance_path().as_str();
    match (value.pointer(pointer)?, error.kind()) {
        (Value::Null, _) => {
            is_member(value, pointer).then(|| Remedy::Fix(Fix::Drop { pointer: pointer.to_owned() }))
        }
        (_, Kind::AnyOf { context } | Kind::OneOfNotValid { context }) => {
            Some(Remedy::Choice { pointer, alternatives: context })
        }
        (Value::String(text), kind) => {
            let spelled = spelled(text).filter(|spelled| is_wanted(spelled, kind))?;
            Some(Remedy::Fix(Fix::Read { pointer: pointer.to_owned(), spelled }))
        }
        _ => None,
    }
}

/// The fixes for all errors of one alternative. Of a union within it, the first alternative that has fixes.
fn fixes(value: &Value, errors: &[ValidationError<'_>]) -> Option<Vec<Fix>> {
    let mut all = Vec::new();
    for error in errors {
        match remedy(value, error)? {
            Remedy::Fix(fix) => all.push(fix),
            Remedy::Choice { alternatives, .. } => {
                all.extend(alternatives.iter().find_map(|errors| fixes(value, errors))?);
            }
        }
    }
    Some(all)
}

/// Makes one change. The same fix may be there twice, where two keywords ask for it.
fn apply(value: &mut Value, fix: Fix) -> Option<Repair> {
    match fix {
        Fix::Read { pointer, spelled } => {
            let place = value.pointer_mut(&pointer).filter(|place| place.is_string())?;
            let spells = describe::kind(&spelled).to_owned();
            *place = spelled;
            Some(Repair { pointer, kind: RepairKind::ReadString { spells } })
        }
        Fix::Drop { pointer } => {
            let (parent, key) = pointer.rsplit_once('/')?;
            let members = value.pointer_mut(parent)?.as_object_mut()?;
            members.shift_remove(&key.replace("~1", "/").replace("~0", "~"))?;
            Some(Repair { pointer, kind: RepairKind::DroppedNull })
        }
    }
}

/// The JSON that a string spells, if that is something else than a string and nothing of it is lost.
fn spelled(text: &str) -> Option<Value> {
    let text = text.trim();
    let spelled = serde_json::from_str(text).ok().filter(|spelled: &Value| !spelled.is_string())?;
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    (!(is_whole && spelled.is_f64())).then_some(spelled)
}

/// Whether a value is what an error asks for.
fn is_wanted(value: &Value, kind: &Kind) -> bool {
    match kind {
        Kind::Type { kind: TypeKind::Single(wanted) } => is_of(value, JsonTypeSet::from(*wanted)),
        Kind::Type { kind: TypeKind::Multiple(wanted) } => is_of(value, *wanted),
        Kind::Enum { options } => options.as_array().is_some_and(|options| options.contains(value)),
        Kind::Constant { expected_value } => **expected_value == *value,
        _ => false,
    }
}

fn is_of(value: &Value, wanted: JsonTypeSet) -> bool {
    let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    wanted.contains(JsonType::from(value)) || (is_whole && wanted.contains(JsonType::Integer))
}

fn is_member(value: &Value, pointer: &str) -> bool {
    let parent = pointer.rsplit_once('/').and_then(|(parent, _)| value.pointer(parent));
    parent.is_some_and(Value::is_object)
}

/// Whether a JSON pointer is another one or leads on from there.
fn is_within(scope: &str, pointer: &str) -> bool {
    pointer.strip_prefix(scope).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
