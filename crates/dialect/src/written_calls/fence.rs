//! Calls in code fences.

use super::{ParseContext, Parsed, parse_blocks, tokens::skip_separators};

/// The languages of fences whose text can be a call. The flag is `true` if such a fence contains
/// only calls. A Python fence can be an example, so it is accepted only within other markers.
pub(super) const LANGUAGES: [(&str, bool); 13] = [
    ("", false),
    ("json", false),
    ("jsonc", false),
    ("json5", false),
    ("xml", false),
    ("tool", true),
    ("tool_call", true),
    ("tool_calls", true),
    ("tool_code", true),
    ("tool_use", true),
    ("function", true),
    ("function_call", true),
    ("action", true),
];

/// Parses the code fence at the start of `text`. The closing fence may be missing at the end of the
/// reply.
pub(super) fn parse<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let fenced = text.strip_prefix("```")?;
    let length = fenced.find(|letter: char| !is_language(letter)).unwrap_or(fenced.len());
    let (language, body) = fenced.split_at_checked(length)?;
    let is_marked = match LANGUAGES.iter().find(|(known, _)| language.eq_ignore_ascii_case(known)) {
        Some((_, is_marked)) => *is_marked,
        None if context.is_marked && language == "python" => true,
        None => return None,
    };
    // A fence within a string of the body does not end the body, so the last fence is tried too.
    let ends = [body.split_once("```"), body.rsplit_once("```"), Some((body, ""))];
    let context = context.nested(is_marked)?;
    ends.into_iter()
        .flatten()
        .find_map(|(inner, rest)| Some((parse_blocks(inner, context)?, skip_separators(rest))))
}

pub(super) fn is_language(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
