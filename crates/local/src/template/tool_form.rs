//! The form in which a chat template expects tools, calls and results.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::call_format::CallFormat;
use super::outside_text::OutsideText;
use super::{RenderOptions, Role, Template, Turn, TurnCall};

/// The form in which a model presents tools and makes calls, according to its chat template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolForm {
    pub(crate) call_format: CallFormat,
    /// The form of the template's input.
    pub(super) input: TemplateInput,
}

/// The form of the variables that a chat template reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TemplateInput {
    /// `true` if the template reads the tools from the field `tools` of the system message, as the
    /// text of a JSON array. `false` if it reads the variable `tools`.
    pub(super) tools_in_system: bool,
    /// The format of calls in the content of an assistant message. `None` if the template renders
    /// the field `tool_calls`.
    pub(super) calls_as_content: Option<CallFormat>,
    /// The role of a message with a tool result.
    pub(super) result_role: &'static str,
}

impl Default for TemplateInput {
    /// Returns the usual form: the variable `tools`, the field `tool_calls` and the role `tool`.
    fn default() -> Self {
        Self { tools_in_system: false, calls_as_content: None, result_role: "tool" }
    }
}

impl ToolForm {
    /// Detects the tool form of `template`. `ends` contains the texts of the end-of-turn tokens,
    /// and `has_token` returns `true` for the spellings of special tokens in the vocabulary.
    ///
    /// Returns `None` if the template does not render tools or results, or if it renders calls in a
    /// form other than a name followed by a JSON object of arguments.
    pub(super) fn detect(
        template: &Template,
        ends: &[String],
        has_token: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let variable = TemplateInput::default();
        // Phi-4-mini. Its template writes any role as a token.
        let role = if has_token("<|tool_response|>") { "tool_response" } else { "tool" };
        let system = TemplateInput { tools_in_system: true, result_role: role, ..TemplateInput::default() };
        let probe = |input| Probe { template, input, tools: [probe_tool()] };
        let mut probe =
            [variable, system].into_iter().map(probe).find(|probe| probe.renders_tools().is_some())?;
        let call_format = match probe.renders_calls()? {
            true => CallFormat::detect(&probe, ends)?,
            false => {
                let format = known_format(&probe.renders_tools()?, has_token)?;
                probe.input.calls_as_content = Some(format.clone());
                format
            }
        };
        probe.renders_results()?;
        Some(Self { call_format, input: probe.input })
    }
}

/// Returns the format of calls for a template that lists tools but does not render calls. `listing`
/// is the rendered test conversation with a tool.
fn known_format(listing: &str, has_token: impl Fn(&str) -> bool) -> Option<CallFormat> {
    if has_token("<|tool_call|>") && has_token("<|/tool_call|>") {
        return Some(CallFormat::phi4());
    }
    listing.contains(CallFormat::HERMES_TAG).then(CallFormat::hermes)
}

/// The id of the first call in a test conversation. Mistral's template requires nine letters or
/// digits.
pub(super) const ID: &str = "probeid00";
/// The id of the second call in a test conversation.
pub(super) const NEXT_ID: &str = "probeid01";
pub(super) const NAME: &str = "probe_name_first";
pub(super) const NEXT_NAME: &str = "probe_name_next";
pub(super) const KEY: &str = "probe_key";
pub(super) const VALUE: &str = "probe_value";
pub(super) const NEXT_VALUE: &str = "probe_other_value";
pub(super) const ANSWER: &str = "probe_answer";
const DESCRIPTION: &str = "probe_description";
const QUESTION: &str = "probe_question";
const RESULT: &str = "probe_result";

/// Renders test conversations, whose texts occur nowhere else.
pub(super) struct Probe<'a> {
    template: &'a Template,
    input: TemplateInput,
    tools: [Value; 1],
}

impl Probe<'_> {
    /// Returns the rendered question with a tool, or `None` if the template ignores the tool.
    fn renders_tools(&self) -> Option<String> {
        let without_tools = self.render_with(&[], &[question()], true)?;
        let with_tools = self.render_with(&self.tools, &[question()], true)?;
        let lists_tools = !without_tools.contains(DESCRIPTION) && with_tools.contains(DESCRIPTION);
        lists_tools.then_some(with_tools)
    }

    /// Returns `true` if the template renders the field `tool_calls`. Returns `None` if it rejects
    /// the conversation.
    fn renders_calls(&self) -> Option<bool> {
        let rendered = self.render(&[question(), call_turn(vec![first_call()])], true)?;
        Some(rendered.contains(NAME) || rendered.contains(VALUE))
    }

    /// Returns `Some` if the template renders tool results.
    fn renders_results(&self) -> Option<()> {
        let result = Turn::new(Role::Tool { id: ID.to_owned(), name: NAME.to_owned() }, RESULT);
        let turns = [question(), call_turn(vec![first_call()]), result];
        self.render(&turns, true)?.contains(RESULT).then_some(())
    }

    /// Returns a rendered conversation with the answer [`ANSWER`], without a generation prompt.
    pub(super) fn render_answer(&self) -> Option<String> {
        self.render(&[question(), Turn::new(Role::Assistant, ANSWER)], false)
    }

    /// Returns a rendered conversation with one call, without a generation prompt.
    pub(super) fn render_call(&self) -> Option<String> {
        self.render(&[question(), call_turn(vec![first_call()])], false)
    }

    /// Returns a rendered conversation with two calls in one turn, without a generation prompt.
    pub(super) fn render_two_calls(&self) -> Option<String> {
        let calls = vec![first_call(), probe_call(NEXT_ID, NEXT_NAME, NEXT_VALUE)];
        self.render(&[question(), call_turn(calls)], false)
    }

    fn render(&self, turns: &[Turn], add_generation_prompt: bool) -> Option<String> {
        self.render_with(&self.tools, turns, add_generation_prompt)
    }

    fn render_with(&self, tools: &[Value], turns: &[Turn], add_generation_prompt: bool) -> Option<String> {
        let no_edges = HashSet::new();
        let mut outside = OutsideText::new(&no_edges);
        let options = RenderOptions { input: &self.input, add_generation_prompt, enable_thinking: false };
        let rendered = self.template.render(turns, tools, options, &mut outside).ok()?;
        let text = outside.replace_markers(&rendered);
        text.contains(QUESTION).then_some(text)
    }
}

fn question() -> Turn {
    Turn::new(Role::User, QUESTION)
}

fn call_turn(calls: Vec<TurnCall>) -> Turn {
    Turn { calls, ..Turn::new(Role::Assistant, "") }
}

fn first_call() -> TurnCall {
    probe_call(ID, NAME, VALUE)
}

fn probe_call(id: &str, name: &str, value: &str) -> TurnCall {
    TurnCall { id: id.to_owned(), name: name.to_owned(), arguments: json!({KEY: value}) }
}

fn probe_tool() -> Value {
    let properties = json!({"probe_parameter": {"type": "string", "description": "A text."}});
    let parameters = json!({"type": "object", "properties": properties, "required": ["probe_parameter"]});
    let function = json!({"name": "probe_tool", "description": DESCRIPTION, "parameters": parameters});
    json!({"type": "function", "function": function})
}
