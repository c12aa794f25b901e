//! Calls between delimiter tokens: a name, a separator and the arguments.

use haft_core::lenient_json;

use super::{
    ParseContext, Parsed, WrittenCalls,
    tokens::{skip_separators, split_token, strip_token},
};

/// The first tokens of a call in the formats of this file.
pub(super) const OPENERS: [&str; 3] =
    ["<|tool_calls_begin|>", "<|tool_call_begin|>", "<|tool_calls_section_begin|>"];

/// The tokens around a list of calls.
const SECTIONS: [(&str, &str); 2] = [
    ("<|tool_calls_begin|>", "<|tool_calls_end|>"),
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
];
const CALL_BEGIN: &str = "<|tool_call_begin|>";
const CALL_END: &str = "<|tool_call_end|>";
/// The tokens between the name and the arguments, of DeepSeek and Kimi.
const SEPARATORS: [&str; 2] = ["<|tool_sep|>", "<|tool_call_argument_begin|>"];

/// Parses the delimited calls at the start of `text`.
pub(super) fn parse<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    for (open, close) in SECTIONS {
        if let Some(after) = strip_token(text, open) {
            return parse_section(after, close, context);
        }
    }
    parse_call(text, context)
}

fn parse_section<'t>(text: &'t str, close: &str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let mut found = WrittenCalls::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) = strip_token(rest, close) {
            rest = after;
            break;
        }
        let (calls, after) = parse_call(rest, context)?;
        found.append(calls)?;
        rest = after.trim_start();
    }
    (!found.calls.is_empty()).then_some((found, rest))
}

/// Parses a call of DeepSeek or Kimi. DeepSeek R1 writes the type of the call before the separator,
/// and the name and a code fence after it. The other models write the name before the separator.
fn parse_call<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let text = strip_token(text, CALL_BEGIN)?;
    let (head, tail) = SEPARATORS.iter().find_map(|separator| split_token(text, separator))?;
    let tail = tail.trim_start();
    let (name, arguments) = if tail.starts_with('{') { (head, tail) } else { tail.split_once('\n')? };
    let arguments = arguments.trim_start();
    let (arguments, is_fenced) = match arguments.strip_prefix("```") {
        Some(fenced) => (fenced.split_once('\n')?.1, true),
        None => (arguments, false),
    };
    let (calls, rest) = named_call(name, arguments, context)?;
    let rest = rest.trim_start();
    let rest = if is_fenced { rest.strip_prefix("```")?.trim_start() } else { rest };
    Some((calls, strip_token(rest, CALL_END).unwrap_or(rest)))
}

/// Returns the call to `name` with the JSON object at the start of `arguments`, and the text after
/// the object.
pub(super) fn named_call<'t>(
    name: &str,
    arguments: &'t str,
    context: ParseContext<'_>,
) -> Option<Parsed<'t>> {
    let parsed = lenient_json::parse_leading_object(arguments.trim_start()).filter(|it| it.is_complete)?;
    Some((context.call(name, parsed.object)?, skip_separators(parsed.rest)))
}
