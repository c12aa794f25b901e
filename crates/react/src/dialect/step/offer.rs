//! What a model is offered: the words before the conversation, and what a step must look like.

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

use super::{
    super::{FINISH, Prompt},
    ANSWER, Form,
    example::examples,
};

/// What is the same in every request with the same tools; made once for each list of them.
pub(super) struct Offer<F> {
    form: PhantomData<F>,
    outputs: Option<Schema>,
    /// What is said behind the instructions.
    words: Arc<str>,
    instructions: Option<Arc<Message>>,
    system: Arc<Message>,
    any_step: ResponseFormat,
    finish_step: ResponseFormat,
    tool_step: OnceLock<ResponseFormat>,
}

/// The words of an offer behind other instructions than those that it was first made with.
struct Told {
    words: Arc<str>,
    system: Arc<Message>,
}

impl<F: Form> Offer<F> {
    pub(super) fn of(prompt: &Prompt<'_>) -> Arc<Self> {
        let kept = prompt.tools.rendering(|tools| Self::new(tools, prompt));
        if kept.outputs.as_ref() == prompt.outputs { kept } else { Arc::new(Self::new(prompt.tools, prompt)) }
    }

    fn new(tools: &ToolList, prompt: &Prompt<'_>) -> Self {
        let finish = finish(prompt.outputs);
        let offered: Vec<_> = definitions(tools).chain([&finish]).collect();
        let words: Arc<str> = words::<F>(prompt, &offered).into();
        Self {
            form: PhantomData,
            outputs: prompt.outputs.cloned(),
            instructions: prompt.instructions.cloned(),
            system: behind(prompt.instructions, &words),
            words,
            any_step: F::format(&offered),
            finish_step: F::format(&[&finish]),
            tool_step: OnceLock::new(),
        }
    }

    /// What comes before the conversation; the same message as long as the instructions are the same.
    pub(super) fn system(&self, prompt: &Prompt<'_>) -> Arc<Message> {
        match prompt.instructions {
            instructions if self.instructions.as_ref() == instructions => Arc::clone(&self.system),
            None => behind(None, &self.words),
            Some(instructions) => {
                let tell = |_: &Message| Told {
                    words: Arc::clone(&self.words),
                    system: behind(Some(instructions), &self.words),
                };
                let kept = instructions.rendering(tell);
                if Arc::ptr_eq(&kept.words, &self.words) {
                    Arc::clone(&kept.system)
                } else {
                    behind(Some(instructions), &self.words)
                }
            }
        }
    }

    /// What a reply is constrained to.
    pub(super) fn format(&self, tools: &ToolList, choice: &ToolChoice) -> ResponseFormat {
        match choice {
            ToolChoice::Auto => self.any_step.clone(),
            ToolChoice::None => self.finish_step.clone(),
            ToolChoice::Required => {
                let format = || F::format(&definitions(tools).collect::<Vec<_>>());
                self.tool_step.get_or_init(format).clone()
            }
            ToolChoice::Tool(name) => {
                tools.get(name.as_str()).map_or(ResponseFormat::Text, |tool| F::format(&[tool.definition()]))
            }
        }
    }
}

/// What the model is told where it is not left to it what to do next.
pub(super) fn demand(choice: &ToolChoice) -> Option<Message> {
    let words = match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => format!("No tool can be used now: the next step is \"{FINISH}\"."),
        ToolChoice::Required => format!("The next step is one of the tools, not \"{FINISH}\"."),
        ToolChoice::Tool(name) => format!("The next step is \"{name}\"."),
    };
    Some(Message::user(words))
}

fn behind(instructions: Option<&Arc<Message>>, words: &str) -> Arc<Message> {
    let text = instructions.map(|message| message.text() + "\n\n").unwrap_or_default();
    Arc::new(Message::system(text + words))
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
            "properties": {ANSWER: {"type": "string"}},
            "required": [ANSWER],
            "additionalProperties": false,
        }))
        .unwrap_or_else(|_| Schema::object()),
    };
    ToolDefinition::new(ToolName::sanitize(FINISH), schema).with_description(
        "Gives the final answer and ends. Use it as soon as the observations answer the question.",
    )
}

fn words<F: Form>(prompt: &Prompt<'_>, offered: &[&ToolDefinition]) -> String {
    let mut text = format!(
        "You work in steps. Each of your replies is one step, written as {}:\n{}\n\
         After each step you are told the observation: what the tool returned. When the observations answer the \
         question, the next step is \"{FINISH}\".\n\nTools:",
        F::WRITTEN,
        F::shape("what to do next, and why", "one of the tools below")
    );
    for (number, definition) in (1..).zip(offered) {
        text += &format!("\n{number}. {definition}");
    }
    text + "\n\n" + &examples::<F>(prompt.outputs.is_some())
}
