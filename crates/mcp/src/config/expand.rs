/// How deep variables may stand in the defaults of others.
const DEPTH: usize = 16;

/// Puts variables in their places: `${NAME}`, and `${NAME:-default}` for one that may be missing or empty. A default may
/// have variables in its turn, which are looked up if it is used. A `$` that begins no `${` is itself.
///
/// An error names variables and never quotes the text, which may hold a secret.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    expand_within(DEPTH, text, lookup)
}

fn expand_within(
    depth: usize,
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, behind) = split_at_end(after).ok_or("a \"${\" is without \"}\"")?;
        let depth = depth.checked_sub(1).ok_or("variables stand too deep in one another")?;
        expanded += before;
        expanded += &value(depth, variable, lookup)?;
        rest = behind;
    }
    Ok(expanded + rest)
}

/// Splits at the `}` that ends a variable, behind those of the variables in its default.
fn split_at_end(text: &str) -> Option<(&str, &str)> {
    let mut inner = 0_usize;
    for (place, letter) in text.char_indices() {
        match letter {
            '{' if text.get(..place).is_some_and(|before| before.ends_with('$')) => inner += 1,
            '}' if inner == 0 => return Some((text.get(..place)?, text.get(place + 1..)?)),
            '}' => inner -= 1,
            _ => {}
        }
    }
    None
}

fn value(depth: usize, variable: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    match (lookup(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => expand_within(depth, default, lookup),
        (None, None) => {
            Err(format!("the variable {name} is not defined: define it, or write ${{{name}:-default}}"))
        }
    }
}
