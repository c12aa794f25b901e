//! Replies with tool calls in the format of the chat template.
//!
//! The model generates free text until it opens a call. A call is opened by a special token
//! (`<tool_call>`, `[TOOL_CALLS]`), by ordinary text, or by the JSON of a call at the beginning of
//! the reply.
//!
//! From then on, decoding is constrained. The name must be the name of a tool in the request, and
//! the arguments must match the schema of this tool. The markup around them is prefilled or forced.
//! Calls are never parsed from free text, so every call is valid.

use haft_core::{
    ToolCall,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, FinishReason, ModelError, ResponseFormat, ToolChoice},
};
use llguidance::api::TopLevelGrammar;
use tracing::debug;

use super::constrained_json::lark_literal;
use super::prose::{ProseDecoder, ProseEnd};
use super::reasoning::ProseOptions;
use super::{EventSender, ReplyWriter};
use crate::conversation::{self, call_id};
use crate::engine::{Engine, EngineError, GeneratedTokens};
use crate::template::{CallFormat, Prompt};

/// A special token that Llama 3 generates before some calls.
const PYTHON_TAG: &str = "<|python_tag|>";
/// Texts that some models generate before the JSON of a call if they omit the opening tag.
const BARE_CALL_PREFIXES: [&str; 4] = ["", "[", "```json", "```"];
/// The maximum number of tokens before the first call, for requests with a JSON response format. If
/// no call begins within this limit, the reply is generated as JSON.
const MAX_PEEK_TOKENS: usize = 24;

pub(super) fn respond(
    engine: &mut Engine,
    request: &ChatRequest,
    event_sender: &EventSender,
) -> Result<ChatResponse, ModelError> {
    let ToolPrompt { format, is_native, prompt } = render_prompt(engine, request)?;
    let writer = ReplyWriter::after(prompt, engine, request, event_sender);
    let first_call = conversation::call_count(request);
    let mut reply = TemplateReply { writer, format, is_native, first_call_index: first_call };
    match reply.writer.may_call()? {
        true => reply.write_reply(),
        // The prompt contains the tools even if the tool choice forbids calls, because a prompt
        // without them would invalidate the cached prefix of the conversation.
        false => {
            let opening = reply.call_opening();
            reply.writer.write_text(opening.tokens)
        }
    }
}

/// Encodes the prompt for `request`.
pub(super) fn encode_prompt(engine: &Engine, request: &ChatRequest) -> Result<Vec<u32>, EngineError> {
    render_prompt(engine, request).map(|prompt| prompt.prompt.tokens)
}

/// A prompt with the format of calls that it presents.
struct ToolPrompt {
    format: CallFormat,
    /// `true` if `format` is the one that the model was trained with. The texts of the format may
    /// then contain special tokens.
    is_native: bool,
    prompt: Prompt,
}

fn render_prompt(engine: &Engine, request: &ChatRequest) -> Result<ToolPrompt, EngineError> {
    match native_prompt(engine, request)? {
        Some(prompt) => Ok(prompt),
        None => {
            let prompt = text_prompt(engine, request)?;
            Ok(ToolPrompt { format: CallFormat::hermes(), is_native: false, prompt })
        }
    }
}

