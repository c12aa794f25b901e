//! The report of changes in a provider schema.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::error::PointerDisplay;

/// A difference between a schema and its [`ProviderSchema`](super::ProviderSchema).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SchemaChange {
    /// The JSON pointer of the subschema in the original. The root is the empty pointer.
    pub pointer: String,
    /// The changed keyword.
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
    /// The keyword is removed.
    Dropped,
    /// The keyword is moved to the description.
    Described,
    /// Alternatives are sent as `anyOf`, so a value may match several.
    AnyOf,
    /// Alternatives are merged into a single object with the properties of all.
    Flattened,
    /// A missing type is derived from the other keywords.
    TypeAssumed,
    /// The property is optional and nullable. It becomes required, and `null` means absent.
    NullForAbsent,
    /// The property is optional and nullable. `null` is removed; it must be absent instead.
    AbsentForNull,
    /// Some of the valid values are removed.
    Narrowed,
    /// The text is shortened.
    Shortened,
    /// A recursive or too deep subschema is not inlined. Any value of its type is allowed.
    Unexpanded,
    /// The keyword has no strict form, so the whole schema is sent without strict mode.
    NotStrict {
        /// The reason, as text.
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
