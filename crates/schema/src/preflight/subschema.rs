//! The subschemas of a schema, and the parts of a value to which they apply.

use serde_json::Value;

use super::super::reference::join_pointer;

/// The part of a value to which a nested subschema applies. The location is relative to the value
/// of the enclosing schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceLocation<'s> {
    /// The whole value, as for `allOf`.
    Current,
    /// The object member with this name, as for `properties`.
    Member(&'s str),
    /// All object members, as for `additionalProperties`.
    Members,
    /// The array item at this index, as for `prefixItems`.
    Item(usize),
    /// All array items, as for `items`.
    Items,
    /// The names of all object members, as for `propertyNames`.
    Names,
    /// No part of the value, as for definitions in `$defs`.
    None,
}

/// A subschema directly below a keyword of a schema.
pub(crate) struct Subschema<'s> {
    pub(crate) location: InstanceLocation<'s>,
    pub(crate) pointer: String,
    pub(crate) schema: &'s Value,
}

/// The JSON structure in which a keyword holds its subschemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubschemaContainer {
    /// An object with a subschema as the value of each member, as for `properties`.
    Map,
    /// A single subschema, or an array of subschemas.
    List,
}

/// Returns the subschemas in `value`, the value of `keyword` in the schema at the JSON pointer
/// `pointer`. Only objects are returned: boolean subschemas need no checks here, and the compiler
/// rejects other values.
pub(crate) fn subschemas<'s>(pointer: &str, keyword: &str, value: &'s Value) -> Vec<Subschema<'s>> {
    let Some((location, container)) = location_of(keyword) else { return Vec::new() };
    let pointer = join_pointer(pointer, keyword);
    let mut found: Vec<_> = match (value, container) {
        (Value::Object(members), SubschemaContainer::Map) => {
            let member = |(name, schema): (&'s String, &'s Value)| {
                let location =
                    if keyword == "properties" { InstanceLocation::Member(name) } else { location };
                Subschema { location, pointer: join_pointer(&pointer, name), schema }
            };
            members.iter().map(member).collect()
        }
        (Value::Array(items), SubschemaContainer::List) => {
            let item = |(index, schema): (usize, &'s Value)| {
                let is_tuple = matches!(keyword, "items" | "prefixItems");
                let location = if is_tuple { InstanceLocation::Item(index) } else { location };
                Subschema { location, pointer: join_pointer(&pointer, &index.to_string()), schema }
            };
            items.iter().enumerate().map(item).collect()
        }
        (Value::Object(_), SubschemaContainer::List) => vec![Subschema { location, pointer, schema: value }],
        _ => Vec::new(),
    };
    found.retain(|it| it.schema.is_object());
    found
}

/// Returns the parts of a value to which the subschemas of `keyword` apply, and the container of
/// these subschemas. Returns `None` if `keyword` has no subschemas. Keywords of draft 2020-12 and
/// draft-07 are treated alike: it does no harm to check a keyword that the dialect ignores.
fn location_of(keyword: &str) -> Option<(InstanceLocation<'static>, SubschemaContainer)> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
            (InstanceLocation::Current, SubschemaContainer::List)
        }
        "dependentSchemas" | "dependencies" => (InstanceLocation::Current, SubschemaContainer::Map),
        "properties" | "patternProperties" => (InstanceLocation::Members, SubschemaContainer::Map),
        "additionalProperties" | "unevaluatedProperties" => {
            (InstanceLocation::Members, SubschemaContainer::List)
        }
        "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" => {
            (InstanceLocation::Items, SubschemaContainer::List)
        }
        "propertyNames" => (InstanceLocation::Names, SubschemaContainer::List),
        "contentSchema" => (InstanceLocation::None, SubschemaContainer::List),
        "$defs" | "definitions" => (InstanceLocation::None, SubschemaContainer::Map),
        _ => return None,
    })
}