/// Encodes the prompt in the tool form of the chat template.
///
/// Llama's template rejects turns with several calls, which a different model may have generated.
/// Such turns are then split. Returns `None` if the template does not support tools or still
/// rejects the conversation.
fn native_prompt(engine: &Engine, request: &ChatRequest) -> Result<Option<ToolPrompt>, EngineError> {
    let Some(form) = engine.tool_form() else { return Ok(None) };
    let tools = conversation::tool_definitions(request);
    let turns = conversation::turns_with_tools(request);
    let mut prompt = engine.prompt_with_tools(&turns, &tools);
    if matches!(prompt, Err(EngineError::Template(_))) && turns.iter().any(|turn| turn.calls.len() > 1) {
        prompt = engine.prompt_with_tools(&conversation::split_calls(turns), &tools);
    }
    match prompt {
        Ok(prompt) => Ok(Some(ToolPrompt { format: form.call_format.clone(), is_native: true, prompt })),
        Err(EngineError::Template(reason)) => {
            debug!(reason, "presenting tools as text");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Encodes the prompt for a chat template that does not support tools or rejects the conversation.
/// The tools, calls and results are rendered as text in Hermes' format.
fn text_prompt(engine: &Engine, request: &ChatRequest) -> Result<Prompt, EngineError> {
    let turns = conversation::with_tools_as_text(request);
    match engine.prompt_with_tools(&turns, &[]) {
        Err(EngineError::Template(_)) => {
            engine.prompt_with_tools(&conversation::merge_system_into_user(turns), &[])
        }
        prompt => prompt,
    }
}

struct TemplateReply<'a> {
    writer: ReplyWriter<'a>,
    format: CallFormat,
    /// See [`ToolPrompt::is_native`].
    is_native: bool,
    /// The number of calls in the conversation before this reply. If the call format contains ids,
    /// the new calls are numbered from this value.
    first_call_index: usize,
}

/// The event that ends the free text at the beginning of a reply.
enum LeadEnd {
    /// The model generated this message and then opened a call.
    Call(AssistantMessage),
    /// The model ended the reply without a call.
    Answer(Box<ChatResponse>),
}

/// The tokens and texts that open a call.
struct CallOpening {
    tokens: Vec<u32>,
    /// The text before each call, such as `<tool_call>`. It can occur anywhere in the reply. `None`
    /// if the call format has no such text.
    marker: Option<String>,
    /// The texts, without whitespace, that open a call only at the beginning of the reply.
    leading: Vec<String>,
}

impl TemplateReply<'_> {
    fn write_reply(mut self) -> Result<ChatResponse, ModelError> {
        if !self.writer.write_open_reasoning()? {
            return Ok(self.writer.truncated_response());
        }
        let message = match self.writer.request.tool_choice {
            ToolChoice::Auto => match self.write_lead()? {
                LeadEnd::Answer(reply) => return Ok(*reply),
                LeadEnd::Call(message) => message,
            },
            _ => {
                self.writer.separate_from_reasoning();
                AssistantMessage::default()
            }
        };
        let open = self.insert_call_ids(&self.format.open, self.first_call_index);
        self.prefill(&open);
        let mut calls = Vec::new();
        loop {
            let Some(call) = self.write_call(calls.len())? else {
                return Ok(self.truncated_response(message));
            };
            // A model that repeats a call once would repeat it endlessly, so the reply ends here.
            let is_same = |made: &ToolCall| made.name == call.name && made.arguments == call.arguments;
            if calls.iter().any(is_same) {
                break;
            }
            calls.push(call);
            if calls.len() >= self.writer.max_calls() {
                break;
            }
            match self.write_next_opening(calls.len())? {
                Some(true) => {}
                Some(false) => break,
                None => return Ok(self.truncated_response(message)),
            }
        }
        self.writer.finish_with_calls(message, calls)
    }

    /// Generates text without a constraint, up to the first call or the end of the reply. If the
    /// request has a JSON response format and the model opens no call, generates the reply as JSON.
    fn write_lead(&mut self) -> Result<LeadEnd, ModelError> {
        let opening = self.call_opening();
        let is_text = self.writer.request.response_format == ResponseFormat::Text;
        let markers = opening.marker.iter().map(String::as_str).collect();
        let mut prose = ProseDecoder::new(self.writer.event_sender, self.writer.stop_sequences(), markers)
            .with_leading_markers(opening.leading.clone())
            .trimmed();
        let mut options = ProseOptions { stop_tokens: opening.tokens.clone(), ..ProseOptions::default() };
        if !is_text {
            // If the model does not open a call, this text is discarded, and the reply is generated
            // again as JSON.
            prose = prose.without_events();
            options.max_tokens = MAX_PEEK_TOKENS;
        }
        let written = self.writer.generate_prose(&mut prose, &options)?;
        let is_bare = prose.end() == Some(ProseEnd::LeadingMarker);
        let is_call = is_bare || written.stopped_at.is_some() || prose.end() == Some(ProseEnd::Marker);
        if !is_call && is_text {
            let text = prose.finish();
            return Ok(LeadEnd::Answer(Box::new(self.writer.finish_text(text, written.is_complete)?)));
        }
        self.writer.prompt.truncate(self.writer.reply_start);
        if !is_call {
            self.writer.separate_from_reasoning();
            let reply = self.writer.write_structured("")?;
            return Ok(LeadEnd::Answer(Box::new(reply.unwrap_or_else(|| self.writer.truncated_response()))));
        }
        if is_text && !prose.text().trim().is_empty() {
            self.writer.prefill(prose.text());
        }
        let is_other = |token: &u32| opening.tokens.first() != Some(token) || self.opens_with_text();
        self.writer.prompt.extend(written.stopped_at.filter(is_other));
        if is_bare {
            // Another call would begin with the tag that the model has omitted. The reply therefore
            // ends after this call.
            let start = self.format.open.find('{').unwrap_or_default();
            self.format.open.drain(..start);
            self.format.next = None;
        }
        let text = if is_text { prose.finish() } else { String::new() };
        Ok(LeadEnd::Call(if text.is_empty() { AssistantMessage::default() } else { text.into() }))
    }

    /// Generates the name and the arguments of the call at `index` in this reply. Returns `None` if
    /// the call is incomplete, for example at the token limit.
    fn write_call(&mut self, index: usize) -> Result<Option<ToolCall>, ModelError> {
        let middle = self.insert_call_ids(&self.format.middle, self.first_call_index + index);
        // Whitespace before the arguments belongs to the first token of the arguments.
        let (gap, space) = match middle.trim_end() {
            "" => (middle.as_str(), ""),
            gap => middle.split_at(gap.len()),
        };
        let gap = self.encode(gap);
        let names = self.writer.callable_names();
        let alternatives: Vec<_> = names.iter().map(|name| lark_literal(name)).collect();
        let grammar = format!("start: ({}) {}", alternatives.join(" | "), self.grammar_pattern(&gap));
        let written = self.write_grammar(grammar)?;
        if !written.is_complete {
            return Ok(None);
        }
        let behind = self.decode(&gap);
        let name = names.iter().find(|name| [name.as_bytes(), &behind].concat() == written.bytes);
        let Some(name) = name else {
            return Err(ModelError::InvalidResponse("the model wrote no tool name".to_owned()));
        };
        self.writer.write_call(name, space, "")
    }

    /// Generates either the beginning of another call or the end of the turn. `written` is the
    /// number of calls so far.
    ///
    /// Returns `Some(true)` if another call begins, `Some(false)` if the turn ends or the format
    /// permits only one call, and `None` if the token limit was reached.
    fn write_next_opening(&mut self, written: usize) -> Result<Option<bool>, ModelError> {
        let Some(next) = self.format.next.clone() else { return Ok(Some(false)) };
        let index = self.first_call_index + written - 1;
        let next = self.encode(&self.insert_call_ids(&next, index));
        let close = self.encode(&self.insert_call_ids(&self.format.close, index));
        let common = next.iter().zip(&close).take_while(|(next, close)| next == close).count();
        let (shared, next) = next.split_at(common);
        let close = close.get(common..).unwrap_or_default();
        if next.is_empty() {
            return Ok(Some(false));
        }
        self.writer.prompt.extend(shared);
        let grammar = match close {
            [] => format!("start: ({})?", self.grammar_pattern(next)),
            close => format!("start: ({}) | ({})", self.grammar_pattern(next), self.grammar_pattern(close)),
        };
        let written = self.write_grammar(grammar)?;
        let (specials, bytes) = (self.special_tokens(next), self.decode(next));
        let is_next = written.bytes == bytes && self.special_tokens(&written.tokens) == specials;
        Ok(written.is_complete.then_some(is_next && !written.tokens.is_empty()))
    }

    fn write_grammar(&mut self, grammar: String) -> Result<GeneratedTokens, ModelError> {
        let grammar = TopLevelGrammar::from_lark(grammar);
        let constraint = self.writer.engine.grammars().compile(grammar).map_err(EngineError::Constraint)?;
        let job = self.writer.constrained_job(constraint, 0.0);
        Ok(self.writer.generate(job)?)
    }

    fn call_opening(&self) -> CallOpening {
        let open = self.format.open.trim_start();
        let mut opening = CallOpening { tokens: Vec::new(), marker: None, leading: self.bare_calls() };
        if self.is_native {
            let tokenizer = self.writer.engine.tokenizer();
            let first = self.encode(open).first().copied();
            opening.tokens.extend(first.filter(|token| tokenizer.is_special(*token)));
            let tag = tokenizer.special_token(PYTHON_TAG);
            opening.tokens.extend(tag.filter(|tag| first != Some(*tag)));
        }
        let end = open.find(|letter: char| letter.is_whitespace() || letter == '{');
        let marker = end.and_then(|end| open.get(..end)).unwrap_or(open);
        opening.marker = Some(marker.to_owned()).filter(|marker| marker.contains(|it| !"[{".contains(it)));
        opening
    }

    /// Returns the texts that open a call without the opening tag: each of [`BARE_CALL_PREFIXES`],
    /// followed by JSON with a tool name, such as `{"name":"look"`.
    ///
    /// Llama's format begins with this JSON. Models with other formats sometimes omit the tag or
    /// replace it with a code fence.
    fn bare_calls(&self) -> Vec<String> {
        let open: String = self.format.open.split_whitespace().collect();
        let Some(object) = open.find('{').and_then(|start| open.get(start..)) else { return Vec::new() };
        let quote = self.format.middle.trim_start().chars().next().map(String::from).unwrap_or_default();
        let names = self.writer.callable_names();
        let calls = names
            .iter()
            .flat_map(|name| BARE_CALL_PREFIXES.map(|before| format!("{before}{object}{name}{quote}")));
        calls.collect()
    }

    /// Returns `true` if the call format begins with ordinary text and not with a special token.
    fn opens_with_text(&self) -> bool {
        let tokenizer = self.writer.engine.tokenizer();
        let first = self.encode(self.format.open.trim_start()).first().copied();
        !first.is_some_and(|token| tokenizer.is_special(token))
    }

    fn truncated_response(&self, message: AssistantMessage) -> ChatResponse {
        self.writer.build_response(message, FinishReason::Length)
    }

    fn insert_call_ids(&self, text: &str, index: usize) -> String {
        CallFormat::replace_ids(text, &call_id(index), &call_id(index + 1))
    }

    fn prefill(&mut self, text: &str) {
        match self.is_native {
            true => self.writer.prefill_markup(text),
            false => self.writer.prefill(text),
        }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let tokenizer = self.writer.engine.tokenizer();
        if self.is_native { tokenizer.encode_markup(text) } else { tokenizer.encode_content(text) }
    }

    /// Converts `tokens` to an expression of a Lark grammar.
    fn grammar_pattern(&self, tokens: &[u32]) -> String {
        let tokenizer = self.writer.engine.tokenizer();
        let runs = tokens.chunk_by(|a, b| !tokenizer.is_special(*a) && !tokenizer.is_special(*b));
        let runs = runs.map(|run| match run {
            [token] if tokenizer.is_special(*token) => format!("<[{token}]>"),
            run => lark_literal(&String::from_utf8_lossy(&self.decode(run))),
        });
        runs.collect::<Vec<_>>().join(" ")
    }

    fn decode(&self, tokens: &[u32]) -> Vec<u8> {
        let tokenizer = self.writer.engine.tokenizer();
        tokens.iter().flat_map(|token| tokenizer.bytes(*token)).copied().collect()
    }

    fn special_tokens(&self, tokens: &[u32]) -> Vec<u32> {
        let tokenizer = self.writer.engine.tokenizer();
        tokens.iter().copied().filter(|token| tokenizer.is_special(*token)).collect()
    }
}
