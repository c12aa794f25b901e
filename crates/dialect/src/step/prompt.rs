//! The system message and the response formats of the dialects that write steps as text.

use std::{
    marker::PhantomData,
    sync::{Arc, OnceLock},
};

use haft_core::{
    Message, Schema, ToolDefinition, ToolName,
    model::{ResponseFormat, ToolChoice},
    toolset::ToolList,
};
use serde_json::json;

use super::{ANSWER_KEY, StepFormat, examples::format_examples, is_bare};
use crate::{FINISH, Prompt};

/// The parts shared by model requests with the same tools and outputs. They are cached with the
/// tool list.
pub(super) struct StepPrompt<F> {
    format: PhantomData<F>,
    outputs: Option<Schema>,
    /// The part of the system message that follows the instructions: rules, tools and examples.
    rules: Arc<str>,
    /// The instructions in `system_message`, or `None` if it contains only the rules.
    instructions: Option<Arc<Message>>,
    /// The system message of the first model request with this tool list. It is reused while the
    /// instructions are equal.
    system_message: Arc<Message>,
    any_step: ResponseFormat,
    finish_step: ResponseFormat,
    tool_step: OnceLock<ResponseFormat>,
}

/// A system message with the `rules` that it contains. It is cached in the [`Message`] of its
/// instructions, so that later model requests with the same `rules` reuse it.
struct SystemMessage {
    rules: Arc<str>,
    message: Arc<Message>,
}

impl<F: StepFormat> StepPrompt<F> {
    pub(super) fn get_or_create(prompt: &Prompt<'_>) -> Arc<Self> {
        let cached = prompt.tools.memoize(|tools| Self::new(tools, prompt));
        if cached.outputs.as_ref() == prompt.outputs {
            cached
        } else {
            Arc::new(Self::new(prompt.tools, prompt))
        }
    }

    fn new(tools: &ToolList, prompt: &Prompt<'_>) -> Self {
        let finish = finish_tool(prompt.outputs);
        let offered: Vec<_> = offered_definitions(tools).chain([&finish]).collect();
        let rules: Arc<str> = write_rules::<F>(prompt, &offered).into();
        Self {
            format: PhantomData,
            outputs: prompt.outputs.cloned(),
            instructions: prompt.instructions.cloned(),
            system_message: append_rules(prompt.instructions, &rules),
            rules,
            any_step: F::response_format(&offered),
            finish_step: F::response_format(&[&finish]),
            tool_step: OnceLock::new(),
        }
    }

    /// Returns the system message, which consists of the instructions and the rules. With the
    /// instructions of the first model request, the message is cached in `self`. With other
    /// instructions, it is cached in the [`Message`] of these instructions.
    pub(super) fn system_message(&self, prompt: &Prompt<'_>) -> Arc<Message> {
        match prompt.instructions {
            instructions if self.instructions.as_ref() == instructions => Arc::clone(&self.system_message),
            None => append_rules(None, &self.rules),
            Some(instructions) => {
                let cached = instructions.memoize(|_: &Message| SystemMessage {
                    rules: Arc::clone(&self.rules),
                    message: append_rules(Some(instructions), &self.rules),
                });
                if Arc::ptr_eq(&cached.rules, &self.rules) {
                    Arc::clone(&cached.message)
                } else {
                    append_rules(Some(instructions), &self.rules)
                }
            }
        }
    }

    /// Returns the response format for the tool choice `choice`.
    pub(super) fn response_format(&self, tools: &ToolList, choice: &ToolChoice) -> ResponseFormat {
        match choice {
            ToolChoice::Auto => self.any_step.clone(),
            ToolChoice::None => self.finish_step.clone(),
            ToolChoice::Required => {
                let format = || F::response_format(&offered_definitions(tools).collect::<Vec<_>>());
                self.tool_step.get_or_init(format).clone()
            }
            ToolChoice::Tool(name) => {
                let tool = tools.get(name.as_str());
                tool.map_or(ResponseFormat::Text, |tool| F::response_format(&[tool.definition()]))
            }
        }
    }
}

/// Returns a user message that describes `choice` to the model, or `None` for [`ToolChoice::Auto`].
pub(super) fn tool_choice_message(choice: &ToolChoice) -> Option<Message> {
    let text = match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => format!("No tool can be used now: the next step is \"{FINISH}\"."),
        ToolChoice::Required => format!("The next step is one of the tools, not \"{FINISH}\"."),
        ToolChoice::Tool(name) => format!("The next step is \"{name}\"."),
    };
    Some(Message::user(text))
}

fn append_rules(instructions: Option<&Arc<Message>>, rules: &str) -> Arc<Message> {
    let text = instructions.map(|message| message.text() + "\n\n").unwrap_or_default();
    Arc::new(Message::system(text + rules))
}

/// Returns the definitions of all `tools` except a tool named [`FINISH`]. That tool is withheld,
/// because a call to it would end the run.
fn offered_definitions(tools: &ToolList) -> impl Iterator<Item = &ToolDefinition> {
    let definitions = tools.tools().iter().map(|tool| tool.definition());
    definitions.filter(|definition| {
        let is_reserved = *definition.name() == *FINISH;
        if is_reserved {
            tracing::warn!("a tool named {FINISH:?} is withheld: the name is taken; rename or prefix it");
        }
        !is_reserved
    })
}

fn finish_tool(outputs: Option<&Schema>) -> ToolDefinition {
    let schema = match outputs {
        Some(outputs) => outputs.clone(),
        None => Schema::new(json!({
            "type": "object",
            "properties": {ANSWER_KEY: {"type": "string"}},
            "required": [ANSWER_KEY],
            "additionalProperties": false,
        }))
        .unwrap_or_else(|_| Schema::object()),
    };
    let description = if is_bare(outputs) {
        "Ends the steps. Use it as soon as the observations answer the question. The answer is given afterwards."
    } else {
        "Gives the final answer and ends. Use it as soon as the observations answer the question."
    };
    ToolDefinition::new(ToolName::sanitize(FINISH), schema).with_description(description)
}

fn write_rules<F: StepFormat>(prompt: &Prompt<'_>, offered: &[&ToolDefinition]) -> String {
    let mut text = format!(
        "You work in steps. Each of your replies is one step, written as {}:\n{}\n\
         After each step you are told the observation: what the tool returned. When the observations answer the \
         question, the next step is \"{FINISH}\".\n\nTools:",
        F::DESCRIPTION,
        F::template("what to do next, and why", "one of the tools below")
    );
    for (number, definition) in (1..).zip(offered) {
        text += &format!("\n{number}. {definition}");
    }
    text + "\n\n" + &format_examples::<F>(prompt.outputs)
}
