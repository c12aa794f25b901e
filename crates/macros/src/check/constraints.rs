//! Validation of the constraints of a parameter, such as `range`, against the parameter's type.
//! Types are recognized by name only, because a macro cannot resolve them.

use syn::{GenericArgument, Ident, PathArguments, Type};

use crate::{errors::Errors, parameter::Constraints};

const NUMBERS: [&str; 14] =
    ["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32", "f64"];
const LISTS: [&str; 6] = ["Vec", "VecDeque", "HashSet", "BTreeSet", "IndexSet", "LinkedList"];
const MAPS: [&str; 4] = ["HashMap", "BTreeMap", "IndexMap", "Map"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Bool,
    Text,
    List,
    Map,
    Unknown,
}

/// Rejects constraints that do not apply to `ty`, for example `range` on a `String`. JSON Schema
/// ignores a keyword for another type, so such a constraint would have no effect.
pub(super) fn check(ty: &Type, constraints: &Constraints, errors: &mut Errors) {
    let kind = kind_of(ty);
    let Constraints { range, length, pattern, format, examples: _ } = constraints;
    if let Some((key, _)) = range {
        match kind {
            Kind::Number | Kind::Unknown => {}
            Kind::Bool => errors.add_at(key, "`range` bounds a number: remove it"),
            Kind::Text => {
                errors.add_at(key, "`range` bounds a number: bound how many characters by `length = …`");
            }
            Kind::List | Kind::Map => {
                errors.add_at(key, "`range` bounds a number: bound how many there are by `length = …`");
            }
        }
    }
    if let Some((key, _)) = length {
        match kind {
            Kind::Number => {
                errors.add_at(key, "`length` is for text, lists and maps: bound a number by `range = …`");
            }
            Kind::Bool => errors.add_at(key, "`length` is for text, lists and maps: remove it"),
            Kind::Text | Kind::List | Kind::Map | Kind::Unknown => {}
        }
    }
    let for_text = |key: &Ident, errors: &mut Errors| {
        if !matches!(kind, Kind::Text | Kind::Unknown) {
            errors.add_at(key, format!("`{key}` is for text: take a `String`, or remove it"));
        }
    };
    for (key, _) in [pattern, format].into_iter().flatten() {
        for_text(key, errors);
    }
}

/// Determines the kind of `ty`. An array is a list. A path is recognized by its last segment, and
/// `Option<T>` has the kind of `T`. All other types have the kind `Unknown`.
fn kind_of(ty: &Type) -> Kind {
    let path = match ty {
        Type::Path(path) => &path.path,
        Type::Array(_) => return Kind::List,
        _ => return Kind::Unknown,
    };
    let Some(last) = path.segments.last() else { return Kind::Unknown };
    let is_in = |names: &[&str]| names.iter().any(|name| last.ident == name);
    match &last.arguments {
        PathArguments::None if is_in(&NUMBERS) => Kind::Number,
        PathArguments::None if last.ident == "bool" => Kind::Bool,
        PathArguments::None if last.ident == "String" => Kind::Text,
        PathArguments::AngleBracketed(_) if is_in(&LISTS) => Kind::List,
        PathArguments::AngleBracketed(_) if is_in(&MAPS) => Kind::Map,
        PathArguments::AngleBracketed(arguments) if last.ident == "Option" => match arguments.args.first() {
            Some(GenericArgument::Type(inner)) => kind_of(inner),
            _ => Kind::Unknown,
        },
        _ => Kind::Unknown,
    }
}
