//! Where the subschemas of a schema are.

use serde_json::Value;

use super::super::reference::join;

/// Which values a subschema applies to, seen from the value of the schema that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place<'s> {
    /// That value itself.
    Here,
    /// Its member of that name.
    Member(&'s str),
    /// Any of its members.
    Members,
    /// Its item at that index.
    Item(usize),
    /// Any of its items.
    Items,
    /// The names of its members.
    Names,
    /// Nothing, until something refers to it.
    Nowhere,
}

/// A schema inside another one.
pub(crate) struct Subschema<'s> {
    pub(crate) place: Place<'s>,
    pub(crate) pointer: String,
    pub(crate) schema: &'s Value,
}

/// How a keyword holds its subschemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As the members of an object.
    Map,
    /// As itself, or as the items of an array.
    List,
}

/// The subschemas under one keyword. Values that cannot be schemas are left to the compiler.
pub(crate) fn subschemas<'s>(pointer: &str, keyword: &str, value: &'s Value) -> Vec<Subschema<'s>> {
    let Some((place, form)) = place_of(keyword) else { return Vec::new() };
    let pointer = join(pointer, keyword);
    let mut found: Vec<_> = match (value, form) {
        (Value::Object(members), Form::Map) => {
            let member = |(name, schema): (&'s String, &'s Value)| {
                let place = if keyword == "properties" { Place::Member(name) } else { place };
                Subschema { place, pointer: join(&pointer, name), schema }
            };
            members.iter().map(member).collect()
        }
        (Value::Array(items), Form::List) => {
            let item = |(index, schema): (usize, &'s Value)| {
                let is_tuple = matches!(keyword, "items" | "prefixItems");
                let place = if is_tuple { Place::Item(index) } else { place };
                Subschema { place, pointer: join(&pointer, &index.to_string()), schema }
            };
            items.iter().enumerate().map(item).collect()
        }
        (Value::Object(_), Form::List) => vec![Subschema { place, pointer, schema: value }],
        _ => Vec::new(),
    };
    found.retain(|it| it.schema.is_object());
    found
}

/// The keywords of draft 2020-12 and draft-07 together: a keyword that the other draft ignores costs nothing here.
fn place_of(keyword: &str) -> Option<(Place<'static>, Form)> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => (Place::Here, Form::List),
        "dependentSchemas" | "dependencies" => (Place::Here, Form::Map),
        "properties" | "patternProperties" => (Place::Members, Form::Map),
        "additionalProperties" | "unevaluatedProperties" => (Place::Members, Form::List),
        "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" => {
            (Place::Items, Form::List)
        }
        "propertyNames" => (Place::Names, Form::List),
        "contentSchema" => (Place::Nowhere, Form::List),
        "$defs" | "definitions" => (Place::Nowhere, Form::Map),
        _ => return None,
    })
}
