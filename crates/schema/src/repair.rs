//! Mends what models are known to get wrong in arguments.

mod mend;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::mend::Mender;
use super::Schema;
use super::error::Place;

/// Keys under which models put the arguments that they should have sent bare.
const WRAPPERS: [&str; 4] = ["args", "arguments", "input", "parameters"];

/// How many wrappings around the arguments are taken off.
const WRAPPINGS: usize = 4;

/// Whether arguments that do not fit are mended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairPolicy {
    /// What can be read in one way only is read that way, and recorded.
    #[default]
    Default,
    /// Arguments fit as they are, or they are refused.
    Strict,
}

/// One change that was made to a value before it fitted its schema.
///
/// It says where and how, not what: arguments may be secret, and repairs are logged.
///
/// # Examples
///
/// ```
/// use haft_schema::{RepairPolicy, Schema, repair};
/// use serde_json::json;
///
/// let schema = Schema::new(json!({"properties": {"x": {"type": "integer"}}}))?;
/// let (arguments, repairs) = repair(&schema, json!({"x": "3"}), RepairPolicy::Default);
/// assert_eq!(arguments, json!({"x": 3}));
/// assert_eq!(repairs[0].to_string(), "/x: read a string as the integer that it spells");
/// # Ok::<(), haft_schema::SchemaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The JSON pointer of what was changed. The root is the empty pointer.
    pub pointer: String,
    /// What was done.
    #[serde(flatten)]
    pub kind: RepairKind,
}

/// What a [`Repair`] did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairKind {
    /// A string was read as the JSON that it spells, such as `"3"` as `3`.
    ReadString {
        /// The JSON type of what it spells.
        spells: String,
    },
    /// The arguments were taken out of an object that held nothing else.
    Unwrapped {
        /// The key under which they were.
        key: String,
    },
    /// A `null` was taken as an optional property that is absent.
    DroppedNull,
    /// An empty text or `null` was taken as no arguments.
    NoArguments,
}

impl Repair {
    /// The repair of arguments that came as an empty text.
    pub fn empty_text() -> Self {
        Self { pointer: String::new(), kind: RepairKind::NoArguments }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", Place(&self.pointer))?;
        match &self.kind {
            RepairKind::ReadString { spells } => write!(f, "read a string as the {spells} that it spells"),
            RepairKind::Unwrapped { key } => write!(f, "took the arguments out of {key:?}"),
            RepairKind::DroppedNull => f.write_str("took null as an absent property"),
            RepairKind::NoArguments => f.write_str("took empty arguments as {}"),
        }
    }
}

/// Makes arguments fit their schema, if the policy allows it and there is one plain way to read them.
///
/// A value that fits is never changed, and one that cannot be made to fit comes back as it was, without repairs: what
/// is wrong with it is then told about the original.
pub fn repair(schema: &Schema, value: Value, policy: RepairPolicy) -> (Value, Vec<Repair>) {
    if policy == RepairPolicy::Strict || schema.fits(&value) != Some(false) {
        return (value, Vec::new());
    }
    let mut mender = Mender::new(schema);
    let mut bare = value.clone();
    let mut repairs = Vec::new();
    for _ in 0..=WRAPPINGS {
        if let Some((mended, more)) = mender.mend(bare.clone(), "") {
            repairs.extend(more);
            return (mended, repairs);
        }
        let Some((inner, kind)) = unwrap(schema, bare) else { break };
        repairs.push(Repair { pointer: String::new(), kind });
        bare = inner;
    }
    (value, Vec::new())
}

/// Takes one wrapping off the arguments.
fn unwrap(schema: &Schema, value: Value) -> Option<(Value, RepairKind)> {
    match value {
        Value::Null => Some((Value::Object(serde_json::Map::new()), RepairKind::NoArguments)),
        Value::String(text) if text.trim().is_empty() => unwrap(schema, Value::Null),
        Value::String(text) => {
            let spelled: Value = serde_json::from_str(&text).ok().filter(Value::is_object)?;
            Some((spelled, RepairKind::ReadString { spells: "object".to_owned() }))
        }
        Value::Object(members) if members.len() == 1 => {
            let (key, inner) = members.into_iter().next()?;
            let is_wrapper = WRAPPERS.contains(&key.as_str()) && schema.properties().all(|it| it.name != key);
            let is_arguments = inner.is_object() || inner.is_string() || inner.is_null();
            (is_wrapper && is_arguments).then_some((inner, RepairKind::Unwrapped { key }))
        }
        _ => None,
    }
}
