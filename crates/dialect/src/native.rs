//! The dialect of models with native function calling.

use std::sync::Arc;

use haft_core::{
    Schema, Tool, ToolDefinition, ToolError, ToolName, ToolOutput,
    content::Content,
    model::{ChatEvent, ChatRequest, ChatResponse, ResponseFormat, ToolChoice},
    tool::DynamicTool,
    toolset::ToolList,
};

use crate::{Dialect, FINISH, Prompt, Reply, ReplyDelta, StreamParser};

/// The dialect of models whose API supports function calling.
///
/// A reply without tool calls is the answer. If [outputs](Prompt::outputs) are declared, the model
/// request has an additional tool [`FINISH`], and the arguments of a call to it are the answer.
/// Such a call is never executed. It ends the run, unless the reply also calls other tools. With
/// [`ToolChoice::Required`], the model request does not contain [`FINISH`].
///
/// Small models, and servers without a parser for the format of the model, write calls as text. If
/// the whole text of a reply consists of calls of offered tools, [`read_reply`](crate::read_reply)
/// takes them as calls. A
/// `<think>` block can precede the calls. Each call is recorded as a
/// [repair](haft_core::schema::RepairKind::WrittenAsText). The formats of the common model families
/// are read, for example JSON in a code fence, `<tool_call>` tags, `[add(x=1)]` and `[TOOL_CALLS]`.
/// Any other text stays text, for example an explanation with an example of a call.
///
/// Reasoning that ends with `</think>` but has no opening tag is not recognized, because the text
/// is streamed before the tag. The chat templates of some models, such as DeepSeek R1 and Qwen3
/// Thinking, put the opening tag into the prompt. Start the server with its reasoning parser.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeCalls;

impl Dialect for NativeCalls {
    fn name(&self) -> &'static str {
        "native"
    }

    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let choice = if prompt.must_answer { &ToolChoice::None } else { prompt.tool_choice };
        let (tools, tool_choice) = match (prompt.outputs, choice) {
            (None, choice) => (prompt.tools.clone(), choice.clone()),
            (Some(outputs), ToolChoice::Auto) => {
                (FinishTools::get_or_create(prompt.tools, outputs).with_finish.clone(), ToolChoice::Required)
            }
            (Some(outputs), ToolChoice::None) => {
                (FinishTools::get_or_create(prompt.tools, outputs).only_finish.clone(), ToolChoice::Required)
            }
            // If `FINISH` were offered, a call to `FINISH` would satisfy `ToolChoice::Required`,
            // and the model would not have to call a real tool.
            (Some(outputs), ToolChoice::Required) => (
                FinishTools::get_or_create(prompt.tools, outputs).without_finish.clone(),
                ToolChoice::Required,
            ),
            (Some(outputs), ToolChoice::Tool(name)) => (
                FinishTools::get_or_create(prompt.tools, outputs).with_finish.clone(),
                ToolChoice::Tool(name.clone()),
            ),
        };
        ChatRequest {
            instructions: prompt.instructions.cloned(),
            messages: prompt.messages.clone(),
            tools,
            tool_choice,
            response_format: ResponseFormat::Text,
            settings: prompt.settings.clone(),
            ..ChatRequest::default()
        }
    }

    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        let mut reply = Reply::from(response);
        if outputs.is_some()
            && let Some(arguments) = reply.take_finish()
        {
            reply.message.content = match arguments.value() {
                Ok(value) => vec![Content::Json { value: value.clone() }],
                Err(_) => vec![Content::Text { text: arguments.to_string() }],
            };
        }
        reply
    }

    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
        Box::new(NativeStreamParser { has_outputs: outputs.is_some(), finish: None })
    }

    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str> {
        outputs.map(|_| FINISH)
    }

    fn reads_written_calls(&self) -> bool {
        true
    }
}

/// The tool lists of a run that declares outputs: the original tools plus [`FINISH`], the original
/// tools without [`FINISH`], and [`FINISH`] alone. This value is cached in the original
/// [`ToolList`].
struct FinishTools {
    outputs: Schema,
    with_finish: ToolList,
    without_finish: ToolList,
    only_finish: ToolList,
}

impl FinishTools {
    fn get_or_create(tools: &ToolList, outputs: &Schema) -> Arc<Self> {
        let cached = tools.memoize(|tools| Self::new(tools, outputs));
        if cached.outputs == *outputs { cached } else { Arc::new(Self::new(tools, outputs)) }
    }

    fn new(tools: &ToolList, outputs: &Schema) -> Self {
        let finish: Arc<dyn Tool> = Arc::new(finish_tool(outputs));
        let others = || tools.tools().iter().filter(|tool| *tool.definition().name() != *FINISH);
        let gather = |tools: &mut dyn Iterator<Item = &Arc<dyn Tool>>| {
            ToolList::collect(tools.map(|tool| ("react", Arc::clone(tool))), Vec::new())
        };
        Self {
            outputs: outputs.clone(),
            with_finish: gather(&mut others().chain([&finish])),
            without_finish: gather(&mut others()),
            only_finish: ToolList::new("react", [Arc::clone(&finish)]),
        }
    }
}

fn finish_tool(outputs: &Schema) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::sanitize(FINISH), outputs.clone())
        .with_description("Gives the final answer. Use it alone, as soon as everything is known.");
    DynamicTool::new(definition, |_, _| async {
        Err::<ToolOutput, _>(ToolError::Denied("the answer is given to the run, not to a tool".to_owned()))
    })
}

struct NativeStreamParser {
    has_outputs: bool,
    /// The index of the first call to [`FINISH`], whose arguments are the structured answer.
    finish: Option<usize>,
}

impl StreamParser for NativeStreamParser {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        match event {
            ChatEvent::TextDelta { text } => vec![ReplyDelta::Text(text.clone())],
            ChatEvent::ReasoningDelta { text } => vec![ReplyDelta::Reasoning(text.clone())],
            ChatEvent::ToolCallStarted { index, name, .. } if self.has_outputs && name == FINISH => {
                self.finish.get_or_insert(*index);
                Vec::new()
            }
            ChatEvent::ToolCallStarted { index, id, name } => {
                vec![ReplyDelta::CallStarted { index: *index, id: id.clone(), name: name.clone() }]
            }
            ChatEvent::ToolCallDelta { index, arguments } if self.finish == Some(*index) => {
                vec![ReplyDelta::Output(arguments.clone())]
            }
            ChatEvent::ToolCallDelta { index, arguments } => {
                vec![ReplyDelta::CallArguments { index: *index, arguments: arguments.clone() }]
            }
            _ => Vec::new(),
        }
    }
}
