//! Chat templates, which convert a conversation to the tokens of a prompt.
//!
//! A GGUF file usually contains the Jinja template that its model was trained with. Untrusted text
//! (messages, tool descriptions, arguments) never becomes a special token of the prompt. To ensure
//! this, the template renders a marker in place of the text, and the text is tokenized separately.

mod call_format;
mod json_filter;
mod message;
mod outside_text;
#[cfg(test)]
mod tests;
mod think_block;
mod tool_form;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};

pub(crate) use self::call_format::CallFormat;
use self::message::template_messages;
use self::outside_text::OutsideText;
pub(crate) use self::think_block::{ThinkBlock, ThinkTags};
use self::tool_form::TemplateInput;
pub(crate) use self::tool_form::ToolForm;
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
    /// The reasoning of an assistant turn. Most templates render it only for the turns behind the
    /// last question.
    pub(crate) reasoning: String,
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
        Self { role, content: content.into(), reasoning: String::new(), calls: Vec::new() }
    }
}

/// A compiled chat template.
pub(crate) struct Template {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
    tool_form: Option<ToolForm>,
    /// The tags of the reasoning block in the template, if it has one.
    think_tags: Option<ThinkTags>,
}

/// An encoded prompt.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<u32>,
    /// The reasoning block at the end of the prompt.
    pub(crate) think_block: ThinkBlock,
}

/// The options of [`Template::render`].
#[derive(Clone, Copy)]
struct RenderOptions<'a> {
    input: &'a TemplateInput,
    add_generation_prompt: bool,
    enable_thinking: bool,
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
        let has_token = |text: &str| tokenizer.special_token(text).is_some();
        template.tool_form = ToolForm::detect(&template, &ends, has_token);
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
        environment.add_filter("string", json_filter::to_python_text);
        environment.add_filter("tojson", json_filter::to_json);
        environment.add_template_owned("chat", without_generation_tags(source)).map_err(unusable)?;
        let think_tags = ThinkTags::detect(source);
        Ok(Self { environment, bos_token, eos_token, tool_form: None, think_tags })
    }

    /// Returns the form of tools and calls in the template, or `None` if the template does not
    /// support tools.
    pub(crate) fn tool_form(&self) -> Option<&ToolForm> {
        self.tool_form.as_ref()
    }

    /// Returns the tags of the reasoning block. A template without reasoning has the usual tags.
    pub(crate) fn think_tags(&self) -> ThinkTags {
        self.think_tags.unwrap_or_default()
    }

    /// Encodes `turns` as a prompt, up to the beginning of the model's turn. `tools` are function
    /// definitions in the format of Chat Completions.
    ///
    /// If `thinks` is `true` and the template has a reasoning block, the prompt ends with the
    /// opening tag. If `thinks` is `false`, a template with the variable `enable_thinking` disables
    /// the reasoning.
    pub(crate) fn encode(
        &self,
        turns: &[Turn],
        tools: &[serde_json::Value],
        thinks: bool,
        tokenizer: &Tokenizer,
    ) -> Result<Prompt, String> {
        let mut outside = OutsideText::new(tokenizer.markup_edges());
        let usual = TemplateInput::default();
        let options = RenderOptions {
            input: self.tool_form.as_ref().map_or(&usual, |form| &form.input),
            add_generation_prompt: true,
            enable_thinking: thinks,
        };
        let rendered = self.render(turns, tools, options, &mut outside);
        let mut text = rendered.map_err(|error| error.to_string())?;
        let mut think_block = self.think_tags().block_at_end(&text);
        if let Some(tags) = self.think_tags.filter(|_| thinks && think_block == ThinkBlock::Absent) {
            text.push_str(tags.open);
            text.push_str(tags.space);
            think_block = ThinkBlock::Open;
        }
        Ok(Prompt { tokens: outside.encode(&text, tokenizer), think_block })
    }

    fn render(
        &self,
        turns: &[Turn],
        tools: &[serde_json::Value],
        options: RenderOptions<'_>,
        outside: &mut OutsideText<'_>,
    ) -> Result<String, Error> {
        let messages = template_messages(turns, tools, options.input, outside)?;
        // Templates compare `tools` with Python's `None` to detect requests without tools, so an
        // empty list is passed as `None`.
        let tools = match tools {
            [] => Value::from(()),
            _ if options.input.tools_in_system => Value::from(()),
            tools => tools.iter().map(|tool| outside.template_value(tool)).collect(),
        };
        self.environment.get_template("chat")?.render(context! {
            messages,
            // The name in SmolLM3.
            xml_tools => &tools,
            tools,
            add_generation_prompt => options.add_generation_prompt,
            enable_thinking => options.enable_thinking,
            bos_token => &self.bos_token,
            eos_token => &self.eos_token,
        })
    }
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
