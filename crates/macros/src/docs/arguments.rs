//! Parsing of the `# Arguments` list in a doc comment.

use syn::Expr;

/// The headings that introduce a list of arguments. Case is ignored.
const HEADINGS: [&str; 4] = ["Arguments", "Args", "Parameters", "Params"];

/// An item of an `# Arguments` list in a doc comment.
pub(super) struct ListedArgument {
    pub(super) name: String,
    pub(super) text: String,
    /// The doc comment that contains the argument name. Errors about the argument point to its
    /// span.
    pub(super) place: Expr,
}

/// Splits the lines of a doc comment. Returns the lines outside the `# Arguments` list, and the
/// arguments in the list.
pub(super) fn split_argument_list<'a>(
    lines: impl Iterator<Item = (&'a str, &'a Expr)>,
) -> (Vec<String>, Vec<ListedArgument>) {
    let (mut rest, mut listed) = (Vec::new(), Vec::<ListedArgument>::new());
    let mut is_list = false;
    for (line, place) in lines {
        if let Some(title) = parse_heading(line) {
            is_list = HEADINGS.iter().any(|heading| title.eq_ignore_ascii_case(heading));
            if !is_list {
                rest.push(line.to_owned());
            }
        } else if !is_list {
            rest.push(line.to_owned());
        } else if let Some((name, text)) = parse_item(line) {
            listed.push(ListedArgument {
                name: name.to_owned(),
                text: text.to_owned(),
                place: place.clone(),
            });
        } else if let Some(last) = listed.last_mut() {
            let separator = if last.text.is_empty() || line.trim().is_empty() { "" } else { " " };
            last.text.push_str(&format!("{separator}{}", line.trim()));
        }
    }
    (rest, listed)
}

fn parse_heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    (title.len() < line.len() && title.starts_with(' ')).then(|| title.trim())
}

/// Parses the name and the text of a list item such as ``* `name` - text``, `- name: text` or
/// `+ name`. Returns `None` if `line` has another form.
fn parse_item(line: &str) -> Option<(&str, &str)> {
    let item =
        ["* ", "- ", "+ "].iter().find_map(|bullet| line.trim_end().strip_prefix(bullet))?.trim_start();
    let (name, text) = match item.strip_prefix('`') {
        Some(quoted) => quoted.split_once('`')?,
        None => item.split_at(item.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(item.len())),
    };
    let is_name = !name.is_empty() && name.chars().all(|it| it.is_alphanumeric() || it == '_');
    let text = text.trim_start().trim_start_matches([':', '-', '–', '—']).trim();
    is_name.then_some((name, text))
}
