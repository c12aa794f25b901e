//! Parses the links, anchors and code blocks of a Markdown page.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The target of a link or an image on a Markdown page, with its line number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Returns the anchors of the headings in `page`.
pub(super) fn anchors(page: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut is_open = false;
    for (event, _) in events(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                is_open = true;
                anchors.push(String::new());
            }
            Event::End(TagEnd::Heading(_)) => is_open = false,
            Event::Text(text) | Event::Code(text) if is_open => {
                if let Some(anchor) = anchors.last_mut() {
                    anchor.extend(text.chars().filter_map(anchor_character));
                }
            }
            _ => {}
        }
    }
    anchors
}

/// A fenced code block on a Markdown page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodeBlock {
    pub(super) line: usize,
    /// The info string of the block, for example `rust,no_run`.
    pub(super) info: String,
    pub(super) text: String,
    /// The path in a comment `<!-- source: PATH -->` directly before the block. `None` if there is
    /// no such comment.
    pub(super) source: Option<String>,
}

pub(super) fn links(page: &str) -> Vec<Link> {
    events(page)
        .filter_map(|(event, line)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(Link { line, target: dest_url.into_string() })
            }
            _ => None,
        })
        .collect()
}

pub(super) fn code_blocks(page: &str) -> Vec<CodeBlock> {
    let mut blocks: Vec<CodeBlock> = Vec::new();
    let mut source = None;
    let mut is_open = false;
    for (event, line) in events(page) {
        match event {
            Event::Html(html) => source = source_comment(&html).or(source),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                is_open = true;
                blocks.push(CodeBlock {
                    line,
                    info: info.into_string(),
                    text: String::new(),
                    source: source.take(),
                });
            }
            Event::Text(text) if is_open => {
                if let Some(block) = blocks.last_mut() {
                    block.text.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => is_open = false,
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            _ => source = None,
        }
    }
    blocks
}

impl CodeBlock {
    pub(super) fn is_rust(&self) -> bool {
        self.info.split([',', ' ']).next() == Some("rust")
    }

    pub(super) fn has_word(&self, word: &str) -> bool {
        self.info.split([',', ' ']).any(|own| own == word)
    }
}

fn events(page: &str) -> impl Iterator<Item = (Event<'_>, usize)> {
    Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter().map(|(event, range)| {
        (event, 1 + page.bytes().take(range.start).filter(|byte| *byte == b'\n').count())
    })
}

/// Converts a character of a heading to a character of its anchor, by the rules of GitHub and
/// mdBook. Returns `None` if the character is not part of the anchor.
fn anchor_character(character: char) -> Option<char> {
    match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ if character.is_alphanumeric() => Some(character.to_ascii_lowercase()),
        _ => None,
    }
}

fn source_comment(html: &str) -> Option<String> {
    let path = html.trim().strip_prefix("<!-- source:")?.strip_suffix("-->")?;
    Some(path.trim().to_owned())
}
