//! Classifies the start of a reply: text, or possibly written calls.

use haft_core::text::JsonStringTracker;

use super::{
    CallableNames, FUNCTOOLS, fence,
    harmony::{self, Message},
    json_calls::{self, KeyRole},
    tags,
    tokens::is_token_prefix,
};

/// The maximum length of the members of an object before the first decisive key, in bytes.
const MAX_UNDECIDED_BYTES: usize = 1 << 14;

/// The classification of a partial reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    /// The text cannot become a written call.
    Prose,
    /// More text is needed.
    Undecided,
    /// Reasoning in a Harmony message. More text is needed, up to a token that ends with `>`.
    Reasoning,
    /// The text is very likely a written call.
    Call,
}

/// Returns `true` if `text`, the start of a reply without a `<think>` block, can become calls with
/// `names`. The result for a text is `true` only if it is `true` for each prefix of the text.
pub(super) fn can_become_calls(text: &str, names: &CallableNames) -> bool {
    classify(text, names) != Prefix::Prose
}

/// Classifies `text`, the start of a reply whose calls have one of `names`.
pub(super) fn classify(text: &str, names: &CallableNames) -> Prefix {
    let text = match harmony::split_analysis(text) {
        Some((_, None)) => return Prefix::Reasoning,
        Some((_, Some(rest))) => rest,
        None => text,
    };
    classify_block(text, names)
}

fn classify_block(text: &str, names: &CallableNames) -> Prefix {
    let text = text.trim_start();
    let Some(first) = text.chars().next() else { return Prefix::Undecided };
    match first {
        '`' => classify_fence(text, names),
        '{' => classify_object(text, names),
        '<' => match harmony::parse_header(text) {
            Message::None => classify_token(text),
            Message::Header => Prefix::Undecided,
            Message::Call { .. } => Prefix::Call,
            Message::Analysis { .. } | Message::Text => Prefix::Prose,
        },
        '[' => match classify_token(text) {
            Prefix::Prose => classify_list(text, names),
            token => token,
        },
        'f' if FUNCTOOLS.starts_with(text) => Prefix::Undecided,
        'f' => match text.strip_prefix(FUNCTOOLS).map(str::trim_start) {
            Some("") => Prefix::Undecided,
            Some(list) if list.starts_with('[') => classify_list(list, names),
            _ => Prefix::Prose,
        },
        _ => Prefix::Prose,
    }
}

fn classify_token(text: &str) -> Prefix {
    tags::openers().fold(Prefix::Prose, |found, opener| {
        let is_shorter = text.chars().count() <= opener.chars().count();
        let start: String = text.chars().take(opener.chars().count()).collect();
        match (found, is_token_prefix(&start, opener)) {
            (Prefix::Call, _) => Prefix::Call,
            (_, true) if is_shorter => Prefix::Undecided,
            (_, true) => Prefix::Call,
            (found, false) => found,
        }
    })
}

fn classify_fence(text: &str, names: &CallableNames) -> Prefix {
    let Some(fenced) = text.strip_prefix("```") else {
        return if "```".starts_with(text) { Prefix::Undecided } else { Prefix::Prose };
    };
    let length = fenced.find(|letter: char| !fence::is_language(letter));
    let (language, body) = fenced.split_at_checked(length.unwrap_or(fenced.len())).unwrap_or((fenced, ""));
    let known = |known: &str| {
        let start = known.get(..language.len()).unwrap_or_default();
        start.eq_ignore_ascii_case(language) && (length.is_none() || known.len() == language.len())
    };
    match fence::LANGUAGES.iter().find(|(language, _)| known(language)) {
        None => Prefix::Prose,
        Some((_, true)) if length.is_some() => Prefix::Call,
        Some(_) if body.trim_start().starts_with('`') => Prefix::Prose,
        Some(_) => classify_block(body, names),
    }
}

/// Classifies an object by its first decisive key: the name of a tool, or a list of calls. Such a
/// key can follow metadata, a thought or the arguments.
fn classify_object(text: &str, names: &CallableNames) -> Prefix {
    let start = text.get(..text.floor_char_boundary(MAX_UNDECIDED_BYTES)).unwrap_or(text);
    match classify_members(start, names) {
        Prefix::Undecided if start.len() < text.len() => Prefix::Prose,
        prefix => prefix,
    }
}

fn classify_members(text: &str, names: &CallableNames) -> Prefix {
    let mut rest = text;
    loop {
        // The `{` before the first member, or the `,` before the next one.
        let Some((key, after)) = quoted(rest.get(1..).unwrap_or_default()) else { return Prefix::Prose };
        let Some(after) = after.map(str::trim_start) else {
            let is_known = json_calls::is_known_key_prefix(key) || names.has_prefix(key);
            return if is_known { Prefix::Undecided } else { Prefix::Prose };
        };
        let role = json_calls::role_of(key);
        if role.is_none() && names.resolve(key).is_none() {
            return Prefix::Prose;
        }
        let Some(value) = after.strip_prefix([':', '=']).map(str::trim_start) else {
            return if after.is_empty() { Prefix::Undecided } else { Prefix::Prose };
        };
        match (role, value.chars().next()) {
            (_, None) => return Prefix::Undecided,
            (None | Some(KeyRole::Name | KeyRole::Wrapper | KeyRole::Calls), Some('{'))
            | (Some(KeyRole::Calls), Some('[')) => return Prefix::Call,
            (Some(KeyRole::Name), _) => {
                return match quoted(value) {
                    Some((name, Some(_))) if names.resolve(name).is_some() => Prefix::Call,
                    Some((name, None)) if names.has_prefix(name) => Prefix::Undecided,
                    _ => Prefix::Prose,
                };
            }
            (Some(KeyRole::Other), _) => {}
            _ => return Prefix::Prose,
        }
        rest = match skip_value(value) {
            None => return Prefix::Undecided,
            Some(rest) if rest.starts_with(',') => rest,
            Some(_) => return Prefix::Prose,
        };
    }
}

/// Returns the text after the value of a member at the start of `text`. Returns `None` if the value
/// is incomplete.
fn skip_value(text: &str) -> Option<&str> {
    let (mut depth, mut strings) = (0_usize, JsonStringTracker::default());
    let (end, _) = text.char_indices().find(|(_, letter)| {
        if strings.feed_open_string(*letter) {
            return false;
        }
        match letter {
            '"' | '\'' => strings.open(*letter),
            ',' | '}' if depth == 0 => return true,
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        false
    })?;
    text.get(end..)
}

fn classify_list(text: &str, names: &CallableNames) -> Prefix {
    let item = text.get(1..).unwrap_or_default().trim_start();
    if item.is_empty() {
        return Prefix::Undecided;
    }
    if item.starts_with('{') {
        return classify_object(item, names);
    }
    match item.split_once('(') {
        Some((name, _)) if names.resolve(name.trim()).is_some() => Prefix::Call,
        None if names.has_prefix(item) => Prefix::Undecided,
        _ => Prefix::Prose,
    }
}

/// Parses a string in quotes at the start of `text`. Returns its content, and the text after it if
/// the string is closed. Returns `None` if the text does not start with a string.
fn quoted(text: &str) -> Option<(&str, Option<&str>)> {
    let text = text.trim_start();
    let Some(quote) = text.chars().next() else { return Some(("", None)) };
    let content = text.strip_prefix(['"', '\''])?;
    Some(content.split_once(quote).map_or((content, None), |(content, rest)| (content, Some(rest))))
}
