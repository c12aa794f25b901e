use std::borrow::Cow;

use serde_json::{Map, Value};

use super::CallDetails;
use crate::{
    call::ToolError,
    lenient_json::parse_object,
    schema::{self, JsonText, JsonTextError, RepairPolicy},
    tool::ToolDefinition,
};

/// Parses the JSON text of `arguments`. Fails if the text is too long or is not valid
/// JSON, or if it has a number that cannot be held exactly. Empty or
/// blank text is repaired to `{}`, and other text is read [leniently](crate::lenient_json), unless
/// `policy` is strict.
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
    let problem = match arguments.value() {
        Ok(value) => return Ok(Cow::Borrowed(value)),
        Err(JsonTextError::InexactNumbers(numbers)) => numbers.to_string(),
        Err(error) => {
            let object = if policy == RepairPolicy::Strict { None } else { parse_object(arguments) };
            if let Some(object) = object {
                details.repairs.push(schema::Repair::lenient_json());
                return Ok(Cow::Owned(Value::Object(object)));
            }
            format!("{error}; write one JSON object")
        }
    };
    Err(ToolError::InvalidArguments(problem.into()))
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
