//! Chat templates, which convert a conversation to the tokens of a prompt.
//!
//! A GGUF file usually contains the Jinja template that its model was trained with. Untrusted text
//! (messages, tool descriptions, arguments) never becomes a special token of the prompt. To ensure
//! this, the template renders a marker in place of the text, and the text is tokenized separately.

mod call_format;
mod json_filter;
mod outside_text;
#[cfg(test)]
mod tests;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};

pub(crate) use self::call_format::CallFormat;
use self::outside_text::OutsideText;
use crate::LoadError;
use crate::gguf::Gguf;
use crate::tokenizer::Tokenizer;

/// The ChatML template, for files without a chat template.
const CHATML_TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The maximum number of template instructions to render a conversation. Even the longest
/// conversations need far fewer.
const TEMPLATE_FUEL: u64 = 10_000_000;

/// A message of a conversation, in the form that chat templates expect.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) content: String,
    /// The tool calls of an assistant turn.
    pub(crate) calls: Vec<TurnCall>,
}

/// A tool call in an assistant turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: serde_json::Value,
}

/// The role of the author of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    /// The role of a tool result. `id` is the id of the tool call, and `name` is the name of the
    /// called tool.
    Tool {
        id: String,
        name: String,
    },
}

impl Role {
    fn name(&self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool { .. } => "tool",
        }
    }
}

impl Turn {
    pub(crate) fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), calls: Vec::new() }
    }
}

/// A compiled chat template.
pub(crate) struct Template {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
    call_format: Option<CallFormat>,
}

impl Template {
    pub(crate) fn read(gguf: &Gguf, tokenizer: &Tokenizer) -> Result<Self, LoadError> {
        let source = gguf.metadata_text("tokenizer.chat_template").unwrap_or(CHATML_TEMPLATE);
        let named = |key: &str| gguf.token_text(key).unwrap_or_default().to_owned();
        let bos_token = named("tokenizer.ggml.bos_token_id");
        let eos_token = named("tokenizer.ggml.eos_token_id");
        let mut template = Self::new(source, bos_token, eos_token)?;
        let ends: Vec<_> = tokenizer
            .end_tokens()
            .filter_map(|token| gguf.token_text_of(token as usize))
            .map(str::to_owned)
            .collect();
        template.call_format = CallFormat::detect(&template, &ends);
        Ok(template)
    }

    fn new(source: &str, bos_token: String, eos_token: String) -> Result<Self, LoadError> {
        let mut environment = Environment::new();
        let unusable = |error: Error| LoadError::InvalidTemplate { reason: error.to_string() };
        let layout = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(layout.map_err(unusable)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(TEMPLATE_FUEL));
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("tojson", json_filter::to_json);
        environment.add_template_owned("chat", without_generation_tags(source)).map_err(unusable)?;
        Ok(Self { environment, bos_token, eos_token, call_format: None })
    }

    /// Returns the template's syntax for tool calls, or `None` if the template does not support
    /// tools.
    pub(crate) fn call_format(&self) -> Option<&CallFormat> {
        self.call_format.as_ref()
    }

    /// Encodes `turns` as prompt tokens, up to the beginning of the model's turn. `tools` are
    /// function definitions in the format of Chat Completions.
    pub(crate) fn encode(
        &self,
        turns: &[Turn],
        tools: &[serde_json::Value],
        tokenizer: &Tokenizer,
    ) -> Result<Vec<u32>, String> {
        let mut outside = OutsideText::new(tokenizer.markup_edges());
        let text = self.render(turns, tools, true, &mut outside).map_err(|error| error.to_string())?;
        Ok(outside.encode(&text, tokenizer))
    }

    fn render(
        &self,
        turns: &[Turn],
        tools: &[serde_json::Value],
        add_generation_prompt: bool,
        outside: &mut OutsideText<'_>,
    ) -> Result<String, Error> {
        let messages: Vec<Value> = turns.iter().map(|turn| to_template_message(turn, outside)).collect();
        // Templates compare `tools` with Python's `None` to detect requests without tools, so an
        // empty list is passed as `None`.
        let tools = match tools {
            [] => Value::from(()),
            tools => tools.iter().map(|tool| outside.template_value(tool)).collect(),
        };
        self.environment.get_template("chat")?.render(context! {
            messages,
            tools,
            add_generation_prompt,
            // Qwen3 and SmolLM3 then reply without a reasoning block, which would take minutes on a
            // CPU.
            enable_thinking => false,
            bos_token => &self.bos_token,
            eos_token => &self.eos_token,
        })
    }
}

fn to_template_message(turn: &Turn, outside: &mut OutsideText<'_>) -> Value {
    let content = match turn.content.is_empty() {
        true => String::new(),
        false => outside.add_as_marker(&turn.content),
    };
    let mut message = vec![("role", Value::from(turn.role.name())), ("content", Value::from(content))];
    if let Role::Tool { id, name } = &turn.role {
        message.push(("tool_call_id", Value::from(id.as_str())));
        message.push(("name", outside.text_or_marker(name)));
    }
    if !turn.calls.is_empty() {
        let calls: Vec<_> = turn.calls.iter().map(|call| to_template_call(call, outside)).collect();
        message.push(("tool_calls", Value::from(calls)));
    }
    Value::from_pairs(message)
}

fn to_template_call(call: &TurnCall, outside: &mut OutsideText<'_>) -> Value {
    let function = Value::from_pairs([
        ("name", outside.text_or_marker(&call.name)),
        ("arguments", outside.template_value(&call.arguments)),
    ]);
    Value::from_pairs([
        ("id", Value::from(call.id.as_str())),
        ("type", Value::from("function")),
        ("function", function),
    ])
}

/// Implements the function `raise_exception` of chat templates. A template calls it to reject a
/// conversation, for example because of the order of roles.
fn raise_exception(reason: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, reason))
}

/// Implements the function `strftime_now` of chat templates: the current local time in the format
/// `format`. The templates of SmolLM3 and Mistral write the date.
fn strftime_now(format: &str) -> Result<String, Error> {
    let now = jiff::Zoned::now();
    let text = jiff::fmt::strtime::format(format, &now);
    text.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Replaces the tags `generation` and `endgeneration` in the template `source` with a condition
/// that is always true. The tags are an extension of `transformers` that marks the assistant's text
/// for training. The template of SmolLM3 has them.
fn without_generation_tags(source: &str) -> String {
    let mut source = source.to_owned();
    for open in ["{%", "{%-"] {
        for close in ["%}", "-%}"] {
            source = source
                .replace(&format!("{open} generation {close}"), &format!("{open} if true {close}"))
                .replace(&format!("{open} endgeneration {close}"), &format!("{open} endif {close}"));
        }
    }
    source
}
