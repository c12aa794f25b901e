//! Why a schema is refused.

use std::fmt;

/// A schema that cannot be used: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid schema at {}: {fault}", Place(pointer))]
pub struct SchemaError {
    pointer: String,
    fault: SchemaFault,
}

/// The reasons for which a schema is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaFault {
    /// It is longer than [`SchemaLimits::bytes`](crate::SchemaLimits::bytes).
    #[error("larger than {0} bytes")]
    TooLarge(usize),
    /// It is nested deeper than [`SchemaLimits::depth`](crate::SchemaLimits::depth).
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// It has more values than [`SchemaLimits::nodes`](crate::SchemaLimits::nodes).
    #[error("more than {0} values")]
    TooManyNodes(usize),
    /// Its references multiply beyond [`SchemaLimits::expansion`](crate::SchemaLimits::expansion).
    #[error("its references stand for more than {0} subschemas that all apply to one value")]
    TooExpansive(usize),
    /// Its regular expressions take more than [`SchemaLimits::patterns`](crate::SchemaLimits::patterns).
    #[error("its regular expressions take more than {0} states")]
    PatternsTooLarge(usize),
    /// Following its references never comes to an end.
    #[error("refers to itself without an end")]
    InfiniteRecursion,
    /// `$schema` names a dialect that is not known by name.
    #[error("unknown dialect {0:?}: only draft 2020-12 and draft-07 are known")]
    UnknownDialect(String),
    /// A reference leaves the document. It is never followed.
    #[error("reference {0:?} leaves the document: only `#`, `#/...` and `#name` are followed")]
    RemoteReference(String),
    /// A reference leads nowhere.
    #[error("reference {0:?} leads nowhere")]
    UnresolvedReference(String),
    /// A subschema has an `$id` in a document with references: what they mean would depend on who reads them.
    #[error("`$id` {0:?} inside a document with references")]
    NestedId(String),
    /// Two subschemas have one name.
    #[error("anchor {0:?} is defined twice")]
    DuplicateAnchor(String),
    /// It breaks the rules for schemas.
    #[error("{0}")]
    Invalid(String),
    /// The arguments of a tool are an object, and this root cannot be one.
    #[error("the arguments of a tool must be an object")]
    NotAnObject,
}

impl SchemaError {
    pub(super) fn new(pointer: impl Into<String>, fault: SchemaFault) -> Self {
        Self { pointer: pointer.into(), fault }
    }

    /// Where in the schema, as a JSON pointer. The root is the empty pointer.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Why it is refused.
    pub fn fault(&self) -> &SchemaFault {
        &self.fault
    }
}

/// A JSON pointer as people read it: the root is `/`.
pub(super) struct Place<'a>(pub(super) &'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { self.0 })
    }
}
