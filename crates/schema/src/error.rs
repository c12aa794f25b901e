//! Errors for rejected schemas.

use std::fmt;

/// The error for a rejected schema: a JSON pointer and a [`SchemaFault`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid schema at {}: {fault}", PointerDisplay(pointer))]
pub struct SchemaError {
    pointer: String,
    fault: SchemaFault,
}

/// The reason why a schema was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaFault {
    /// Larger than [`SchemaLimits::bytes`](crate::SchemaLimits::bytes).
    #[error("larger than {0} bytes")]
    TooLarge(usize),
    /// Nested deeper than [`SchemaLimits::depth`](crate::SchemaLimits::depth).
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// More JSON values than [`SchemaLimits::nodes`](crate::SchemaLimits::nodes).
    #[error("more than {0} values")]
    TooManyNodes(usize),
    /// More subschemas for one value than
    /// [`SchemaLimits::expansion`](crate::SchemaLimits::expansion).
    #[error("its references expand to more than {0} subschemas for one value")]
    TooExpansive(usize),
    /// More states of regular expressions than
    /// [`SchemaLimits::patterns`](crate::SchemaLimits::patterns).
    #[error("its regular expressions take more than {0} states")]
    PatternsTooLarge(usize),
    /// A reference leads back to itself for the same value, as in `{"$ref": "#"}`.
    #[error("a reference leads back to itself for the same value")]
    InfiniteRecursion,
    /// `$schema` is neither draft 2020-12 nor draft-07.
    #[error("unknown dialect {0:?}: only draft 2020-12 and draft-07 are known")]
    UnknownDialect(String),
    /// A reference to another document. It is never fetched.
    #[error("reference {0:?} leaves the document: only `#`, `#/...` and `#name` are followed")]
    RemoteReference(String),
    /// A reference without a target.
    #[error("reference {0:?} has no target")]
    UnresolvedReference(String),
    /// A subschema has an `$id`, and the document has references. Their targets would depend on the
    /// implementation.
    #[error("`$id` {0:?} inside a document with references")]
    NestedId(String),
    /// Two subschemas have the same anchor.
    #[error("anchor {0:?} is defined twice")]
    DuplicateAnchor(String),
    /// Invalid according to the meta-schema of the dialect.
    #[error("{0}")]
    Invalid(String),
    /// The root excludes objects, but the arguments of a tool are an object.
    #[error("the arguments of a tool must be an object")]
    NotAnObject,
}

impl SchemaError {
    pub(super) fn new(pointer: impl Into<String>, fault: SchemaFault) -> Self {
        Self { pointer: pointer.into(), fault }
    }

    /// Returns the JSON pointer of the rejected subschema. The root is the empty pointer.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the reason.
    pub fn fault(&self) -> &SchemaFault {
        &self.fault
    }
}

/// Displays a JSON pointer, with `/` for the root.
pub(super) struct PointerDisplay<'a>(pub(super) &'a str);

impl fmt::Display for PointerDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { self.0 })
    }
}
