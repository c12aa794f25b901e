//! Questions of MCP servers to the user, asked in the terminal.

use std::{
    io::{self, BufRead, IsTerminal as _, Write},
    sync::{Arc, LazyLock},
};

use haft_core::Schema;
use haft_mcp::elicitation::{Elicitation, ElicitationKind, ElicitationResponse};
use serde_json::{Map, Value};
use tokio::{
    sync::{Mutex, oneshot},
    task::spawn_blocking,
};

use crate::{
    spinner::Pause,
    terminal::{self, remove_control_chars},
};

/// The maximum length of a label, in characters.
const MAX_LABEL_CHARS: usize = 200;
/// Serializes the prompts of concurrent calls. A prompt of a call that has ended holds the terminal
/// until the user enters a line, so that the line is no answer to the next prompt.
static TERMINAL: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

/// Asks `question` of the MCP server `server` in the terminal, while `pause` hides the progress
/// line. Without a terminal, writes a warning and returns `Cancel`.
pub(crate) async fn ask_user(server: String, question: Elicitation, pause: Pause) -> ElicitationResponse {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        terminal::warn(&format!(
            "mcp:{server} requests input, which needs a terminal: {}",
            on_one_line(&question.message)
        ));
        return ElicitationResponse::Cancel;
    }
    let turn = Arc::clone(&TERMINAL).lock_owned().await;
    let (sender, response) = oneshot::channel();
    spawn_blocking(move || {
        let _turn = turn;
        let asked = pause.during(|| ask(&server, &question, &mut io::stdin().lock(), &mut io::stderr()));
        // A failure of the terminal leaves no choice to the user.
        if sender.send(asked.unwrap_or(ElicitationResponse::Cancel)).is_err() {
            terminal::warn(&format!("mcp:{server} no longer waits for the answer"));
        }
    });
    response.await.unwrap_or(ElicitationResponse::Cancel)
}

/// Asks `question` and reads the answer from `input`. The end of the input declines the question.
fn ask(
    server: &str,
    question: &Elicitation,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<ElicitationResponse> {
    writeln!(output, "\nmcp:{} asks:", on_one_line(server))?;
    // A line of the server must not look like a line of this program.
    for line in question.message.lines() {
        writeln!(output, "  | {}", remove_control_chars(line))?;
    }
    match &question.kind {
        ElicitationKind::Url { url } => {
            writeln!(
                output,
                "Open this page in a browser, if you trust the server:\n{}",
                remove_control_chars(url)
            )?;
            confirm(input, output)
        }
        ElicitationKind::Form { schema } => {
            let properties = schema.get("properties").and_then(Value::as_object);
            match properties.filter(|properties| !properties.is_empty()) {
                Some(properties) => ask_for_properties(properties, schema, input, output),
                None => confirm(input, output),
            }
        }
        _ => Ok(ElicitationResponse::Decline),
    }
}

/// Asks for a confirmation.
fn confirm(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<ElicitationResponse> {
    write!(output, "Continue? [y/N] ")?;
    output.flush()?;
    let line = read_line(input)?.unwrap_or_default();
    Ok(match line.to_lowercase().as_str() {
        "y" | "yes" => ElicitationResponse::accept(Value::Object(Map::new())),
        _ => ElicitationResponse::Decline,
    })
}

/// Asks for the value of each property. An empty line leaves out an optional property, or accepts
/// its default.
fn ask_for_properties(
    properties: &Map<String, Value>,
    schema: &Map<String, Value>,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<ElicitationResponse> {
    let required = schema.get("required").and_then(Value::as_array);
    writeln!(output, "Ctrl-D declines.")?;
    let mut content = Map::new();
    for (name, property) in properties {
        let is_required = required.is_some_and(|required| required.contains(&Value::from(name.as_str())))
            && property.get("default").is_none();
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
                    content.insert(name.clone(), value);
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
