//! A lint for the names, descriptions and input schemas of tools.

mod choices;

use std::{collections::HashMap, fmt};

use serde_json::Value;

use haft_core::{ToolDefinition, ToolName, schema::reference::join_pointer, toolset::ToolList};

use choices::find_choices;

/// A weakness in the name, the description or the input schema of a tool. The tool works, but
/// models use it less reliably.
///
/// # Examples
///
/// ```
/// use haft_core::{tool, toolset::ToolList};
/// use haft_middleware::lint::lint;
///
/// #[tool]
/// fn sort(
///     /// The words.
///     words: Vec<String>,
///     /// Either "up" or "down".
///     order: String,
/// ) -> String {
///     format!("{order} {words:?}")
/// }
///
/// let tools = ToolList::new("mine", [Sort]);
/// let lints: Vec<_> = lint(&tools).iter().map(ToString::to_string).collect();
/// assert_eq!(
///     lints,
///     [
///         "sort: has no description: say what it does, and when to use it",
///         "sort, argument /order: accepts any text, but its description lists the allowed values: \
///          make \"up\", \"down\" an enum",
///     ]
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lint {
    /// The name of the tool.
    pub tool: ToolName,
    /// The JSON pointer to the argument, such as `/order`. Empty if the weakness is in the name or
    /// description of the tool itself. A `-` in the pointer stands for any item of an array.
    pub argument: String,
    /// The kind of weakness.
    pub kind: LintKind,
}

/// The kind of weakness that a [`Lint`] reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LintKind {
    /// The tool or the argument has no description.
    MissingDescription,
    /// The description only repeats the name of the tool or argument. Articles are ignored. An
    /// argument is reported only if it accepts any string.
    DescriptionRepeatsName,
    /// An earlier tool, or an earlier argument in the same object, has the same description.
    /// Contains the name of the earlier tool or argument.
    DuplicateDescription(String),
    /// The description is so long that a provider may truncate it. Contains the maximum number of
    /// characters.
    LongDescription(usize),
    /// The name is vague, for example `data` or `run`. An argument is reported only if it has no
    /// description.
    VagueName,
    /// The argument accepts any string, but its description lists the allowed values, so an `enum`
    /// would be better. Contains the allowed values.
    MissingEnum(Vec<String>),
}

/// The maximum length of a description, in characters. OpenAI's API has this limit, and the limits
/// of other providers are not lower.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Names that do not describe the purpose of a tool or an argument.
const VAGUE_NAMES: [&str; 28] = [
    "action", "arg", "call", "cmd", "data", "do", "exec", "execute", "fn", "foo", "func", "function", "go",
    "handle", "handler", "input", "item", "main", "obj", "object", "param", "process", "run", "stuff",
    "test", "thing", "tool", "val",
];

/// Checks the names, descriptions and input schemas of `tools`. The command `haft tools --check`
/// prints the returned lints.
///
/// Returns the lints in the order of the tools.
pub fn lint(tools: &ToolList) -> Vec<Lint> {
    let mut descriptions = HashMap::new();
    tools.tools().iter().flat_map(|tool| lint_tool(tool.definition(), &mut descriptions)).collect()
}

fn lint_tool<'a>(definition: &'a ToolDefinition, seen: &mut HashMap<String, &'a ToolName>) -> Vec<Lint> {
    let name = definition.name();
    let mut linter = Linter { tool: name, found: Vec::new() };
    linter.check_name("", name.as_str());
    linter.check_description("", Some(name.as_str()), definition.description());
    let text = split_words(definition.description()).join(" ");
    if !text.is_empty()
        && let Some(first) = seen.insert(text, name)
    {
        linter.report("", LintKind::DuplicateDescription(first.to_string()));
    }
    linter.check_properties("", definition.input_schema().as_value(), 0);
    linter.found
}

/// The maximum nesting depth of checked arguments. Deeper arguments are ignored.
const MAX_PROPERTY_DEPTH: usize = 5;

struct Linter<'a> {
    tool: &'a ToolName,
    found: Vec<Lint>,
}

