//! Messages in Harmony, the format of gpt-oss: a header, `<|message|>` and the content.

use super::{
    ParseContext, Parsed,
    delimited::named_call,
    tokens::{is_token_prefix, strip_token},
};
use crate::thinking::join_reasoning;

/// The tokens that start a message of the model. `<|start|>functions.add` starts a tool result.
const OPENERS: [&str; 2] = ["<|channel|>", "<|start|>assistant"];
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
/// The maximum length of a header, in bytes.
const MAX_HEADER_BYTES: usize = 512;

/// The maximum number of `analysis` messages before the reply.
const MAX_ANALYSIS_MESSAGES: usize = 16;

/// The text of a message so far.
pub(super) enum Message<'t> {
    /// The text cannot become a message.
    None,
    /// The header is incomplete.
    Header,
    /// A message in the channel `analysis`, which contains reasoning. `content` starts after the
    /// header.
    Analysis { content: &'t str },
    /// A call of `recipient`.
    Call { recipient: &'t str, arguments: &'t str },
    /// A message for the user.
    Text,
}

/// Parses the header of the message at the start of `text`.
pub(super) fn parse_header(text: &str) -> Message<'_> {
    if !OPENERS.iter().any(|opener| strip_token(text, opener).is_some()) {
        let is_prefix = OPENERS.iter().any(|opener| is_token_prefix(text, opener));
        return if is_prefix { Message::Header } else { Message::None };
    }
    let start = text.get(..text.floor_char_boundary(MAX_HEADER_BYTES)).unwrap_or(text);
    let Some((header, _)) = start.split_once(MESSAGE) else {
        return if start.len() == text.len() { Message::Header } else { Message::None };
    };
    let content = text.get(header.len() + MESSAGE.len()..).unwrap_or_default();
    if let Some((_, recipient)) = header.split_once("to=") {
        let end = recipient.find([' ', '<', '\n']).unwrap_or(recipient.len());
        return Message::Call { recipient: recipient.get(..end).unwrap_or_default(), arguments: content };
    }
    if header.contains("analysis") { Message::Analysis { content } } else { Message::Text }
}

/// Splits `text` into the leading `analysis` messages and the rest. The rest is `None` if the last
/// message is not closed. Returns `None` if there is no such message.
pub(crate) fn split_analysis(text: &str) -> Option<(String, Option<&str>)> {
    let mut analysis = None;
    let mut rest = text.trim_start();
    for _ in 0..MAX_ANALYSIS_MESSAGES {
        let Message::Analysis { content } = parse_header(rest) else { break };
        let (part, after) = match content.split_once(END) {
            Some((part, after)) => (part, Some(after)),
            None => (content, None),
        };
        analysis = join_reasoning(analysis, Some(part.trim().to_owned())).or(Some(String::new()));
        let Some(after) = after else { return Some((analysis?, None)) };
        rest = after.trim_start();
    }
    Some((analysis?, Some(rest)))
}

/// Parses the call at the start of `text`.
pub(super) fn parse<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    match parse_header(text) {
        Message::Call { recipient, arguments } => named_call(recipient, arguments, context),
        _ => None,
    }
}
