//! Parses the comments and the prose of files, for the rules about text.

#[cfg(test)]
mod tests;

/// The kind of a comment, determined by its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommentKind {
    /// Documentation of the next item (`///`).
    Item,
    /// Documentation of the file or module (`//!`).
    Module,
    /// An ordinary comment. It starts with `//`, or with `#` in TOML and YAML.
    Plain,
}

/// Consecutive comment lines of the same kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comment<'a> {
    pub(super) kind: CommentKind,
    /// The lines of the comment, without code blocks.
    pub(super) lines: Vec<CommentLine<'a>>,
    /// The number (from 1) of the first line after the comment.
    pub(super) end: usize,
}

/// A line of a comment or of a Markdown page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommentLine<'a> {
    pub(super) number: usize,
    /// The text of the line, without its indentation and comment marker.
    pub(super) text: &'a str,
    /// The width in characters of the whole line, with its indentation and comment marker.
    pub(super) width: usize,
}

/// Returns the comments in `text`, the content of the Rust, TOML or YAML file at `path`. A comment
/// that follows code on the same line is ignored.
pub(super) fn comments<'a>(path: &str, text: &'a str) -> Vec<Comment<'a>> {
    let mut comments: Vec<Comment<'a>> = Vec::new();
    let mut is_code = false;
    for (index, raw) in text.lines().enumerate() {
        let Some((kind, text)) = comment_of(path, raw.trim()) else { continue };
        let is_next = |comment: &&mut Comment<'_>| comment.kind == kind && comment.end == index + 1;
        let comment = match comments.pop_if(|comment| is_next(&comment)) {
            Some(comment) => comment,
            None => {
                is_code = false;
                Comment { kind, lines: Vec::new(), end: 0 }
            }
        };
        comments.push(Comment { end: index + 2, ..comment });
        let text = text.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        if let Some(comment) = comments.last_mut()
            && !is_code
            && !is_fence
        {
            comment.lines.push(CommentLine { number: index + 1, text, width: raw.chars().count() });
        }
    }
    comments
}

/// Returns the lines of prose in `text`, the content of the file at `path`. Prose is the text of
/// comments and Markdown pages, without code blocks.
pub(super) fn prose_lines<'a>(path: &str, text: &'a str) -> Vec<CommentLine<'a>> {
    if !path.ends_with(".md") {
        return comments(path, text).into_iter().flat_map(|comment| comment.lines).collect();
    }
    let mut is_code = false;
    let lines = text.lines().enumerate().filter(|(_, raw)| {
        let is_fence = raw.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines
        .map(|(index, raw)| CommentLine { number: index + 1, text: raw.trim(), width: raw.chars().count() })
        .collect()
}

/// Removes the code spans from `lines`, and returns the number and the remaining text of each line.
/// A code span may end on a later line of the same paragraph.
pub(super) fn without_code_spans(lines: &[CommentLine<'_>]) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut last = 0;
    lines
        .iter()
        .map(|line| {
            is_code &= !line.text.is_empty() && line.number == last + 1;
            last = line.number;
            let mut kept = String::new();
            for (index, part) in line.text.split('`').enumerate() {
                is_code ^= index > 0;
                kept.push_str(if is_code { " " } else { part });
            }
            (line.number, kept)
        })
        .collect()
}

/// Returns the words in `text`, converted to lower case.
pub(super) fn split_words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|char: char| !char.is_alphanumeric() && char != '\'' && char != '_');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn comment_of<'a>(path: &str, line: &'a str) -> Option<(CommentKind, &'a str)> {
    let markers: &[(&str, CommentKind)] = match path.rsplit('.').next() {
        Some("rs") => &[("///", CommentKind::Item), ("//!", CommentKind::Module), ("//", CommentKind::Plain)],
        Some("toml" | "yml") => &[("#", CommentKind::Plain)],
        _ => &[],
    };
    markers.iter().find_map(|(marker, kind)| Some((*kind, line.strip_prefix(marker)?)))
}
