//! Holds back the start of a streamed reply while it can become a written call.

use haft_core::{
    model::ChatEvent,
    text::{CLOSE_TAG, OPEN_TAG},
};

use super::{
    super::{ReplyDelta, StreamParser},
    CallableNames, FUNCTOOLS, MAX_TEXT_BYTES, fence, json_calls, parse_calls, tags,
    tokens::is_token_prefix,
};
use crate::dialect::json::key_names;

/// The state of a text that a model has written so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    /// The text cannot become a written call.
    Prose,
    /// More text is needed.
    Undecided,
    /// The text is very likely a written call.
    Call,
}

/// Returns `true` if `text`, the start of a reply, can become calls with `names`. The result for a
/// text is `true` only if it is `true` for each prefix of the text.
pub(super) fn can_become_calls(text: &str, names: CallableNames<'_>) -> bool {
    classify(text, names) != Prefix::Prose
}

/// Classifies `text`, the start of a reply whose calls have one of `names`.
fn classify(text: &str, names: CallableNames<'_>) -> Prefix {
    let Some(text) = skip_thinking(text) else { return Prefix::Undecided };
    let text = text.trim_start();
    let Some(first) = text.chars().next() else { return Prefix::Undecided };
    match first {
        '`' => classify_fence(text, names),
        '{' => classify_object(text, names),
        '<' => classify_token(text),
        '[' => match classify_token(text) {
            Prefix::Prose => classify_list(text, names),
            token => token,
        },
        'f' if FUNCTOOLS.starts_with(text) || text.starts_with(FUNCTOOLS) => Prefix::Undecided,
        _ => Prefix::Prose,
    }
}

/// Returns the text after a leading `<think>` block. Returns `None` if the block, or its opening
/// tag, is not complete yet.
fn skip_thinking(text: &str) -> Option<&str> {
    let start = text.trim_start();
    if !start.is_empty() && start.len() < OPEN_TAG.len() && OPEN_TAG.starts_with(start) {
        return None;
    }
    match start.strip_prefix(OPEN_TAG) {
        Some(thinking) => thinking.split_once(CLOSE_TAG).map(|(_, rest)| rest),
        None => Some(text),
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

fn classify_fence(text: &str, names: CallableNames<'_>) -> Prefix {
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
        Some(_) => classify(body, names),
    }
}

/// Classifies an object by its first key and, for the name of a tool, by the value of this key.
fn classify_object(text: &str, names: CallableNames<'_>) -> Prefix {
    let Some((key, after_key)) = quoted(text.get(1..).unwrap_or_default()) else { return Prefix::Prose };
    let Some(after_key) = after_key else {
        let can_match = json_calls::is_known_key_prefix(key) || names.has_prefix(key);
        return if can_match { Prefix::Undecided } else { Prefix::Prose };
    };
    if !key_names::TOOL_NAME.contains(&key) {
        let is_known = json_calls::is_known_key_prefix(key) || names.resolve(key).is_some();
        return if is_known { Prefix::Call } else { Prefix::Prose };
    }
    let Some(value) = after_key.trim_start().strip_prefix(':') else { return Prefix::Undecided };
    if value.trim_start().starts_with('{') {
        return Prefix::Call;
    }
    match quoted(value) {
        Some((name, Some(_))) if names.resolve(name).is_some() => Prefix::Call,
        Some((name, None)) if names.has_prefix(name) => Prefix::Undecided,
        _ => Prefix::Prose,
    }
}

fn classify_list(text: &str, names: CallableNames<'_>) -> Prefix {
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

/// A stream parser that holds back the start of a reply while it can become a written call. The
/// other deltas are those of `inner`.
pub(crate) struct HeldTextParser<'a> {
    inner: Box<dyn StreamParser>,
    names: CallableNames<'a>,
    held: String,
    state: HeldState,
}

#[derive(PartialEq, Eq)]
enum HeldState {
    /// The text is held back, and each delta is checked.
    Undecided,
    /// The text is held back until the end of the reply.
    Call,
    /// The text is streamed.
    Released,
}

impl<'a> HeldTextParser<'a> {
    pub(crate) fn new(inner: Box<dyn StreamParser>, names: CallableNames<'a>) -> Self {
        Self { inner, names, held: String::new(), state: HeldState::Undecided }
    }

    fn release(&mut self) -> Vec<ReplyDelta> {
        self.state = HeldState::Released;
        let text = std::mem::take(&mut self.held);
        if text.is_empty() { Vec::new() } else { self.inner.push(&ChatEvent::TextDelta { text }) }
    }
}

impl StreamParser for HeldTextParser<'_> {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        let mut deltas = match event {
            _ if self.state == HeldState::Released => Vec::new(),
            ChatEvent::TextDelta { text } => {
                self.held.push_str(text);
                if self.state == HeldState::Undecided {
                    match classify(&self.held, self.names) {
                        Prefix::Prose => return self.release(),
                        Prefix::Call => self.state = HeldState::Call,
                        Prefix::Undecided => {}
                    }
                }
                return if self.held.len() > MAX_TEXT_BYTES { self.release() } else { Vec::new() };
            }
            ChatEvent::Finished(response) => {
                if parse_calls(&response.message.text(), self.names).is_some() {
                    self.held.clear();
                }
                self.release()
            }
            // A reply with native calls contains no written calls.
            ChatEvent::ToolCallStarted { .. } => self.release(),
            _ => Vec::new(),
        };
        deltas.extend(self.inner.push(event));
        deltas
    }
}
