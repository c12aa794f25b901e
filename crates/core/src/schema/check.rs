//! The compiled side of a schema.

use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;

use super::error::{SchemaError, SchemaFault};
use super::{explain, preflight};

/// How many parts a value may have for all of its errors to be listed. Each part may have several, and they take
/// a hundred times the memory.
const LISTED_VALUES: usize = 10_000;

/// How values are held against a schema.
pub(super) enum Check {
    /// Any object fits. A tool without arguments needs no compiler, so that its schema cannot fail.
    AnyObject,
    /// The schema's own validator.
    Compiled(Validator),
}

impl Check {
    /// Compiles a schema that the preflight has let pass.
    pub(super) fn compile(schema: &Value, draft: Draft) -> Result<Self, SchemaError> {
        // Every reference stays within the document, so an identifier of the document has no use. With one, the
        // compiler would look references up under it, where a dialect's own schema may be found instead.
        let anonymous = without_id(schema);
        let options = jsonschema::options().with_draft(draft).should_validate_formats(true).offline();
        match options.build(anonymous.as_ref().unwrap_or(schema)) {
            Ok(validator) => Ok(Self::Compiled(validator)),
            Err(error) => Err(refused(schema, &error)),
        }
    }

    pub(super) fn is_valid(&self, value: &Value) -> bool {
        match self {
            Self::AnyObject => value.is_object(),
            Self::Compiled(validator) => validator.is_valid(value),
        }
    }

    /// Every error of a value, or only the first where there is room for very many; none if it is valid.
    pub(super) fn errors<'v>(&'v self, value: &'v Value) -> Vec<ValidationError<'v>> {
        match self {
            Self::AnyObject if value.is_object() => Vec::new(),
            Self::AnyObject => vec![ValidationError::custom("object")],
            Self::Compiled(validator) if preflight::is_larger(value, LISTED_VALUES) => {
                validator.validate(value).err().into_iter().collect()
            }
            Self::Compiled(validator) => validator.iter_errors(value).collect(),
        }
    }
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
    let words = violations.first().map_or_else(|| error.to_string(), |first| first.message().to_owned());
    SchemaError::new(pointer, SchemaFault::Invalid(words))
}
