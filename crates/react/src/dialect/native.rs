//! Function calling: the model takes tools, and asks for calls by itself.

use std::sync::Arc;

use haft_core::{
    ChatEvent, ChatRequest, ChatResponse, Content, DynamicTool, Schema, Tool, ToolChoice, ToolDefinition,
    ToolError, ToolList, ToolName, ToolOutput,
};

use super::{Delta, Dialect, FINISH, Listener, Prompt, take_finish};
use crate::Reply;

/// Function calling, for models whose API has it.
///
/// An answer that is text is the text of a reply without calls. Where [outputs](Prompt::outputs) are declared the
/// model gives them by calling [`FINISH`], a tool that is offered besides the others and never run.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeCalls;

impl Dialect for NativeCalls {
    fn name(&self) -> &'static str {
        "native"
    }

    fn request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let (tools, tool_choice) = match (prompt.outputs, prompt.must_answer) {
            (None, false) => (prompt.tools.clone(), ToolChoice::Auto),
            (None, true) => (prompt.tools.clone(), ToolChoice::None),
            (Some(outputs), false) => {
                (Offered::of(prompt.tools, outputs).with_finish.clone(), ToolChoice::Required)
            }
            (Some(outputs), true) => {
                (Offered::of(prompt.tools, outputs).finish.clone(), ToolChoice::Required)
            }
        };
        ChatRequest {
            instructions: prompt.instructions.cloned(),
            messages: prompt.messages.clone(),
            tools,
            tool_choice,
            settings: prompt.settings.clone(),
            ..ChatRequest::default()
        }
    }

    fn fold(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        let mut reply = Reply::from(response);
        if outputs.is_some()
            && let Some(arguments) = take_finish(&mut reply.message)
        {
            reply.message.content = match serde_json::from_str(&arguments) {
                Ok(value) => vec![Content::Json { value }],
                Err(_) => vec![Content::Text { text: arguments }],
            };
        }
        reply
    }

    fn listener(&self, _outputs: Option<&Schema>) -> Box<dyn Listener> {
        Box::new(Native)
    }

    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str> {
        outputs.map(|_| FINISH)
    }
}

/// The tools of a prompt with [`FINISH`]; made once for each list of tools.
struct Offered {
    outputs: Schema,
    with_finish: ToolList,
    finish: ToolList,
}

impl Offered {
    fn of(tools: &ToolList, outputs: &Schema) -> Arc<Self> {
        let kept = tools.rendering(|tools| Self::new(tools, outputs));
        if kept.outputs == *outputs { kept } else { Arc::new(Self::new(tools, outputs)) }
    }

    fn new(tools: &ToolList, outputs: &Schema) -> Self {
        let finish: Arc<dyn Tool> = Arc::new(finish(outputs));
        let all = tools.tools().iter().filter(|tool| *tool.definition().name() != *FINISH).chain([&finish]);
        Self {
            outputs: outputs.clone(),
            with_finish: ToolList::gather(all.map(|tool| ("react", Arc::clone(tool))), Vec::new()),
            finish: ToolList::new("react", [Arc::clone(&finish)]),
        }
    }
}

fn finish(outputs: &Schema) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::from_foreign(FINISH), outputs.clone())
        .with_description("Gives the final answer. Use it alone, as soon as everything is known.");
    DynamicTool::new(definition, |_, _| async {
        Err::<ToolOutput, _>(ToolError::Denied("the answer is given to the run, not to a tool".to_owned()))
    })
}

struct Native;

impl Listener for Native {
    fn hear(&mut self, event: &ChatEvent) -> Vec<Delta> {
        match event {
            ChatEvent::TextDelta { text } => vec![Delta::Text(text.clone())],
            ChatEvent::ReasoningDelta { text } => vec![Delta::Thought(text.clone())],
            _ => Vec::new(),
        }
    }
}
