//! Comparison of the words of a question with the words of the tools.
//!
//! A small model chooses a tool by its name, and hardly reads the descriptions. A tool that has
//! rare words in common with the question is therefore preferred.

use std::collections::{HashMap, HashSet};

use haft_core::{Tool, model::ChatRequest};
use serde_json::Value;

/// Words that do not distinguish tools.
const COMMON_WORDS: [&str; 36] = [
    "all", "and", "any", "are", "but", "can", "could", "did", "does", "for", "from", "get", "give", "has",
    "have", "how", "into", "list", "name", "not", "one", "out", "please", "set", "show", "tell", "than",
    "that", "the", "then", "this", "what", "when", "where", "which", "with",
];
const MIN_WORD_LENGTH: usize = 3;
/// The number of letters by which words are compared, so that `price` is equal to `prices`.
const STEM_LENGTH: usize = 5;
/// The score of a common word of the question and the name of a tool.
const NAME_SCORE: f32 = 1.5;

/// The words of the tools of a request.
pub(super) struct ToolWords {
    tools: HashMap<String, Words>,
    /// The number of tools that have a word.
    frequencies: HashMap<String, usize>,
}

struct Words {
    of_name: HashSet<String>,
    of_text: HashSet<String>,
}

impl ToolWords {
    pub(super) fn new(request: &ChatRequest) -> Self {
        let tools: HashMap<_, _> =
            request.tools.tools().iter().map(|tool| words_of_tool(tool.as_ref())).collect();
        let mut frequencies = HashMap::new();
        for stem in tools.values().flat_map(|words| &words.of_text) {
            *frequencies.entry(stem.clone()).or_insert(0) += 1;
        }
        Self { tools, frequencies }
    }

    /// Returns a score for the words that `need` and the tool `name` have in common. It is 0 if
    /// they have none. A word that other tools have, too, scores less.
    pub(super) fn score(&self, need: &str, name: &str) -> f32 {
        let Some(words) = self.tools.get(name) else { return 0.0 };
        let need = stems(need);
        let rarity = |stem: &String| {
            let frequency = self.frequencies.get(stem).copied().unwrap_or(1);
            ((self.tools.len() + 1) as f32 / frequency as f32).ln()
        };
        let text: f32 = need.intersection(&words.of_text).map(rarity).sum();
        if need.is_disjoint(&words.of_name) { text } else { text + NAME_SCORE }
    }
}

fn words_of_tool(tool: &dyn Tool) -> (String, Words) {
    let definition = tool.definition();
    let name = definition.name().to_string();
    let mut text = format!("{} {}", separate_capitals(&name), definition.description());
    for property in definition.input_schema().properties() {
        text.push_str(&format!(" {}", separate_capitals(property.name)));
        add_schema_words(property.schema, &mut text);
    }
    let of_name = stems(&separate_capitals(&name));
    (name, Words { of_name, of_text: stems(&text) })
}

/// Appends the description and the enumeration of `schema`, the schema of a parameter.
fn add_schema_words(schema: &Value, text: &mut String) {
    let list = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    for word in list.chain(schema.get("description")).filter_map(Value::as_str) {
        text.push_str(&format!(" {word}"));
    }
    if let Some(items) = schema.get("items") {
        add_schema_words(items, text);
    }
}

/// Inserts a space before each capital of a name in camel case.
fn separate_capitals(name: &str) -> String {
    name.chars().flat_map(|letter| letter.is_uppercase().then_some(' ').into_iter().chain([letter])).collect()
}

/// Returns the stems of the words of `text`, except [`COMMON_WORDS`].
fn stems(text: &str) -> HashSet<String> {
    let text = text.to_lowercase();
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    let words = words.filter(|word| word.chars().count() >= MIN_WORD_LENGTH && !COMMON_WORDS.contains(word));
    words.map(|word| word.trim_end_matches('s').chars().take(STEM_LENGTH).collect()).collect()
}

#[cfg(test)]
mod tests {
    use haft_core::{ToolDefinition, ToolError, ToolName, ToolOutput, tool::DynamicTool, toolset::ToolList};
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str, room: &[&str]) -> DynamicTool {
        let schema = json!({"type": "object", "properties": {"room": {"enum": room}}});
        let schema = haft_core::Schema::for_arguments(schema).unwrap();
        let definition =
            ToolDefinition::new(ToolName::new(name).unwrap(), schema).with_description(description);
        DynamicTool::new(definition, |_, _| async { Ok::<_, ToolError>(ToolOutput::from("ok")) })
    }

    #[test]
    fn common_words_prefer_a_tool() {
        let tools = [
            tool("setBlinds", "Moves the blinds of a room.", &["kitchen"]),
            tool("set_light", "Changes the light in a room.", &["kitchen", "attic"]),
        ];
        let words = ToolWords::new(&ChatRequest::new([]).with_tools(ToolList::new("test", tools)));
        let score = |need| ["setBlinds", "set_light"].map(|name| words.score(need, name));
        let [blinds, light] = score("Close the blinds");
        assert!(blinds > NAME_SCORE && light == 0.0, "{blinds} {light}");
        let [blinds, light] = score("It is dark in the attic");
        assert!(light > blinds, "{blinds} {light}");
        let [blinds, light] = score("the kitchen");
        assert_eq!(blinds, light);
        assert_eq!(score("set what"), [0.0, 0.0]);
    }
}
