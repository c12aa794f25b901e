use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::value::{RawValue, to_raw_value};

/// A content block as JSON text.
#[derive(Debug)]
pub(crate) struct Block {
    json: Box<RawValue>,
    kind: BlockKind,
}

/// The kinds of blocks that a request distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Thinking, which cannot have a cache breakpoint.
    Thinking,
    /// A call of a tool of the program.
    Call,
    Other,
}

impl Block {
    pub(crate) fn new(value: &impl Serialize, kind: BlockKind) -> Self {
        Self { json: to_raw_json(value), kind }
    }

    pub(crate) fn kind(&self) -> BlockKind {
        self.kind
    }

    pub(crate) fn json(&self) -> &RawValue {
        &self.json
    }
}

/// Serializes `value` to JSON text. Returns `null` if the serialization fails, which is impossible
/// for strings, numbers and JSON values.
pub(crate) fn to_raw_json(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns `object`, a JSON object with at least one member, with the additional member `member`,
/// such as `"a":1`.
pub(crate) fn with_member(object: &RawValue, member: &str) -> Box<RawValue> {
    let open = object.get().trim_end().strip_suffix('}').unwrap_or_default();
    RawValue::from_string(format!("{open},{member}}}")).unwrap_or_else(|_| object.to_owned())
}

/// Serializes `blocks`. The block at `marked` has the additional member `member`.
pub(crate) fn write_list<'a, S: Serializer>(
    serializer: S,
    blocks: impl Iterator<Item = &'a RawValue>,
    marked: Option<usize>,
    member: Option<&str>,
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(None)?;
    for (place, block) in blocks.enumerate() {
        match member.filter(|_| marked == Some(place)) {
            Some(member) => list.serialize_element(&with_member(block, member))?,
            None => list.serialize_element(block)?,
        }
    }
    list.end()
}
