//! What a model will miss in the description of a tool.

mod choices;

use std::{collections::HashMap, fmt};

use serde_json::Value;

use haft_core::{ToolDefinition, ToolName, toolset::ToolList};

use choices::choices;

/// Something that a model will miss: the tool works, and will be used worse than it could be.
///
/// # Examples
///
/// ```
/// use haft_core::{tool, toolset::ToolList};
/// use haft_middleware::advice;
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
/// let advice: Vec<_> = advice(&ToolList::new("mine", [Sort])).iter().map(ToString::to_string).collect();
/// assert_eq!(
///     advice,
///     [
///         "sort: has no description: say what it does, and when to use it",
///         "sort, argument /order: takes any text, and its description lists what it may be: make \"up\", \"down\" an enum",
///     ]
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// The tool.
    pub tool: ToolName,
    /// The argument, as a JSON pointer into the arguments; empty for the tool as a whole. What is in each item of a list
    /// is under `-`.
    pub argument: String,
    /// What is amiss.
    pub lack: Lack,
}

/// What a model will miss.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// Nothing is said.
    NoDescription,
    /// What is said is only the name once more.
    NameOnly,
    /// Two things have one description, so that nothing tells them apart.
    SameAs(String),
    /// What is said is longer than this many characters, and may be cut.
    TooLong(usize),
    /// The name fits everything.
    VagueName,
    /// Any text is taken, and only these are right.
    OpenChoice(Vec<String>),
}

/// The longest description that every provider takes whole, in characters: the limit of OpenAI's API.
const LONGEST: usize = 1024;

/// Names that say nothing of what a tool does, or of what an argument is.
const VAGUE: [&str; 28] = [
    "action", "arg", "call", "cmd", "data", "do", "exec", "execute", "fn", "foo", "func", "function", "go",
    "handle", "handler", "input", "item", "main", "obj", "object", "param", "process", "run", "stuff",
    "test", "thing", "tool", "val",
];

/// Checks the descriptions and schemas of tools for gaps that a model will notice. `haft tools --check` prints the
/// result.
///
/// The advice is in the order of the tools.
pub fn advice(tools: &ToolList) -> Vec<Advice> {
    let mut descriptions = HashMap::new();
    tools.tools().iter().flat_map(|tool| of_tool(tool.definition(), &mut descriptions)).collect()
}

fn of_tool<'a>(definition: &'a ToolDefinition, told: &mut HashMap<String, &'a ToolName>) -> Vec<Advice> {
    let name = definition.name();
    let mut lacks = Lacks { tool: name, found: Vec::new() };
    lacks.of_name("", name.as_str());
    lacks.of_description("", Some(name.as_str()), definition.description());
    let text = words(definition.description()).join(" ");
    if !text.is_empty()
        && let Some(first) = told.insert(text, name)
    {
        lacks.add("", Lack::SameAs(first.to_string()));
    }
    lacks.of_properties("", definition.input_schema().as_value(), 0);
    lacks.found
}

/// Nested arguments are looked at this deep.
const DEPTH: usize = 5;

struct Lacks<'a> {
    tool: &'a ToolName,
    found: Vec<Advice>,
}

impl Lacks<'_> {
    fn add(&mut self, argument: &str, lack: Lack) {
        self.found.push(Advice { tool: self.tool.clone(), argument: argument.to_owned(), lack });
    }

    fn of_name(&mut self, argument: &str, name: &str) {
        let bare = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '_' || it == '-');
        if bare.is_empty() || VAGUE.contains(&bare.to_ascii_lowercase().as_str()) {
            self.add(argument, Lack::VagueName);
        }
    }

    /// `name` is what must not be all that is said.
    fn of_description(&mut self, argument: &str, name: Option<&str>, description: &str) {
        let said = words(description);
        let articles = ["the", "a", "an"];
        if said.is_empty() {
            self.add(argument, Lack::NoDescription);
        } else if name
            .is_some_and(|name| said.iter().filter(|it| !articles.contains(&it.as_str())).eq(&words(name)))
        {
            self.add(argument, Lack::NameOnly);
        } else if description.chars().count() > LONGEST {
            self.add(argument, Lack::TooLong(LONGEST));
        }
    }

    fn of_properties(&mut self, parent: &str, schema: &Value, depth: usize) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        let mut told = HashMap::new();
        for (name, schema) in properties {
            let place = format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"));
            let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            // Where more than text is asked for, the type says the rest.
            self.of_description(&place, takes_any_text(schema).then_some(name), description);
            let text = words(description).join(" ");
            if !text.is_empty()
                && let Some(first) = told.insert(text, name)
            {
                self.add(&place, Lack::SameAs(first.clone()));
            }
            if description.is_empty() {
                self.of_name(&place, name);
            }
            self.of_value(&place, schema, description, depth);
        }
    }

    fn of_value(&mut self, place: &str, schema: &Value, description: &str, depth: usize) {
        let choices = if takes_any_text(schema) { choices(description) } else { Vec::new() };
        if !choices.is_empty() {
            self.add(place, Lack::OpenChoice(choices));
        }
        if depth < DEPTH {
            self.of_properties(place, schema, depth + 1);
            if let Some(items) = schema.get("items") {
                self.of_properties(&format!("{place}/-"), items, depth + 1);
            }
        }
    }
}

/// Whether a value is a string, and nothing narrows it.
fn takes_any_text(schema: &Value) -> bool {
    let narrows = ["enum", "const", "pattern", "format"];
    schema.get("type").is_some_and(|it| it == "string") && narrows.iter().all(|it| schema.get(*it).is_none())
}

/// The words of a text or of a name, as far as they are words.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tool)?;
        if !self.argument.is_empty() {
            write!(f, ", argument {}", self.argument)?;
        }
        match (&self.lack, self.argument.is_empty()) {
            (Lack::NoDescription, true) => {
                write!(f, ": has no description: say what it does, and when to use it")
            }
            (Lack::NoDescription, false) => {
                write!(f, ": has no description: say what it is, and in what form")
            }
            (Lack::NameOnly, _) => {
                write!(f, ": its description only repeats the name: say what the name does not")
            }
            (Lack::SameAs(other), _) => {
                write!(f, ": has the description of \"{other}\": say what tells the two apart")
            }
            (Lack::TooLong(most), _) => {
                write!(
                    f,
                    ": its description is longer than {most} characters, and may be cut: say it shorter"
                )
            }
            (Lack::VagueName, _) => write!(f, ": its name says nothing: name what it does, or what it is"),
            (Lack::OpenChoice(choices), _) => {
                let choices: Vec<_> = choices.iter().map(|choice| format!("{choice:?}")).collect();
                let choices = choices.join(", ");
                write!(
                    f,
                    ": takes any text, and its description lists what it may be: make {choices} an enum"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
