//! The compiled side of a schema.

use std::sync::OnceLock;

use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;

use super::error::{SchemaError, SchemaFault};
use super::guarded::guarded;
use super::{explain, preflight};

/// How many parts a value may have for all of its errors to be listed. Each part may have several, and they take
/// a hundred times the memory.
const LISTED_VALUES: usize = 10_000;

/// How values are held against a schema.
pub(super) enum Check {
    /// Any object fits. A tool without arguments needs no compiler, so that its schema cannot fail.
    AnyObject,
    /// The schema's own validator.
    Compiled(Box<Compiled>),
}

pub(super) struct Compiled {
    draft: Draft,
    validator: Validator,
    /// What lists errors instead, where the validator might take too long. Compiled when the first value fails.
    guarded: OnceLock<Option<(Value, Validator)>>,
}

/// The errors of one value, and the schema that they point into.
pub(super) struct Errors<'v> {
    pub(super) schema: &'v Value,
    pub(super) errors: Vec<ValidationError<'v>>,
}

impl Check {
    /// Compiles a schema that the preflight has let pass.
    pub(super) fn compile(schema: &Value, draft: Draft) -> Result<Self, SchemaError> {
        let validator = compile(schema, draft).map_err(|error| refused(schema, &error))?;
        Ok(Self::Compiled(Box::new(Compiled { draft, validator, guarded: OnceLock::new() })))
    }

    /// Compiles another schema in the dialect of this one.
    pub(super) fn of_same_draft(&self, schema: &Value) -> Result<Self, SchemaError> {
        let draft = match self {
            Self::AnyObject => Draft::Draft202012,
            Self::Compiled(compiled) => compiled.draft,
        };
        Self::compile(schema, draft)
    }

    pub(super) fn is_valid(&self, value: &Value) -> bool {
        match self {
            Self::AnyObject => value.is_object(),
            Self::Compiled(compiled) => compiled.validator.is_valid(value),
        }
    }

    /// Every error of a value, or only the first where there is room for very many; none if it is valid.
    pub(super) fn errors<'v>(&'v self, schema: &'v Value, value: &'v Value) -> Errors<'v> {
        match self {
            Self::AnyObject if value.is_object() => Errors { schema, errors: Vec::new() },
            Self::AnyObject => Errors { schema, errors: vec![ValidationError::custom("object")] },
            Self::Compiled(compiled) => compiled.errors(schema, value),
        }
    }
}

impl Compiled {
    fn errors<'v>(&'v self, schema: &'v Value, value: &'v Value) -> Errors<'v> {
        let guarded = self.guarded.get_or_init(|| {
            let guarded = guarded(schema)?;
            let validator = compile(&guarded, self.draft).ok()?;
            Some((guarded, validator))
        });
        let (schema, validator) =
            guarded.as_ref().map_or((schema, &self.validator), |(schema, it)| (schema, it));
        let errors = if preflight::is_larger(value, LISTED_VALUES) {
            validator.validate(value).err().into_iter().collect()
        } else {
            validator.iter_errors(value).collect()
        };
        Errors { schema, errors }
    }
}

fn compile(schema: &Value, draft: Draft) -> Result<Validator, ValidationError<'static>> {
    // Every reference stays within the document, so an identifier of the document has no use. With one, the compiler
    // would look references up under it, where a dialect's own schema may be found instead.
    let anonymous = without_id(schema);
    let options = jsonschema::options().with_draft(draft).should_validate_formats(true).offline();
    options.build(anonymous.as_ref().unwrap_or(schema))
}

/// The schema without the identifier of its root, unless that is a mere anchor.
fn without_id(schema: &Value) -> Option<Value> {
    let is_id = |id: &Value| id.as_str().is_none_or(|id| !id.starts_with('#'));
    let mut anonymous = schema.as_object().filter(|root| root.get("$id").is_some_and(is_id))?.clone();
    anonymous.shift_remove("$id");
    Some(Value::Object(anonymous))
}

/// The compiler's refusal, as a violation of what a schema must be.
fn refused(schema: &Value, error: &ValidationError<'_>) -> SchemaError {
    let pointer = error.instance_path().as_str();
    let violations = explain::explain(&Value::Null, schema, std::slice::from_ref(error));
    let words = violations.as_slice().first().map_or_else(|| error.to_string(), |first| first.message().to_owned());
    SchemaError::new(pointer, SchemaFault::Invalid(words))
}
