//! Reads the replies of a model: in its dialect, and calls that it wrote as text.

use haft_core::{
    Schema,
    content::Content,
    message::ProviderData,
    model::{ChatResponse, FinishReason, ModelError},
    schema::parse_json,
    toolset::ToolList,
    usage::Usage,
};

use crate::{
    Dialect, Reply, StreamParser,
    declared_keys::is_declared_answer,
    strip_fence,
    thinking::join_reasoning,
    written_calls::{CallableNames, HeldTextParser, WrittenCalls, parse_calls},
};

/// The calls and the answers that the reply to a request can contain. By default, a reply contains
/// no calls that are written as text, and the answer is text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyContext<'a> {
    /// The tools that a call written as text can have. `None` if the model must answer.
    pub tools: Option<&'a ToolList>,
    /// The schema of the answer, [`Prompt::outputs`](crate::Prompt::outputs). `None` if the answer
    /// is text.
    pub outputs: Option<&'a Schema>,
    /// The property of `outputs` that contains the answer. `None` if the answer is the whole
    /// object.
    pub output_property: Option<&'a str>,
    /// `true` if a call to [`FINISH`](crate::FINISH) that is written as text gives the answer.
    /// `false` if the request requires a call of a tool.
    pub may_finish: bool,
}

impl ReplyContext<'_> {
    /// Returns the names that a call written as text can have. Returns `None` if the reply can
    /// contain no calls, or if `dialect` does not read written calls.
    fn callable_names(&self, dialect: &dyn Dialect) -> Option<CallableNames> {
        let tools = self.tools.filter(|tools| !tools.is_empty());
        let finish = self.outputs.filter(|_| self.may_finish);
        let is_callable = dialect.reads_written_calls() && (tools.is_some() || finish.is_some());
        is_callable.then(|| CallableNames::Offered { tools: tools.cloned(), finish: finish.cloned() })
    }

    /// Returns `true` if `text`, which parses as calls, is a value of the outputs or of the output
    /// property.
    fn is_answer(&self, text: &str) -> bool {
        let (Some(outputs), Ok(value)) = (self.outputs, parse_json(strip_fence(text.trim()))) else {
            return false;
        };
        let properties = [self.output_property, None];
        properties.into_iter().any(|property| is_declared_answer(outputs, property, &value))
    }
}

/// Reads a complete `response` in `dialect`, and the calls in its text, see [`read_written_calls`].
pub fn read_reply(dialect: &dyn Dialect, response: ChatResponse, context: &ReplyContext<'_>) -> Reply {
    read_written_calls(dialect, dialect.parse_reply(response, context.outputs), context)
}

/// Takes the calls in the text of `reply` if `dialect` [reads](Dialect::reads_written_calls) them
/// and if the whole text consists of calls of the tools in `context`. Sets
/// [`Reply::has_written_calls`]. Returns the reply unchanged if it has native calls, or if its text
/// is anything else.
pub fn read_written_calls(dialect: &dyn Dialect, mut reply: Reply, context: &ReplyContext<'_>) -> Reply {
    if !can_be_call(&reply) {
        return reply;
    }
    let Some(names) = context.callable_names(dialect) else { return reply };
    let text = reply.message.text();
    // The structured answer can have the same keys as a call.
    let found = parse_calls(&text, &names).filter(|_| !context.is_answer(&text));
    let Some(WrittenCalls { thought, calls }) = found else { return reply };
    tracing::info!(calls = calls.len(), "calls in the text of a reply are taken as calls");
    reply.message.reasoning = join_reasoning(reply.message.reasoning.take(), thought);
    // The data of the provider describes a message without calls.
    reply.message.provider_data = ProviderData::default();
    reply.set_calls(calls);
    let response = ChatResponse {
        finish_reason: FinishReason::ToolCalls,
        usage: reply.usage,
        ..ChatResponse::new(reply.message)
    };
    Reply { has_written_calls: true, ..dialect.parse_reply(response, context.outputs) }
}

/// Reads the calls in the text that the model generated and its server could not use
/// ([`ModelError::InvalidGeneration`]).
///
/// The calls count as native calls, so [`Reply::has_written_calls`] is `false`: the server supports
/// native calls and failed to read these only.
///
/// # Errors
///
/// Returns `error` unchanged if it has no text of calls of the tools in `context`, or if `dialect`
/// does not read written calls.
pub fn read_failed_generation(
    dialect: &dyn Dialect,
    error: ModelError,
    context: &ReplyContext<'_>,
) -> Result<Reply, ModelError> {
    let ModelError::InvalidGeneration { generation: Some(text), .. } = &error else { return Err(error) };
    let response = ChatResponse { usage: Usage::failed_request(), ..ChatResponse::new(text.as_str()) };
    let reply = read_written_calls(dialect, Reply::from(response), context);
    if reply.has_written_calls { Ok(Reply { has_written_calls: false, ..reply }) } else { Err(error) }
}

/// Creates a parser for one streamed reply in `dialect`. The start of a text is held back while it
/// can become a call that [`read_reply`] takes.
///
/// # Examples
///
/// ```
/// use haft_core::model::ChatEvent;
/// use haft_dialect::{JsonReact, ReplyContext, ReplyDelta, stream_parser};
///
/// let mut parser = stream_parser(&JsonReact::new(), &ReplyContext::default());
/// let text = r#"{"thought": "I know it.", "tool_name": "fin"#.to_owned();
/// let deltas = parser.push(&ChatEvent::TextDelta { text });
/// assert_eq!(deltas, [ReplyDelta::Reasoning("I know it.".to_owned())]);
/// ```
pub fn stream_parser(dialect: &dyn Dialect, context: &ReplyContext<'_>) -> Box<dyn StreamParser> {
    let parser = dialect.stream_parser(context.outputs);
    match context.callable_names(dialect) {
        Some(names) => Box::new(HeldTextParser::new(parser, names)),
        None => parser,
    }
}

/// Returns `true` if the reply is complete and has only text, whose first character can start a
/// call or a `<think>` block.
fn can_be_call(reply: &Reply) -> bool {
    let message = &reply.message;
    let has_only_text = message.tool_calls.is_empty() && message.refusal.is_none() && reply.problem.is_none();
    let first = match message.content.first() {
        Some(Content::Text { text }) => text.trim_start().chars().next(),
        _ => None,
    };
    !reply.finish_reason.is_cut() && has_only_text && first.is_some_and(|first| "{[<`f".contains(first))
}
