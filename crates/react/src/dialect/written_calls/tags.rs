//! Calls between tags and special tokens.

use super::{
    Context, Parsed, WrittenCalls, delimited, json_calls, parse_blocks, pythonic,
    tokens::{skip_separators, split_token, strip_token},
    xml_functions,
};

/// Pairs of markers. The text between them consists of calls. The second marker may be missing at
/// the end of the reply, because it can be a stop sequence.
const MARKERS: [(&str, &str); 19] = [
    // Hermes, Qwen, Granite, GLM, Qwen3-Coder
    ("<tool_call>", "</tool_call>"),
    ("<tool_calls>", "</tool_calls>"),
    ("<toolcall>", "</toolcall>"),
    ("<tool_use>", "</tool_use>"),
    ("<tools>", "</tools>"),
    ("<function_call>", "</function_call>"),
    // Claude
    ("<function_calls>", "</function_calls>"),
    ("<antml:function_calls>", "</antml:function_calls>"),
    // MiniMax
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    // DeepSeek V3.2
    ("<|DSML|function_calls>", "</|DSML|function_calls>"),
    ("<|DSML|tool_calls>", "</|DSML|tool_calls>"),
    // Phi-4, Granite
    ("<|tool_call|>", "<|/tool_call|>"),
    // LFM2, MiniCPM
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    // InternLM
    ("<|action_start|><|plugin|>", "<|action_end|>"),
    // Command R
    ("<|START_ACTION|>", "<|END_ACTION|>"),
    // Llama
    ("<|python_tag|>", "<|eom_id|>"),
    ("<|start_tool_call|>", "<|end_tool_call|>"),
    // Mistral
    ("[TOOL_CALLS]", "[/TOOL_CALLS]"),
    ("[TOOL_CALL]", "[/TOOL_CALL]"),
];

/// The markers of [`MARKERS`] and of the other families, as prefixes of a block.
pub(super) fn openers() -> impl Iterator<Item = &'static str> {
    MARKERS.iter().map(|(open, _)| *open).chain(xml_functions::OPENERS).chain(delimited::OPENERS)
}

/// Parses the tags at the start of `text`.
pub(super) fn parse<'t>(text: &'t str, context: Context<'_>) -> Option<Parsed<'t>> {
    for (open, close) in MARKERS {
        if let Some(after) = strip_token(text, open) {
            let context = context.nested(true)?;
            if open == "[TOOL_CALLS]"
                && let Some(parsed) = parse_mistral(after, context)
            {
                return Some(parsed);
            }
            let (inner, rest) = split_token(after, close).unwrap_or((after, ""));
            return Some((parse_inner(inner, context)?, rest));
        }
    }
    xml_functions::parse(text, context).or_else(|| delimited::parse(text, context))
}

fn parse_inner(inner: &str, context: Context<'_>) -> Option<WrittenCalls> {
    xml_functions::parse_glm(inner, context).or_else(|| parse_blocks(inner, context)).or_else(|| {
        let (calls, rest) = pythonic::parse_call(inner.trim_start(), context)?;
        skip_separators(rest).is_empty().then_some(calls)
    })
}

/// Parses the text after `[TOOL_CALLS]`: a JSON list, or a name and its arguments, as in
/// `add[ARGS]{"x": 1}` or `add[CALL_ID]a1[ARGS]{"x": 1}`.
fn parse_mistral<'t>(text: &'t str, context: Context<'_>) -> Option<Parsed<'t>> {
    let text = text.trim_start();
    if text.starts_with(['[', '{']) {
        return json_calls::parse(text, context);
    }
    let (head, arguments) = match text.split_once("[ARGS]") {
        Some(parts) => parts,
        None => text.split_at_checked(text.find('{')?)?,
    };
    let name = head.split("[CALL_ID]").next()?;
    delimited::named_call(name, arguments, context)
}
