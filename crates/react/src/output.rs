//! The output of a run: its type, its schema, and the parsing of answers.

pub(crate) mod input;
pub(crate) mod parse;
pub(crate) mod schema;

use haft_core::agent::{AgentStep, StopReason};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The text and the structured outputs of an answer, as judged by hooks. Unlike a
/// [`RunOutput`](haft_core::RunOutput), an `Output` is never a suspended run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Output {
    /// The text of the output. For structured data from the model, this is the JSON text. For a
    /// stop tool, this is the text of the tool result.
    pub text: String,
    /// The structured output as a JSON object. Empty if the output is only text. The result of a
    /// stop tool can be structured even if the run declares no outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// The structured output if it is not an object, such as a number or a list. `None` if the
    /// output is an object or only text.
    #[serde(default, deserialize_with = "deserialize_some", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The stop reason of the run if the output is accepted.
    pub stop_reason: StopReason,
}

impl Output {
    /// Creates a text output with the stop reason [`StopReason::Finished`].
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::empty(StopReason::Finished) }
    }

    /// Creates a structured output. Its text is the JSON text of `value`, or the string itself.
    pub fn structured(value: impl Into<Value>) -> Self {
        let value = value.into();
        let text = schema::value_text(&value);
        let (value, outputs) = split_object(Some(value));
        Self { outputs, value, ..Self::new(text) }
    }

    /// Creates the output that consists of the successful results of `calls`: their texts,
    /// separated by empty lines, and the structured result of a single successful call. `None` if
    /// no call succeeded.
    pub fn of_results(calls: &[AgentStep]) -> Option<Self> {
        let outputs: Vec<_> = calls.iter().filter_map(|call| call.result.output()).collect();
        let structured = match outputs.as_slice() {
            [] => return None,
            [only] => only.structured.clone(),
            _ => None,
        };
        let texts: Vec<_> = outputs.iter().map(|output| output.text()).collect();
        let (value, outputs) = split_object(structured);
        Some(Self { text: texts.join("\n\n"), outputs, value, stop_reason: StopReason::Tool })
    }

    pub(crate) fn empty(stop_reason: StopReason) -> Self {
        Self { text: String::new(), outputs: Map::new(), value: None, stop_reason }
    }
}

/// Separates structured data into the fields [`Output::value`] and [`Output::outputs`].
pub(crate) fn split_object(structured: Option<Value>) -> (Option<Value>, Map<String, Value>) {
    match structured {
        Some(Value::Object(outputs)) => (None, outputs),
        value => (value, Map::new()),
    }
}

/// Deserializes a value that is present. `null` becomes `Some(Value::Null)`.
fn deserialize_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
