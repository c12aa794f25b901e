//! The names that a written call can have.

use haft_core::{
    Schema,
    schema::{RepairPolicy, repair},
    toolset::ToolList,
};
use serde_json::{Map, Value};

use crate::FINISH;

/// The maximum length of a tool name, in bytes.
const MAX_NAME_LEN: usize = 128;

/// The names that a written call can have.
pub(crate) enum CallableNames {
    /// Any name. A call to an unknown tool fails, and the failure lists the known tools.
    Any,
    /// The names in the model request.
    Offered {
        /// The tools of the request. `None` if the model must answer.
        tools: Option<ToolList>,
        /// The input schema of [`FINISH`]. `None` if the request does not offer it.
        finish: Option<Schema>,
    },
}

impl CallableNames {
    /// Returns the name of the tool that `written` refers to. A namespace such as `functions.` and
    /// an index such as `:0` are removed if no tool has the full name. Returns `None` if there is
    /// no such tool.
    pub(crate) fn resolve<'t>(&self, written: &'t str) -> Option<&'t str> {
        let written = written.trim();
        if !is_name(written) {
            return None;
        }
        let without_index = strip_index(written);
        let without_namespace = strip_namespace(without_index);
        match self {
            Self::Any => Some(without_namespace),
            Self::Offered { .. } => {
                [written, without_index, without_namespace].into_iter().find(|name| self.contains(name))
            }
        }
    }

    /// Returns `true` if `written`, the start of a name, can become the name of a tool.
    pub(super) fn has_prefix(&self, written: &str) -> bool {
        let written = written.trim();
        let prefix = strip_namespace(strip_index(written));
        if NAMESPACES.iter().any(|namespace| namespace.starts_with(written)) {
            return true;
        }
        match self {
            Self::Any => true,
            Self::Offered { tools, finish } => {
                tools
                    .as_ref()
                    .is_some_and(|tools| tools.names().any(|name| name.as_str().starts_with(prefix)))
                    || finish.is_some() && FINISH.starts_with(prefix)
            }
        }
    }

    fn contains(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Offered { tools, finish } => {
                (finish.is_some() && name == FINISH)
                    || tools.as_ref().is_some_and(|tools| tools.get(name).is_some())
            }
        }
    }

    /// Returns `true` if the tool `name` is offered, declares all keys of `arguments`, and accepts
    /// them, possibly after a repair.
    pub(super) fn accepts(&self, name: &str, arguments: &Map<String, Value>) -> bool {
        let Self::Offered { tools, finish } = self else { return false };
        let is_valid = |schema: &Schema| {
            let is_declared = |key: &String| schema.properties().any(|property| property.name == key);
            let repaired = || repair(schema, Value::Object(arguments.clone()), RepairPolicy::Default).0;
            arguments.keys().all(is_declared) && schema.is_valid(&repaired())
        };
        match finish {
            Some(outputs) if name == FINISH => is_valid(outputs),
            _ => tools
                .as_ref()
                .and_then(|tools| tools.get(name))
                .is_some_and(|tool| is_valid(tool.definition().input_schema())),
        }
    }
}

/// The namespaces that models write before the name of a tool.
const NAMESPACES: [&str; 3] = ["functions.", "tools.", "default_api."];

fn strip_namespace(name: &str) -> &str {
    NAMESPACES.iter().find_map(|namespace| name.strip_prefix(namespace)).unwrap_or(name)
}

/// Removes an index such as `:0`, which Kimi appends to the name.
fn strip_index(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((start, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => start,
        _ => name,
    }
}

fn is_name(text: &str) -> bool {
    let is_name_character = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/".contains(letter);
    (1..=MAX_NAME_LEN).contains(&text.len()) && text.chars().all(is_name_character)
}
