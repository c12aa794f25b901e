//! Names of tools and of their generated structs.

/// Returns `true` if `name` is a valid tool name. The rule is the same as in `haft_core::ToolName`.
pub(crate) fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-'))
}

/// Converts a function name such as `get_weather` to a type name such as `GetWeather`. Names that
/// would not begin with a letter get the prefix `Tool`.
pub(crate) fn pascal_case(name: &str) -> String {
    let pascal: String = name.split('_').flat_map(capitalized).collect();
    if pascal.starts_with(char::is_alphabetic) { pascal } else { format!("Tool{pascal}") }
}

fn capitalized(word: &str) -> impl Iterator<Item = char> {
    let mut rest = word.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest)
}

#[cfg(test)]
mod tests;
