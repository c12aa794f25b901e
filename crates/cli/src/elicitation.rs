//! Elicitations of MCP servers, as prompts in the terminal.

use std::{
    io::{self, BufRead, IsTerminal as _, Write},
    sync::{Arc, LazyLock},
};

use haft_core::{Schema, schema::Property};
use haft_mcp::elicitation::{Elicitation, ElicitationKind, ElicitationResponse};
use serde_json::{Map, Value};
use tokio::{
    sync::{Mutex, oneshot},
    task::spawn_blocking,
};

use crate::{
    spinner::Pause,
    terminal::{self, is_yes, remove_control_chars},
};

/// The maximum length of a label, in characters.
const MAX_LABEL_CHARS: usize = 200;
/// Serializes the prompts of concurrent calls. A prompt of a call that has ended holds the terminal
/// until the user enters a line, so that the next prompt does not receive this line.
static TERMINAL: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

/// Displays `elicitation` of the MCP server `server` in the terminal, while `pause` hides the
/// progress line, and reads the response. Without a terminal, writes a warning and returns
/// `Cancel`.
pub(crate) async fn prompt_user(
    server: String,
    elicitation: Elicitation,
    pause: Pause,
) -> ElicitationResponse {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        terminal::warn(&format!(
            "mcp:{server} requests input, which needs a terminal: {}",
            on_one_line(&elicitation.message)
        ));
        return ElicitationResponse::Cancel;
    }
    let turn = Arc::clone(&TERMINAL).lock_owned().await;
    let (sender, response) = oneshot::channel();
    spawn_blocking(move || {
        let _turn = turn;
        let response =
            pause.during(|| prompt(&server, &elicitation, &mut io::stdin().lock(), &mut io::stderr()));
        // An error means that the terminal is closed.
        if sender.send(response.unwrap_or(ElicitationResponse::Cancel)).is_err() {
            terminal::warn(&format!("mcp:{server} no longer waits for the response"));
        }
    });
    response.await.unwrap_or(ElicitationResponse::Cancel)
}

/// Writes `elicitation` to `output`, and reads the response from `input`. The end of the input
/// declines.
fn prompt(
    server: &str,
    elicitation: &Elicitation,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<ElicitationResponse> {
    writeln!(output, "\nmcp:{} requests input:", on_one_line(server))?;
    // A line of the server must not look like a line of this program.
    for line in elicitation.message.lines() {
        writeln!(output, "  | {}", remove_control_chars(line))?;
    }
    match &elicitation.kind {
        ElicitationKind::Url { url } => {
            writeln!(
                output,
                "Open this page in a browser, if you trust the server:\n{}",
                remove_control_chars(url)
            )?;
            confirm(input, output)
        }
        ElicitationKind::Form { schema } => match schema.properties().next() {
            Some(_) => read_properties(schema, input, output),
            None => confirm(input, output),
        },
        _ => Ok(ElicitationResponse::Decline),
    }
}

/// Reads a confirmation.
fn confirm(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<ElicitationResponse> {
    write!(output, "Continue? [y/N] ")?;
    output.flush()?;
    let line = read_line(input)?.unwrap_or_default();
    Ok(match is_yes(&line) {
        true => ElicitationResponse::accept(Value::Object(Map::new())),
        false => ElicitationResponse::Decline,
    })
}

/// Reads the value of each property of `schema`. An empty line omits an optional property, or
/// accepts its default.
fn read_properties(
    schema: &Schema,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<ElicitationResponse> {
    writeln!(output, "Ctrl-D declines.")?;
    let mut content = Map::new();
    for Property { name, schema: property, is_required, .. } in schema.properties() {
        let is_required = is_required && property.get("default").is_none();
        loop {
            write!(output, "  {}: ", label(name, property, is_required))?;
            output.flush()?;
            let Some(line) = read_line(input)? else {
                writeln!(output)?;
                return Ok(ElicitationResponse::Decline);
            };
            if line.is_empty() && !is_required {
                break;
            }
            match parse(&line, property) {
                Ok(value) => {
                    content.insert(name.to_owned(), value);
                    break;
                }
                Err(fault) => writeln!(output, "  {fault}")?,
            }
        }
    }
    Ok(ElicitationResponse::accept(Value::Object(content)))
}

/// Reads a line without its end. Returns `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let length = input.read_line(&mut line)?;
    Ok((length > 0).then(|| line.trim().to_owned()))
}

/// Returns the label of a property: its name or title, its description, its values and its default.
fn label(name: &str, property: &Value, is_required: bool) -> String {
    let text = |key: &str| property.get(key).and_then(Value::as_str);
    let mut label = text("title").unwrap_or(name).to_owned();
    if let Some(description) = text("description") {
        label += &format!(", {description}");
    }
    match (choices(property), text("type")) {
        (values, _) if !values.is_empty() => label += &format!(" ({})", values.join(", ")),
        (_, Some(kind)) => label += &format!(" ({kind})"),
        _ => {}
    }
    if let Some(default) = property.get("default") {
        label += &format!(" [{}]", plain(default));
    } else if !is_required {
        label += " [none]";
    }
    on_one_line(&label)
}

/// Returns the values that `property` permits: of an enumeration, of titled constants, or of the
/// items of a list. Empty if it permits other values.
fn choices(property: &Value) -> Vec<String> {
    let constants = |key: &str| {
        let options = property.get(key)?.as_array()?.iter();
        options.map(|option| Some(plain(option.get("const")?))).collect::<Option<Vec<_>>>()
    };
    let values = property.get("enum").and_then(Value::as_array);
    let values = values.map(|values| values.iter().map(plain).collect());
    let values = values.or_else(|| constants("oneOf")).or_else(|| constants("anyOf"));
    values.or_else(|| property.get("items").map(choices)).unwrap_or_default()
}

/// Returns `text` on one line, without hidden characters, and at most [`MAX_LABEL_CHARS`]
/// characters long.
fn on_one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    remove_control_chars(&line).chars().take(MAX_LABEL_CHARS).collect()
}

/// Returns the text of a string, or the JSON of another value.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses `line` as a value of `property`.
///
/// # Errors
///
/// Returns a description of the fault if the value is invalid for the schema `property`.
fn parse(line: &str, property: &Value) -> Result<Value, String> {
    let value = match property.get("type").and_then(Value::as_str) {
        Some("boolean") => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => Value::Bool(true),
            "n" | "no" | "false" => Value::Bool(false),
            _ => return Err("enter yes or no".to_owned()),
        },
        Some("integer" | "number") => serde_json::from_str(line).map_err(|_| "enter a number".to_owned())?,
        Some("array") => line.split(',').map(|item| Value::from(item.trim())).collect(),
        _ => Value::from(line),
    };
    let schema = Schema::new(property.clone()).map_err(|error| error.to_string())?;
    schema
        .validate(&value)
        .map_err(|violations| violations.to_string().trim_start_matches("/: ").to_owned())?;
    Ok(value)
}

#[cfg(test)]
mod tests;
