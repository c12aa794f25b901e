//! Calls as XML elements, with one element per argument.

use serde_json::{Map, Value};

use super::{ParseContext, Parsed, delimited::named_call, tokens::strip_token};

/// The prefixes of the elements that contain a call.
pub(super) const OPENERS: [&str; 4] = ["<function=", "<invoke ", "<antml:invoke ", "<|DSML|invoke "];

/// The XML namespaces that models write before the names of elements.
const NAMESPACES: [&str; 3] = ["", "antml:", "|DSML|"];

/// Parses `<function=…>` or `<invoke name="…">` at the start of `text`.
pub(super) fn parse<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    if let Some(after) = text.strip_prefix("<function=") {
        // Llama on Groq omits the `>`, or writes it after the arguments.
        let is_end = |letter: char| letter.is_whitespace() || ">{".contains(letter);
        let (name, body) = after.split_at_checked(after.find(is_end)?)?;
        let body = body.trim_start();
        return parse_function(name, body.strip_prefix('>').unwrap_or(body), context);
    }
    let (namespace, after) = strip_open_tag(text, "invoke ")?;
    let (name, body) = parse_name_attribute(after)?;
    let mut arguments = Map::new();
    let mut rest = body.trim_start();
    while let Some((_, after)) = strip_open_tag(rest, "parameter ") {
        let (key, after) = parse_name_attribute(after)?;
        let (value, after) = split_close_tag(after, namespace, "parameter")?;
        arguments.insert(key.to_owned(), argument(value));
        rest = after.trim_start();
    }
    let rest = strip_close_tag(rest, namespace, "invoke")?;
    Some((context.call(name, arguments)?, rest))
}

/// Parses the text after `<function=NAME>`: a JSON object or `<parameter=…>` elements.
fn parse_function<'t>(name: &str, body: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    const END: &str = "</function>";
    let mut rest = body.trim_start();
    if rest.starts_with('{') {
        let (calls, rest) = named_call(name, rest, context)?;
        let rest = rest.strip_prefix('>').unwrap_or(rest);
        // The closing tag can be a stop sequence, which the server removes.
        return Some((calls, rest.strip_prefix(END).unwrap_or(rest)));
    }
    let mut arguments = Map::new();
    while let Some(after) = rest.strip_prefix("<parameter=") {
        let (key, after) = after.split_once('>')?;
        let (value, after) = after.split_once("</parameter>")?;
        arguments.insert(key.trim().to_owned(), argument(value));
        rest = after.trim_start();
    }
    Some((context.call(name, arguments)?, rest.strip_prefix(END)?))
}

/// Parses the start of the text in a `<tool_call>` element of GLM: a name, and pairs of `<arg_key>`
/// and `<arg_value>` elements.
pub(super) fn parse_glm<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let (name, mut rest) = text.split_at_checked(text.find("<arg_key>")?)?;
    let mut arguments = Map::new();
    while let Some(after) = rest.strip_prefix("<arg_key>") {
        let (key, after) = after.split_once("</arg_key>")?;
        let (value, after) = after.trim_start().strip_prefix("<arg_value>")?.split_once("</arg_value>")?;
        arguments.insert(key.trim().to_owned(), argument(value));
        rest = after.trim_start();
    }
    Some((context.call(name, arguments)?, rest))
}

/// Returns an argument as a JSON string. The repair of the call converts it to the type in the
/// schema.
fn argument(text: &str) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    Value::String(text.strip_suffix('\n').unwrap_or(text).to_owned())
}

/// Removes `<name` with an optional namespace. Returns the namespace and the rest.
fn strip_open_tag<'t>(text: &'t str, name: &str) -> Option<(&'static str, &'t str)> {
    let after = text.strip_prefix('<')?;
    NAMESPACES
        .into_iter()
        .find_map(|namespace| Some((namespace, strip_token(after, namespace)?.strip_prefix(name)?)))
}

/// Splits `text` at the closing tag of the element `name`.
fn split_close_tag<'t>(text: &'t str, namespace: &str, name: &str) -> Option<(&'t str, &'t str)> {
    text.match_indices("</").find_map(|(index, _)| {
        let rest = strip_close_tag(text.get(index..)?, namespace, name)?;
        Some((text.get(..index)?, rest))
    })
}

fn strip_close_tag<'t>(text: &'t str, namespace: &str, name: &str) -> Option<&'t str> {
    strip_token(text.strip_prefix("</")?, namespace)?.strip_prefix(name)?.strip_prefix('>')
}

/// Parses the attributes of an element up to `>`. Returns the attribute `name`, which must be the
/// first, and the text after the element.
fn parse_name_attribute(text: &str) -> Option<(&str, &str)> {
    let value = text.trim_start().strip_prefix("name=")?;
    let quote = value.chars().next().filter(|quote| "\"'".contains(*quote))?;
    let (name, attributes) = value.get(1..)?.split_once(quote)?;
    let (_, rest) = attributes.split_once('>')?;
    Some((name, rest))
}
