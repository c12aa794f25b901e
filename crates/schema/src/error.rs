//! Errors for schemas that cannot be compiled.

use std::fmt;

/// The error for a rejected schema. It contains the JSON pointer of the faulty part of the schema
/// and the [`SchemaFault`].
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
    /// The schema is larger than [`SchemaLimits::bytes`](crate::SchemaLimits::bytes). Contains this
    /// limit.
    #[error("larger than {0} bytes")]
    TooLarge(usize),
    /// The schema is nested deeper than [`SchemaLimits::depth`](crate::SchemaLimits::depth), or too
    /// deep for the stack of the compiler. Contains the exceeded limit.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// The schema contains more JSON values than
    /// [`SchemaLimits::nodes`](crate::SchemaLimits::nodes). Contains this limit.
    #[error("more than {0} values")]
    TooManyNodes(usize),
    /// The JSON pointers of all values in the schema take too many bytes, because long property
    /// names have many nested values. Contains the limit, 64 times
    /// [`SchemaLimits::bytes`](crate::SchemaLimits::bytes).
    #[error("the JSON pointers of its values take more than {0} bytes: shorten the property names")]
    PointersTooLarge(usize),
    /// The number of subschemas that apply to one value exceeds
    /// [`SchemaLimits::expansion`](crate::SchemaLimits::expansion), or a chain of these subschemas
    /// is too long for the stack of the validator. Contains the exceeded limit.
    #[error("its references expand to more than {0} subschemas for one value")]
    TooExpansive(usize),
    /// The regular expressions of the schema have more states than
    /// [`SchemaLimits::pattern_states`](crate::SchemaLimits::pattern_states) in total. Contains
    /// this limit.
    #[error("its regular expressions take more than {0} states")]
    PatternsTooLarge(usize),
    /// A reference leads back to itself without moving to a nested value, as in `{"$ref": "#"}`.
    /// Validation would never end.
    #[error("a reference leads back to itself for the same value")]
    InfiniteRecursion,
    /// The `$schema` keyword declares a dialect other than draft 2020-12 or draft-07. Contains this
    /// dialect.
    #[error("unknown dialect {0:?}: only draft 2020-12 and draft-07 are known")]
    UnknownDialect(String),
    /// A reference points to another document, which is never fetched. Contains the reference.
    #[error("reference {0:?} leaves the document: only `#`, `#/...` and `#name` are followed")]
    RemoteReference(String),
    /// A reference has no target in the document. Contains the reference.
    #[error("reference {0:?} has no target")]
    UnresolvedReference(String),
    /// A nested subschema has an `$id`, and the document contains references. Validators disagree
    /// about the targets of these references. Contains the `$id`.
    #[error("`$id` {0:?} inside a document with references")]
    NestedId(String),
    /// Two subschemas have the same anchor. Contains the name of the anchor.
    #[error("anchor {0:?} is defined twice")]
    DuplicateAnchor(String),
    /// The schema is invalid according to the meta-schema of its dialect. Contains the reason.
    #[error("{0}")]
    Invalid(String),
    /// The root of a tool's parameter schema is a boolean, or its `type` or the target of its
    /// `$ref` does not allow objects.
    #[error("the arguments of a tool must be an object")]
    NotAnObject,
}

impl SchemaError {
    pub(super) fn new(pointer: impl Into<String>, fault: SchemaFault) -> Self {
        Self { pointer: pointer.into(), fault }
    }

    /// Returns the JSON pointer of the faulty part of the schema, such as `/items/$ref`. The
    /// pointer is empty for the root, and for faults of the whole document such as
    /// [`TooLarge`](SchemaFault::TooLarge).
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the reason why the schema was rejected.
    pub fn fault(&self) -> &SchemaFault {
        &self.fault
    }
}

/// A wrapper that displays a JSON pointer. The empty pointer of the root is displayed as `/`.
pub(super) struct PointerDisplay<'a>(pub(super) &'a str);

impl fmt::Display for PointerDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { self.0 })
    }
}
