use std::{collections::BTreeMap, env};

use serde_json::{Map, Value};

/// The prefix of a variable that an editor prompts for when it starts the server.
const INPUT_PREFIX: &str = "input:";
/// The prefix of an environment variable. It may be omitted.
const ENV_PREFIX: &str = "env:";

/// The values of the variables in an `mcp.json` file.
pub(super) struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    /// The inputs of the file by id.
    inputs: BTreeMap<String, Input>,
}

/// A value that an editor prompts for when it starts the server.
struct Input {
    description: Option<String>,
    default: Option<String>,
}

impl<'a> Variables<'a> {
    /// Creates variables with the values that `lookup` returns, and the inputs in `root`, the root
    /// of the file.
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>, root: &Map<String, Value>) -> Self {
        let nested = || root.get("mcp").and_then(|mcp| mcp.get("inputs"));
        let inputs = root.get("inputs").or_else(nested).and_then(Value::as_array).into_iter().flatten();
        let inputs = inputs.filter_map(|input| {
            let text = |key| input.get(key).and_then(Value::as_str).map(str::to_owned);
            Some((text("id")?, Input { description: text("description"), default: text("default") }))
        });
        Self { lookup, inputs: inputs.collect() }
    }

    /// Returns the value of the variable `name`, as written between `${` and `}`. Returns `None` if
    /// it is not defined.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        if let Some(id) = name.strip_prefix(INPUT_PREFIX) {
            let default = || self.inputs.get(id)?.default.clone();
            return (self.lookup)(name).or_else(default);
        }
        let name = name.strip_prefix(ENV_PREFIX).unwrap_or(name);
        (self.lookup)(name).or_else(|| editor_variable(name))
    }

    /// Returns the error message for the variable `name`, which is not defined.
    pub(super) fn undefined(&self, name: &str) -> String {
        let Some(id) = name.strip_prefix(INPUT_PREFIX) else {
            let name = name.strip_prefix(ENV_PREFIX).unwrap_or(name);
            return format!("the variable {name} is not defined: define it, or write ${{{name}:-default}}");
        };
        let description = self.inputs.get(id).and_then(|input| input.description.as_deref());
        let description = description.map(|text| format!(" ({text})")).unwrap_or_default();
        format!("the input \"{id}\"{description} has no value: set the variable {}", input_variable(id))
    }
}

/// Returns the value of the variable `name` in the environment of this process. For `input:ID`, the
/// environment variable is `INPUT_ID`, in upper case and with underscores.
pub(super) fn environment_variable(name: &str) -> Option<String> {
    match name.strip_prefix(INPUT_PREFIX) {
        Some(id) => env::var(input_variable(id)).ok(),
        None => env::var(name).ok(),
    }
}

fn input_variable(id: &str) -> String {
    let letters = id.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '_' });
    format!("INPUT_{}", letters.collect::<String>().to_uppercase())
}

/// Returns the value of a variable that editors define: the folder of the project, which is the
/// working directory, and the home folder.
fn editor_variable(name: &str) -> Option<String> {
    let folder = || env::current_dir().ok();
    match name {
        "workspaceFolder" => folder()?.to_str().map(str::to_owned),
        "workspaceFolderBasename" => folder()?.file_name()?.to_str().map(str::to_owned),
        "userHome" => env::var("HOME").ok(),
        "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
        _ => None,
    }
}
