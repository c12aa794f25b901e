use std::borrow::Cow;

use serde_json::{Map, Value};

use super::CallDetails;
use crate::{
    call::ToolError,
    schema::{self, JsonText, JsonTextError, RepairPolicy},
    tool::ToolDefinition,
};

/// Parses the JSON text of `arguments`. Fails if the text is too long or is not valid
/// JSON, or if it has a number that cannot be held exactly. Empty or
/// blank text is repaired to `{}`, unless `policy` is strict.
pub(super) fn parse<'a>(
    arguments: &'a JsonText,
    policy: RepairPolicy,
    details: &mut CallDetails<'_>,
) -> Result<Cow<'a, Value>, ToolError> {
    let max_bytes = details.max_argument_bytes;
    if arguments.len() > max_bytes {
        let reason = format!("{} bytes are too many, at most {max_bytes} are read", arguments.len());
        return Err(ToolError::InvalidArguments(reason.into()));
    }
    if arguments.trim().is_empty() && policy != RepairPolicy::Strict {
        details.repairs.push(schema::Repair::no_arguments());
        return Ok(Cow::Owned(Value::Object(Map::new())));
    }
    arguments.value().map(Cow::Borrowed).map_err(|error| {
        ToolError::InvalidArguments(Cow::Owned(match error {
            JsonTextError::InexactNumbers(numbers) => numbers.to_string(),
            error => format!("{error}; write one JSON object"),
        }))
    })
}

/// Validates `arguments` against the input schema of the tool. Invalid arguments are repaired, as
/// far as `policy` allows, and validated again. Returns the valid arguments, or fails with the
/// violations.
pub(super) fn repair_and_validate<'a>(
    definition: &ToolDefinition,
    arguments: Cow<'a, Value>,
    policy: RepairPolicy,
    details: &mut CallDetails<'_>,
) -> Result<Cow<'a, Value>, ToolError> {
    let schema = definition.input_schema();
    if schema.is_valid(&arguments) {
        return Ok(arguments);
    }
    let (arguments, repairs) = schema::repair(schema, arguments.into_owned(), policy);
    if let Err(violations) = schema.validate(&arguments) {
        // The arguments are still invalid after the repairs, so the result lists no repairs.
        details.repairs.clear();
        return Err(violations.into());
    }
    details.repairs.extend(repairs);
    Ok(Cow::Owned(arguments))
}