impl Linter<'_> {
    fn report(&mut self, argument: &str, kind: LintKind) {
        self.found.push(Lint { tool: self.tool.clone(), argument: argument.to_owned(), kind });
    }

    fn check_name(&mut self, argument: &str, name: &str) {
        let bare = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '_' || it == '-');
        if bare.is_empty() || VAGUE_NAMES.contains(&bare.to_ascii_lowercase().as_str()) {
            self.report(argument, LintKind::VagueName);
        }
    }

    /// Checks the description of the argument with the JSON pointer `argument`, or of the tool if
    /// `argument` is empty. If `name` is `Some`, also checks that the description does not just
    /// repeat this name.
    fn check_description(&mut self, argument: &str, name: Option<&str>, description: &str) {
        let text = split_words(description);
        let articles = ["the", "a", "an"];
        if text.is_empty() {
            self.report(argument, LintKind::MissingDescription);
        } else if name.is_some_and(|name| {
            text.iter().filter(|it| !articles.contains(&it.as_str())).eq(&split_words(name))
        }) {
            self.report(argument, LintKind::DescriptionRepeatsName);
        } else if description.chars().count() > MAX_DESCRIPTION_CHARS {
            self.report(argument, LintKind::LongDescription(MAX_DESCRIPTION_CHARS));
        }
    }

    fn check_properties(&mut self, parent: &str, schema: &Value, depth: usize) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        let mut seen = HashMap::new();
        for (name, schema) in properties {
            let pointer = join_pointer(parent, name);
            let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            // The description may repeat the name of the argument, unless the argument accepts any
            // string, because other types add information to the name.
            self.check_description(&pointer, accepts_any_text(schema).then_some(name), description);
            let text = split_words(description).join(" ");
            if !text.is_empty()
                && let Some(first) = seen.insert(text, name)
            {
                self.report(&pointer, LintKind::DuplicateDescription(first.clone()));
            }
            if description.is_empty() {
                self.check_name(&pointer, name);
            }
            self.check_value(&pointer, schema, description, depth);
        }
    }

    fn check_value(&mut self, pointer: &str, schema: &Value, description: &str, depth: usize) {
        let choices = if accepts_any_text(schema) { find_choices(description) } else { Vec::new() };
        if !choices.is_empty() {
            self.report(pointer, LintKind::MissingEnum(choices));
        }
        if depth < MAX_PROPERTY_DEPTH {
            self.check_properties(pointer, schema, depth + 1);
            if let Some(items) = schema.get("items") {
                self.check_properties(&format!("{pointer}/-"), items, depth + 1);
            }
        }
    }
}

/// Returns `true` if `schema` has the type `string` and no `enum`, `const`, `pattern` or `format`.
fn accepts_any_text(schema: &Value) -> bool {
    let narrows = ["enum", "const", "pattern", "format"];
    schema.get("type").is_some_and(|it| it == "string") && narrows.iter().all(|it| schema.get(*it).is_none())
}

/// Returns the words of `text` in lower case, without punctuation.
fn split_words(text: &str) -> Vec<String> {
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tool)?;
        if !self.argument.is_empty() {
            write!(f, ", argument {}", self.argument)?;
        }
        match (&self.kind, self.argument.is_empty()) {
            (LintKind::MissingDescription, true) => {
                write!(f, ": has no description: say what it does, and when to use it")
            }
            (LintKind::MissingDescription, false) => {
                write!(f, ": has no description: say what it is, and in what form")
            }
            (LintKind::DescriptionRepeatsName, _) => {
                write!(f, ": its description only repeats the name: say what the name does not")
            }
            (LintKind::DuplicateDescription(other), _) => {
                write!(f, ": has the same description as \"{other}\": describe the difference")
            }
            (LintKind::LongDescription(limit), _) => {
                write!(
                    f,
                    ": its description is longer than {limit} characters and may be truncated: shorten it"
                )
            }
            (LintKind::VagueName, _) => write!(f, ": its name is vague: name what it does, or what it is"),
            (LintKind::MissingEnum(choices), _) => {
                let choices: Vec<_> = choices.iter().map(|choice| format!("{choice:?}")).collect();
                let choices = choices.join(", ");
                write!(
                    f,
                    ": accepts any text, but its description lists the allowed values: make {choices} an enum"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
