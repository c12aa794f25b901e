//! Calls between tags and special tokens.

use serde_json::Map;

use super::{
    ParseContext, Parsed, WrittenCalls, delimited, harmony, json_calls, parse_block,
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
pub(super) fn parse<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    for (open, close) in MARKERS {
        if let Some(after) = strip_token(text, open) {
            // Templates put the definitions of tools into `<tools>`, so a name alone is no call.
            let context = context.nested(open != "<tools>")?;
            if open == "[TOOL_CALLS]"
                && let Some(parsed) = parse_mistral(after, context)
            {
                return Some(parsed);
            }
            return parse_marked(after, (open, close), context);
        }
    }
    let harmony = || harmony::parse(text, context);
    xml_functions::parse(text, context).or_else(|| delimited::parse(text, context)).or_else(harmony)
}

/// Skips the separators and the closing tags at the start of `text`. Some models and servers omit
/// the opening tag.
pub(super) fn skip_unmatched(text: &str) -> &str {
    let mut rest = skip_separators(text);
    let tags = || MARKERS.iter().map(|(_, close)| *close).filter(|close| close.starts_with("</"));
    while let Some(after) = tags().find_map(|close| strip_token(rest, close)) {
        rest = skip_separators(after);
    }
    rest
}

/// Parses the text after the opening marker, up to and including the closing marker. The marker in
/// a string of a call is not the closing marker.
fn parse_marked<'t>(
    text: &'t str,
    (open, close): (&str, &str),
    context: ParseContext<'_>,
) -> Option<Parsed<'t>> {
    let mut found = WrittenCalls::default();
    let mut rest = skip_separators(text);
    loop {
        if !found.calls.is_empty() {
            let is_bracket = |letter: char| letter.is_whitespace() || "}]".contains(letter);
            if let Some(after) = strip_token(rest.trim_start_matches(is_bracket), close) {
                return Some((found, after));
            }
            if let Some(after) = strip_token(rest, open) {
                // Qwen 2.5 also writes the opening tag at the end.
                return Some((found, if skip_separators(after).is_empty() { "" } else { rest }));
            }
            if rest.is_empty() {
                return Some((found, rest));
            }
        }
        let (calls, after) = parse_item(rest, close, context)?;
        found.append(calls)?;
        rest = skip_separators(after);
    }
}

/// Parses the next call between two markers.
fn parse_item<'t>(text: &'t str, close: &str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let parsed = xml_functions::parse_glm(text, context).or_else(|| parse_block(text, context));
    parsed.or_else(|| {
        // The text is not truncated, because the closing marker follows.
        let (inner, _) = split_token(text, close)?;
        let rest = text.get(inner.len()..)?;
        let calls = match inner.trim() {
            name if context.is_marked && !name.starts_with(['{', '[']) => context.call(name, Map::new()),
            inner => json_calls::parse_unbalanced(inner, context),
        };
        Some((calls?, rest))
    })
}

/// Parses the text after `[TOOL_CALLS]`: a JSON list, or a name and its arguments, as in
/// `add[ARGS]{"x": 1}` or `add[CALL_ID]a1[ARGS]{"x": 1}`.
fn parse_mistral<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
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
