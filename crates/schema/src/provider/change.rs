//! Reports of the differences between a schema and the schema derived for a provider.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::error::PointerDisplay;

/// A difference between a schema and the [`ProviderSchema`](super::ProviderSchema) derived from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SchemaChange {
    /// The JSON pointer of the changed subschema in the original schema. The pointer of the root is
    /// empty.
    pub pointer: String,
    /// The name of the changed keyword, such as `minLength`.
    pub keyword: String,
    /// The kind of change.
    #[serde(flatten)]
    pub kind: SchemaChangeKind,
}

/// The kind of a [`SchemaChange`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SchemaChangeKind {
    /// The keyword was removed, and the derived schema does not state its constraint anywhere.
    Dropped,
    /// The keyword was removed. The `description` states its constraint instead.
    Described,
    /// The keyword, such as `oneOf`, became `anyOf`, so a value may match several alternatives.
    AnyOf,
    /// The alternatives of a union were merged into a single object with the properties of all
    /// alternatives.
    Flattened,
    /// The schema had no `type`. Its type was derived from its other keywords.
    TypeAssumed,
    /// The property was optional and nullable. It is required now, and `null` stands for an absent
    /// property.
    NullForAbsent,
    /// The property was optional and nullable. It is still optional, but `null` is no longer
    /// allowed.
    AbsentForNull,
    /// The derived schema rejects some values that are valid for the original schema.
    Narrowed,
    /// The text of the keyword, such as a long `description`, was shortened.
    Shortened,
    /// The subschema is recursive, too deep or too large. It was replaced with a schema for any
    /// value of its type.
    Unexpanded,
    /// The keyword prevents strict mode, so the whole schema is sent without strict mode.
    NotStrict {
        /// The reason why the keyword prevents strict mode.
        reason: String,
    },
}

impl SchemaChange {
    pub(super) fn new(pointer: &str, keyword: &str, kind: SchemaChangeKind) -> Self {
        Self { pointer: pointer.to_owned(), keyword: keyword.to_owned(), kind }
    }

    pub(super) fn not_strict(pointer: &str, keyword: &str, reason: impl Into<String>) -> Self {
        Self::new(pointer, keyword, SchemaChangeKind::NotStrict { reason: reason.into() })
    }
}

impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {}: ", self.keyword, PointerDisplay(&self.pointer))?;
        match &self.kind {
            SchemaChangeKind::Dropped => f.write_str("left out"),
            SchemaChangeKind::Described => f.write_str("stated only in the description"),
            SchemaChangeKind::AnyOf => f.write_str("sent as `anyOf`, so that several alternatives may fit"),
            SchemaChangeKind::Flattened => {
                f.write_str("sent as one object with the properties of all alternatives")
            }
            SchemaChangeKind::TypeAssumed => f.write_str("derived from the other keywords"),
            SchemaChangeKind::NullForAbsent => f.write_str("required, with null for absent"),
            SchemaChangeKind::AbsentForNull => f.write_str("absent instead of null"),
            SchemaChangeKind::Narrowed => f.write_str("some valid values are removed"),
            SchemaChangeKind::Shortened => f.write_str("shortened"),
            SchemaChangeKind::Unexpanded => f.write_str("not inlined, any value of its type is allowed"),
            SchemaChangeKind::NotStrict { reason } => write!(f, "not strict, since {reason}"),
        }
    }
}
