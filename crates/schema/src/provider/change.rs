//! What a wire schema does not say.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::error::Place;

/// One thing that a schema says and its [`ProviderSchema`](super::ProviderSchema) form does not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SchemaChange {
    /// The JSON pointer of the subschema in the original. The root is the empty pointer.
    pub pointer: String,
    /// The keyword there that is concerned.
    pub keyword: String,
    /// What became of it.
    #[serde(flatten)]
    pub kind: SchemaChangeKind,
}

/// What became of a keyword.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SchemaChangeKind {
    /// It is left out.
    Dropped,
    /// It is left out as a rule, and told in the description.
    Described,
    /// Its alternatives are under `anyOf`, so that a value may fit several.
    AnyOf,
    /// Its alternatives are given up: the properties of them all are listed at the root, and none is required.
    Flattened,
    /// No type was given, and the one that the other keywords are about is.
    TypeAssumed,
    /// The property is optional and may also be `null`. It must be given now, and `null` no longer differs from absent.
    NullForAbsent,
    /// The property is optional and might be `null` as well. It is to be left out instead.
    AbsentForNull,
    /// Only some of the values that fit are offered.
    Narrowed,
    /// It is shortened.
    Shortened,
    /// It refers to itself, or is nested too deep, and is not written out: any value of its type is offered.
    Unexpanded,
    /// It cannot be said strictly, so that all of the schema is sent without `strict`.
    NotStrict {
        /// Why.
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
        write!(f, "`{}` at {}: ", self.keyword, Place(&self.pointer))?;
        match &self.kind {
            SchemaChangeKind::Dropped => f.write_str("left out"),
            SchemaChangeKind::Described => f.write_str("only told in the description"),
            SchemaChangeKind::AnyOf => f.write_str("sent as `anyOf`, so that several alternatives may fit"),
            SchemaChangeKind::Flattened => {
                f.write_str("sent as one object with the properties of all alternatives")
            }
            SchemaChangeKind::TypeAssumed => f.write_str("taken from the other keywords"),
            SchemaChangeKind::NullForAbsent => f.write_str("must be given, with null for absent"),
            SchemaChangeKind::AbsentForNull => f.write_str("left out instead of null"),
            SchemaChangeKind::Narrowed => f.write_str("only some of the values that fit are offered"),
            SchemaChangeKind::Shortened => f.write_str("shortened"),
            SchemaChangeKind::Unexpanded => {
                f.write_str("not written out again, any value of its type is offered")
            }
            SchemaChangeKind::NotStrict { reason } => write!(f, "not strict, since {reason}"),
        }
    }
}
