//! Repair of common mistakes that models make in the arguments of tool calls.

mod repairer;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::repairer::Repairer;
use super::Schema;
use super::error::PointerDisplay;
use super::exact_json::parse_json_object;

/// Keys of the wrapper objects in which some models nest the arguments, as in
/// `{"arguments": {"x": 1}}`.
const WRAPPER_KEYS: [&str; 4] = ["args", "arguments", "input", "parameters"];

/// The maximum number of layers around the arguments, such as `{"args": …}` or a string with a JSON
/// object, that a repair removes.
const MAX_LAYERS: usize = 4;

/// The treatment of arguments that are invalid for the schema of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairPolicy {
    /// Unambiguous mistakes are repaired, and each [`Repair`] is recorded. Other invalid arguments
    /// are rejected.
    #[default]
    Default,
    /// All invalid arguments are rejected, without a repair.
    Strict,
}

/// A change made to invalid arguments to make them valid.
///
/// A repair contains the location and the kind of the change, but not the value, because repairs
/// are logged, and arguments may be secret.
///
/// # Examples
///
/// ```
/// use haft_schema::{RepairPolicy, Schema, repair};
/// use serde_json::json;
///
/// let schema = Schema::new(json!({"properties": {"x": {"type": "integer"}}}))?;
/// let (arguments, repairs) =
///     repair(&schema, json!({"x": "3"}), RepairPolicy::Default);
/// assert_eq!(arguments, json!({"x": 3}));
/// assert_eq!(repairs[0].to_string(), "/x: read a string as the integer that it spells");
/// # Ok::<(), haft_schema::SchemaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The JSON pointer of the changed value. The pointer of the root is empty.
    pub pointer: String,
    /// The kind of change.
    #[serde(flatten)]
    pub kind: RepairKind,
}

/// The kind of a [`Repair`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairKind {
    /// A string was replaced with the JSON value that it contains, for example `"3"` with `3`.
    ReadString {
        /// The JSON type of the new value, such as `integer`.
        spells: String,
    },
    /// Arguments nested in an object with a single key, such as `{"arguments": {"x": 1}}`, were
    /// moved to the top level.
    Unwrapped {
        /// The key of the wrapper object, such as `arguments`.
        key: String,
    },
    /// An optional property with the value `null` was removed.
    DroppedNull,
    /// An unknown property was removed. Its name and value are a keyword of the schema, for example
    /// `"additionalProperties": false`. Small models copy such keywords into the arguments.
    DroppedKeyword,
    /// Empty arguments (`null` or a blank string) were replaced with `{}`.
    NoArguments,
    /// The arguments were not valid JSON, for example because of single quotes or a trailing comma,
    /// and were read leniently.
    LenientJson,
    /// A hook of the host program replaced all arguments.
    Replaced,
    /// The model wrote the whole call as text, for example as JSON in a code fence.
    WrittenAsText,
}

impl Repair {
    /// Creates the [`Repair`] that records a call that was written as text.
    pub fn written_as_text() -> Self {
        Self { pointer: String::new(), kind: RepairKind::WrittenAsText }
    }

    /// Creates the [`Repair`] that records arguments from a hook of the host program.
    pub fn replaced() -> Self {
        Self { pointer: String::new(), kind: RepairKind::Replaced }
    }

    /// Creates the [`Repair`] that records arguments that are not valid JSON.
    pub fn lenient_json() -> Self {
        Self { pointer: String::new(), kind: RepairKind::LenientJson }
    }

    /// Creates the [`Repair`] that records the replacement of empty arguments with `{}`.
    pub fn no_arguments() -> Self {
        Self { pointer: String::new(), kind: RepairKind::NoArguments }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", PointerDisplay(&self.pointer))?;
        match &self.kind {
            RepairKind::ReadString { spells } => write!(f, "read a string as the {spells} that it spells"),
            RepairKind::Unwrapped { key } => write!(f, "took the arguments out of {key:?}"),
            RepairKind::DroppedNull => f.write_str("took null as an absent property"),
            RepairKind::DroppedKeyword => f.write_str("removed a keyword copied from the schema"),
            RepairKind::NoArguments => f.write_str("took empty arguments as {}"),
            RepairKind::LenientJson => f.write_str("read the arguments, which are not valid JSON"),
            RepairKind::Replaced => f.write_str("the host program replaced the arguments"),
            RepairKind::WrittenAsText => f.write_str("read the call from the text of the reply"),
        }
    }
}

/// Repairs `value` if it is invalid for `schema` and `policy` allows repairs. Returns the value and
/// the list of applied repairs.
///
/// A valid value is never changed. An invalid value is returned unchanged and without repairs if it
/// cannot be repaired, so its violations refer to the original value.
pub fn repair(schema: &Schema, value: Value, policy: RepairPolicy) -> (Value, Vec<Repair>) {
    if policy == RepairPolicy::Strict || schema.try_is_valid(&value) != Some(false) {
        return (value, Vec::new());
    }
    let mut repairer = Repairer::new(schema);
    let mut bare = value.clone();
    let mut repairs = Vec::new();
    loop {
        if let Some((repaired, more)) = repairer.repair(bare.clone(), "") {
            repairs.extend(more);
            return (repaired, repairs);
        }
        // At this point, each repair is a removed layer.
        if repairs.len() == MAX_LAYERS {
            break;
        }
        let Some((inner, kind)) = unwrap_arguments(schema, bare) else { break };
        repairs.push(Repair { pointer: String::new(), kind });
        bare = inner;
    }
    (value, Vec::new())
}

/// Removes one layer around the arguments `value`. The layer is a string with a JSON object, or an
/// object with one of the [`WRAPPER_KEYS`] as its single key. Empty arguments are replaced with
/// `{}`. Returns the value inside the layer and the kind of the repair, or `None` if there is no
/// layer.
fn unwrap_arguments(schema: &Schema, value: Value) -> Option<(Value, RepairKind)> {
    match value {
        Value::Null => Some((Value::Object(serde_json::Map::new()), RepairKind::NoArguments)),
        Value::String(text) if text.trim().is_empty() => unwrap_arguments(schema, Value::Null),
        Value::String(text) => {
            let spelled = parse_json_object(&text)?;
            Some((Value::Object(spelled), RepairKind::ReadString { spells: "object".to_owned() }))
        }
        Value::Object(members) if members.len() == 1 => {
            let (key, inner) = members.into_iter().next()?;
            let is_wrapper =
                WRAPPER_KEYS.contains(&key.as_str()) && schema.properties().all(|it| it.name != key);
            let is_arguments = inner.is_object() || inner.is_string() || inner.is_null();
            (is_wrapper && is_arguments).then_some((inner, RepairKind::Unwrapped { key }))
        }
        _ => None,
    }
}
