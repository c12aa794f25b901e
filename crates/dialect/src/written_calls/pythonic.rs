//! Calls as Python expressions with keyword arguments.

use haft_core::lenient_json;

use super::{ParseContext, Parsed, WrittenCalls};

/// Parses a list of calls, as in `[add(x=1), add(x=2)]`.
pub(super) fn parse_list<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let mut rest = text.strip_prefix('[')?.trim_start();
    let mut found = WrittenCalls::default();
    loop {
        let (calls, after) = parse_call(rest, context)?;
        found.append(calls)?;
        rest = after.trim_start();
        if let Some(after) = rest.strip_prefix(']') {
            return Some((found, after));
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

/// Parses a call, as in `add(x=1)`, `print(add(x=1))` or `add.call(x=1)`.
pub(super) fn parse_call<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    if let Some(printed) = text.strip_prefix("print(") {
        let (calls, rest) = parse_call(printed.trim_start(), context.nested(true)?)?;
        return Some((calls, rest.trim_start().strip_prefix(')')?));
    }
    let (name, arguments) = text.split_once('(')?;
    let (arguments, rest) = lenient_json::parse_closed_keyword_arguments(arguments)?;
    let name = name.trim();
    let names = [Some(name), name.strip_suffix(".call")];
    let name = names.into_iter().rev().flatten().find(|name| context.names.resolve(name).is_some())?;
    Some((context.call(name, arguments)?, rest))
}
