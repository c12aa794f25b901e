//! What a model is offered: the words before the conversation, and the schema of a step.

use std::sync::Arc;

use haft_core::{Message, ResponseFormat, Schema, ToolDefinition, ToolList, ToolName, Value};
use serde_json::{Map, json};

use super::{
    super::{FINISH, Prompt},
    example::examples,
    key,
};

/// What is the same in every request with the same tools; made once for each list of them.
pub(super) struct Offer {
    instructions: Option<Arc<Message>>,
    outputs: Option<Schema>,
    pub(super) system: Arc<Message>,
    pub(super) any_step: ResponseFormat,
    pub(super) finish_step: ResponseFormat,
}

impl Offer {
    pub(super) fn of(prompt: &Prompt<'_>) -> Arc<Self> {
        let kept = prompt.tools.rendering(|tools| Self::new(tools, prompt));
        if kept.fits(prompt) { kept } else { Arc::new(Self::new(prompt.tools, prompt)) }
    }

    fn fits(&self, prompt: &Prompt<'_>) -> bool {
        self.instructions.as_ref() == prompt.instructions && self.outputs.as_ref() == prompt.outputs
    }

    fn new(tools: &ToolList, prompt: &Prompt<'_>) -> Self {
        let finish = finish(prompt.outputs);
        let offered: Vec<_> = definitions(tools).chain([&finish]).collect();
        let system = system(prompt, &offered);
        Self {
            instructions: prompt.instructions.cloned(),
            outputs: prompt.outputs.cloned(),
            system: Arc::new(Message::system(system)),
            any_step: step_of(&offered),
            finish_step: step_of(&[&finish]),
        }
    }
}

/// The tools that can be offered: one that was listed under the name of the end would end the run.
fn definitions(tools: &ToolList) -> impl Iterator<Item = &ToolDefinition> {
    let definitions = tools.tools().iter().map(|tool| tool.definition());
    definitions.filter(|definition| {
        let reserved = *definition.name() == *FINISH;
        if reserved {
            tracing::warn!("a tool named {FINISH:?} is withheld: the name is taken; rename or prefix it");
        }
        !reserved
    })
}

fn finish(outputs: Option<&Schema>) -> ToolDefinition {
    let schema = match outputs {
        Some(outputs) => outputs.clone(),
        None => Schema::new(json!({
            "type": "object",
            "properties": {key::ANSWER: {"type": "string"}},
            "required": [key::ANSWER],
            "additionalProperties": false,
        }))
        .unwrap_or_else(|_| Schema::object()),
    };
    ToolDefinition::new(ToolName::from_foreign(FINISH), schema).with_description(
        "Gives the final answer and ends. Use it as soon as the observations answer the question.",
    )
}

fn system(prompt: &Prompt<'_>, offered: &[&ToolDefinition]) -> String {
    let mut text = prompt.instructions.map(|message| message.text() + "\n\n").unwrap_or_default();
    text += &format!(
        "You work in steps. Each of your replies is one step, written as one JSON object and nothing else:\n\
         {{\"{}\": \"what to do next, and why\", \"{}\": \"one of the tools below\", \"{}\": {{its arguments}}}}\n\
         After each step you are told the observation: what the tool returned. When the observations answer the \
         question, the next step is \"{FINISH}\".\n\nTools:",
        key::THOUGHT,
        key::TOOL_NAME,
        key::TOOL_ARGS
    );
    for (number, definition) in (1..).zip(offered) {
        text += &format!("\n{number}. {definition}");
    }
    text + "\n\n" + &examples(prompt.outputs.is_some())
}

/// A step with one of these tools. Where the schemas together are more than the engine accepts, any JSON object.
fn step_of(offered: &[&ToolDefinition]) -> ResponseFormat {
    let mut definitions = Map::new();
    let alternatives: Vec<_> =
        offered.iter().map(|definition| alternative(definition, &mut definitions)).collect();
    let mut root = Map::from_iter([("anyOf".to_owned(), Value::Array(alternatives))]);
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    match Schema::new(Value::Object(root)) {
        Ok(schema) => ResponseFormat::JsonSchema { name: ToolName::from_foreign("step"), schema },
        Err(error) => {
            tracing::warn!(%error, "replies are not constrained: the schemas of the tools do not go together");
            ResponseFormat::JsonObject
        }
    }
}

fn alternative(definition: &ToolDefinition, definitions: &mut Map<String, Value>) -> Value {
    json!({
        "type": "object",
        "properties": {
            key::THOUGHT: {"type": "string"},
            key::TOOL_NAME: {"const": definition.name()},
            key::TOOL_ARGS: super::embed::embed(definition, definitions),
        },
        "required": [key::THOUGHT, key::TOOL_NAME, key::TOOL_ARGS],
        "additionalProperties": false,
    })
}
