//! Where the subschemas of a schema are.

use serde_json::Value;

use super::super::reference::join;

/// Which value a subschema applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schema) enum Place {
    /// The same value as the schema that contains it.
    Here,
    /// A part of that value, or nothing until it is referred to.
    Elsewhere,
}

/// The subschemas under one keyword, with their pointers. Values that cannot be schemas are left to the compiler.
pub(in crate::schema) fn subschemas<'s>(
    pointer: &str,
    keyword: &str,
    value: &'s Value,
) -> Option<(Place, Vec<(String, &'s Value)>)> {
    let (place, is_map) = place_of(keyword)?;
    let pointer = join(pointer, keyword);
    let found = match value {
        Value::Object(members) if is_map => {
            members.iter().map(|(name, member)| (join(&pointer, name), member)).collect()
        }
        Value::Array(items) if !is_map => {
            items.iter().enumerate().map(|(index, item)| (join(&pointer, &index.to_string()), item)).collect()
        }
        Value::Object(_) if !is_map => vec![(pointer, value)],
        _ => Vec::new(),
    };
    Some((place, found.into_iter().filter(|(_, found)| found.is_object()).collect()))
}

/// The keywords of draft 2020-12 and draft-07 together: a keyword that the other draft ignores costs nothing here.
/// The flag says that the subschemas are the members of an object.
fn place_of(keyword: &str) -> Option<(Place, bool)> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => (Place::Here, false),
        "dependentSchemas" | "dependencies" => (Place::Here, true),
        "items"
        | "prefixItems"
        | "additionalItems"
        | "unevaluatedItems"
        | "contains"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "propertyNames"
        | "contentSchema" => (Place::Elsewhere, false),
        "properties" | "patternProperties" | "$defs" | "definitions" => (Place::Elsewhere, true),
        _ => return None,
    })
}
