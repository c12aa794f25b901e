use std::sync::Arc;

use strsim::{jaro_winkler, normalized_damerau_levenshtein};

use crate::{
    call::ToolError,
    pipeline::{Pipeline, ToolList},
    tool::{Tool, ToolName},
};

/// The maximum number of tool names that an error message lists.
const MAX_LISTED_NAMES: usize = 30;
/// The minimum Jaro-Winkler similarity, from 0 to 1, between an unknown name and a suggested name.
const MIN_SIMILARITY: f64 = 0.8;
/// The minimum edit similarity, from 0 to 1, between an unknown name and a suggested name.
/// Jaro-Winkler rates a common prefix highly: without this bound, `get_time` would be similar to
/// `get_weather`.
const MIN_EDIT_SIMILARITY: f64 = 0.6;

/// A tool found in a [`ToolList`], and the pipeline of its toolset, if one was set.
pub(super) type FoundTool<'a> = (&'a Arc<dyn Tool>, Option<&'a Pipeline>);

pub(super) fn find_tool<'a>(tools: &'a ToolList, name: &str) -> Result<FoundTool<'a>, ToolError> {
    tools.tool_and_pipeline(name).ok_or_else(|| ToolError::NotFound(unknown_tool_message(name, tools)))
}

/// Returns the error text for a call to the unknown tool `name`. The text suggests a similar name,
/// if any, and lists up to 30 names of `tools`.
///
/// Names are similar if they differ in spelling (`serch`), case (`getWeather`) or namespace
/// (`functions.get_weather`), or if `name` is the main part of only one tool name (`weather`).
pub fn unknown_tool_message(name: &str, tools: &ToolList) -> String {
    let mut text = format!("unknown tool {name:?}");
    if let Some(similar) = similar_name(name, tools) {
        text += &format!("; did you mean {similar:?}?");
    } else {
        text += ";";
    }
    if tools.is_empty() {
        return text + " no tools are available";
    }
    let names: Vec<_> = tools.names().take(MAX_LISTED_NAMES).map(ToolName::as_str).collect();
    text += &format!(" available: {}", names.join(", "));
    match tools.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => text,
        more => text + &format!(" and {more} more"),
    }
}

fn similar_name<'a>(name: &str, tools: &'a ToolList) -> Option<&'a str> {
    let known = || tools.names().map(ToolName::as_str);
    let base = base_name(name);
    let (all_words, words) = (split_words(name), split_words(base));
    let is_same = |known: &&str| [all_words.concat(), words.concat()].contains(&split_words(known).concat());
    if let Some(same) = known().find(is_same) {
        return Some(same);
    }
    let mut containing = known().filter(|known| contains_words(&split_words(known), &words));
    if let (Some(only), None) = (containing.next(), containing.next())
        && is_main_part(&words, &split_words(only))
    {
        return Some(only);
    }
    let similarity = |known: &str| jaro_winkler(name, known).max(jaro_winkler(base, known));
    let edit_similarity = |known: &str| {
        normalized_damerau_levenshtein(name, known).max(normalized_damerau_levenshtein(base, known))
    };
    let similar = known().map(|known| (similarity(known), known));
    let similar =
        similar.filter(|(score, it)| *score >= MIN_SIMILARITY && edit_similarity(it) >= MIN_EDIT_SIMILARITY);
    similar.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

/// Returns `name` without its namespace. For example, some models write `functions.get_weather`,
/// `default_api:get_weather` or `mcp__server__get_weather` for `get_weather`.
fn base_name(name: &str) -> &str {
    name.rsplit(['.', ':', '/']).next().and_then(|base| base.rsplit("__").next()).unwrap_or(name)
}

/// Returns the words of `name` in lower case. Words are separated by characters other than letters
/// and digits, or by an upper-case letter after a lower-case letter: `getWeather` has two words.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (was_lower && letter.is_uppercase()) {
            words.push(String::new());
        }
        was_lower = letter.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns `true` if `words` are consecutive words of `known`.
fn contains_words(known: &[String], words: &[String]) -> bool {
    !words.is_empty() && known.windows(words.len()).any(|part| part == words)
}

/// Returns `true` if `words`, a part of `known`, have at least half of its letters, as `weather`
/// has of `get_weather`. The half excludes verbs: `get` is no name for `get_weather`.
fn is_main_part(words: &[String], known: &[String]) -> bool {
    let length = |words: &[String]| words.iter().map(String::len).sum::<usize>();
    2 * length(words) >= length(known)
}

#[cfg(test)]
mod tests;
