//! Subschemas, and the parts of a value to which they apply.

use serde_json::Value;

use super::super::reference::join;

/// The part of a value to which a subschema applies, relative to the value of the enclosing schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceLocation<'s> {
    /// The value of the enclosing schema itself, as for `allOf`.
    Current,
    /// The value of the object member with this name.
    Member(&'s str),
    /// The value of any object member.
    Members,
    /// The array item at this index.
    Item(usize),
    /// Any array item.
    Items,
    /// The names of the object members.
    Names,
    /// No value, because the subschema is a definition.
    None,
}

/// A schema nested directly in another schema.
pub(crate) struct Subschema<'s> {
    pub(crate) location: InstanceLocation<'s>,
    pub(crate) pointer: String,
    pub(crate) schema: &'s Value,
}

/// The JSON form in which a keyword contains its subschemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubschemaContainer {
    /// An object with one subschema per member, as for `properties`.
    Map,
    /// A single subschema, or an array of subschemas.
    List,
}

/// Returns the subschemas in `value`, the value of `keyword` in the schema at the JSON pointer
/// `pointer`. Boolean subschemas and other values that are not objects are skipped; the compiler
/// checks them.
pub(crate) fn subschemas<'s>(pointer: &str, keyword: &str, value: &'s Value) -> Vec<Subschema<'s>> {
    let Some((location, container)) = location_of(keyword) else { return Vec::new() };
    let pointer = join(pointer, keyword);
    let mut found: Vec<_> = match (value, container) {
        (Value::Object(members), SubschemaContainer::Map) => {
            let member = |(name, schema): (&'s String, &'s Value)| {
                let location =
                    if keyword == "properties" { InstanceLocation::Member(name) } else { location };
                Subschema { location, pointer: join(&pointer, name), schema }
            };
            members.iter().map(member).collect()
        }
        (Value::Array(items), SubschemaContainer::List) => {
            let item = |(index, schema): (usize, &'s Value)| {
                let is_tuple = matches!(keyword, "items" | "prefixItems");
                let location = if is_tuple { InstanceLocation::Item(index) } else { location };
                Subschema { location, pointer: join(&pointer, &index.to_string()), schema }
            };
            items.iter().enumerate().map(item).collect()
        }
        (Value::Object(_), SubschemaContainer::List) => vec![Subschema { location, pointer, schema: value }],
        _ => Vec::new(),
    };
    found.retain(|it| it.schema.is_object());
    found
}

/// Returns the location and the form of the subschemas of `keyword`, or `None` if it has no
/// subschemas. The keywords of draft 2020-12 and draft-07 are treated alike, because a keyword that
/// the dialect ignores does no harm in the preflight.
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
