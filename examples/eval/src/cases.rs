//! The cases of the evaluation, read from the file `cases.json`.

use std::{collections::HashMap, error::Error};

use clap::ValueEnum;
use haft_core::{
    Message, Schema, ToolCall, ToolDefinition, ToolName,
    call::ToolResult,
    message::{AssistantMessage, Transcript},
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    /// A single tool, and a request that needs a single call.
    OneCall,
    /// Several tools, and a request that needs a single call.
    SeveralTools,
    /// Several calls in one request, some of which need the result of another.
    SeveralCalls,
    /// No tool fits, or a required argument is missing.
    NoTool,
    /// A question after earlier calls, with or without a new call.
    MultiTurn,
}

impl Group {
    pub(crate) const ALL: [Self; 5] =
        [Self::OneCall, Self::SeveralTools, Self::SeveralCalls, Self::NoTool, Self::MultiTurn];
}

/// The content of a case file.
#[derive(Deserialize)]
pub(crate) struct CaseFile {
    toolsets: HashMap<String, Vec<ToolEntry>>,
    pub(crate) cases: Vec<Case>,
}

/// A function definition, as in Chat Completions.
#[derive(Clone, Deserialize)]
struct ToolEntry {
    name: String,
    #[serde(default)]
    description: String,
    parameters: Value,
}

impl ToolEntry {
    fn definition(&self) -> Result<ToolDefinition, Box<dyn Error>> {
        let schema = Schema::new(self.parameters.clone())?;
        let definition = ToolDefinition::new(ToolName::new(&self.name)?, schema);
        Ok(definition.with_description(&self.description))
    }
}

/// A request with the calls and the answer that are right.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) group: Group,
    /// The offered tools: `toolset/tool`, or `toolset` for all of its tools.
    tools: Vec<String>,
    #[serde(default)]
    history: Vec<Turn>,
    pub(crate) question: String,
    pub(crate) calls: Vec<ExpectedCall>,
    /// Groups of texts. A right answer contains at least one text of each group.
    #[serde(default)]
    pub(crate) answer: Vec<Vec<String>>,
}

/// A message of the conversation before the question.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Turn {
    User(String),
    Assistant(String),
    Calls(Vec<EarlierCall>),
}

#[derive(Deserialize)]
struct EarlierCall {
    tool: String,
    arguments: Value,
    result: Value,
}

/// A call that a right run makes.
#[derive(Clone, Deserialize)]
pub(crate) struct ExpectedCall {
    pub(crate) tool: String,
    /// The accepted values of each argument. `null` means that the argument may be omitted.
    pub(crate) arguments: Map<String, Value>,
    /// The result that the tool returns.
    pub(crate) result: Value,
    /// The calls whose results this call needs, as indices into [`Case::calls`].
    #[serde(default)]
    pub(crate) after: Vec<usize>,
}

impl CaseFile {
    /// Reads the cases of this repository.
    pub(crate) fn built_in() -> Result<Self, serde_json::Error> {
        serde_json::from_str(include_str!("../cases.json"))
    }

    /// Returns the definitions of all tools in the toolsets `names`.
    pub(crate) fn toolsets(&self, names: &[&str]) -> Result<Vec<ToolDefinition>, Box<dyn Error>> {
        let missing = |name: &str| format!("there is no toolset {name}");
        let mut definitions = Vec::new();
        for name in names {
            let entries = self.toolsets.get(*name).ok_or_else(|| missing(name))?;
            definitions.extend(entries.iter().map(ToolEntry::definition).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(definitions)
    }

    /// Returns the definitions of the tools that `case` offers.
    pub(crate) fn tools(&self, case: &Case) -> Result<Vec<ToolDefinition>, Box<dyn Error>> {
        let mut definitions = Vec::new();
        for name in &case.tools {
            let (set, tool) =
                name.split_once('/').map_or((name.as_str(), None), |(set, tool)| (set, Some(tool)));
            let entries = self.toolsets.get(set).ok_or_else(|| format!("{}: no toolset {set}", case.id))?;
            let chosen: Vec<_> =
                entries.iter().filter(|entry| tool.is_none_or(|tool| entry.name == tool)).collect();
            if chosen.is_empty() {
                return Err(format!("{}: no tool {name}", case.id).into());
            }
            for entry in chosen {
                definitions.push(entry.definition()?);
            }
        }
        Ok(definitions)
    }
}

impl Case {
    /// Returns the conversation before the question.
    pub(crate) fn transcript(&self) -> Transcript {
        let mut messages = Vec::new();
        for (turn, entry) in self.history.iter().enumerate() {
            match entry {
                Turn::User(text) => messages.push(Message::user(text.clone())),
                Turn::Assistant(text) => messages.push(Message::assistant(text.as_str())),
                Turn::Calls(calls) => {
                    let id = |index: usize| format!("call_{turn}_{index}");
                    let tool_calls = calls.iter().enumerate();
                    let tool_calls = tool_calls.map(|(index, call)| {
                        ToolCall::new(id(index), &call.tool, call.arguments.to_string())
                    });
                    let reply =
                        AssistantMessage { tool_calls: tool_calls.collect(), ..AssistantMessage::default() };
                    messages.push(Message::assistant(reply));
                    messages.extend(calls.iter().enumerate().map(|(index, call)| {
                        Message::tool(ToolResult::done(id(index), &call.tool, to_text(&call.result).into()))
                    }));
                }
            }
        }
        messages.into_iter().collect()
    }
}

/// Converts a result of the file to the text that a tool returns.
pub(crate) fn to_text(result: &Value) -> String {
    result.as_str().map_or_else(|| result.to_string(), str::to_owned)
}
