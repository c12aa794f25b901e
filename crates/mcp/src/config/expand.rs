use super::variables::Variables;

/// The maximum nesting depth of variables in default values.
const MAX_VARIABLE_DEPTH: usize = 16;

/// Returns `text` with the variables `${NAME}`, `${env:NAME}`, `{env:NAME}`, `${input:ID}` and
/// `${NAME:-default}` replaced by their values.
///
/// The default is used if the variable is undefined or empty. It may contain further variables,
/// which are looked up only if the default is used. A `$` that is not followed by `{` is copied
/// unchanged.
///
/// # Errors
///
/// Fails if a variable without a default is undefined, if a `}` is missing, or if variables are
/// nested deeper than 16 levels. Error messages may contain the name of a variable, but never the
/// text, because the text may contain a secret.
pub(super) fn expand(text: &str, variables: &Variables<'_>) -> Result<String, String> {
    // opencode writes variables without a dollar sign.
    let with_dollar = text.replace("${env:", "{env:").replace("{env:", "${env:");
    expand_within(MAX_VARIABLE_DEPTH, &with_dollar, variables)
}

fn expand_within(depth: usize, text: &str, variables: &Variables<'_>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, behind) = split_at_end(after).ok_or("\"${\" without \"}\"")?;
        let depth = depth.checked_sub(1).ok_or("variables are nested too deeply")?;
        expanded += before;
        expanded += &variable_value(depth, variable, variables)?;
        rest = behind;
    }
    Ok(expanded + rest)
}

/// Splits `text`, which follows a `${`, at the matching `}`. Returns the variable before the `}`
/// and the text after it, or `None` if there is no matching `}`.
fn split_at_end(text: &str) -> Option<(&str, &str)> {
    let mut nesting = 0_usize;
    for (index, character) in text.char_indices() {
        match character {
            '{' if text.get(..index).is_some_and(|before| before.ends_with('$')) => nesting += 1,
            '}' if nesting == 0 => return Some((text.get(..index)?, text.get(index + 1..)?)),
            '}' => nesting -= 1,
            _ => {}
        }
    }
    None
}

fn variable_value(depth: usize, variable: &str, variables: &Variables<'_>) -> Result<String, String> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    match (variables.value(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => expand_within(depth, default, variables),
        (None, None) => Err(variables.undefined(name)),
    }
}
