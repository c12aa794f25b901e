//! What a model is offered: the words before the conversation, and what a step must look like.

use std::{marker::PhantomData, sync::Arc};

use haft_core::{Message, ResponseFormat, Schema, ToolDefinition, ToolList, ToolName};
use serde_json::json;

use super::{
    super::{FINISH, Prompt},
    ANSWER, Form,
    example::examples,
};

/// What is the same in every request with the same tools; made once for each list of them.
pub(super) struct Offer<F> {
    form: PhantomData<F>,
    instructions: Option<Arc<Message>>,
    outputs: Option<Schema>,
    pub(super) system: Arc<Message>,
    pub(super) any_step: ResponseFormat,
    pub(super) finish_step: ResponseFormat,
}

impl<F: Form> Offer<F> {
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
        let system = system::<F>(prompt, &offered);
        Self {
            form: PhantomData,
            instructions: prompt.instructions.cloned(),
            outputs: prompt.outputs.cloned(),
            system: Arc::new(Message::system(system)),
            any_step: F::format(&offered),
            finish_step: F::format(&[&finish]),
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
            "properties": {ANSWER: {"type": "string"}},
            "required": [ANSWER],
            "additionalProperties": false,
        }))
        .unwrap_or_else(|_| Schema::object()),
    };
    ToolDefinition::new(ToolName::from_foreign(FINISH), schema).with_description(
        "Gives the final answer and ends. Use it as soon as the observations answer the question.",
    )
}

fn system<F: Form>(prompt: &Prompt<'_>, offered: &[&ToolDefinition]) -> String {
    let mut text = prompt.instructions.map(|message| message.text() + "\n\n").unwrap_or_default();
    text += &format!(
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
