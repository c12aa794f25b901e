/// Puts variables in their places: `${NAME}`, and `${NAME:-default}` for one that may be missing or empty. A `$` that
/// begins no `${` is itself.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, behind)) = after.split_once('}') else {
            return Err(format!("\"${{\" without \"}}\" in {text:?}"));
        };
        expanded += before;
        expanded += &value(variable, lookup)?;
        rest = behind;
    }
    Ok(expanded + rest)
}

fn value(variable: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    let value = lookup(name);
    match default {
        Some(default) => Ok(value.filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())),
        None => value.ok_or_else(|| {
            format!("the variable {name} is not defined: define it, or write ${{{name}:-default}}")
        }),
    }
}
