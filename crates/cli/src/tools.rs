//! `haft tools`: what there is to call.

use std::{fmt::Write as _, process::ExitCode};

use anstyle::Style;
use clap::Args;
use haft_core::{ToolDefinition, schema::Property, toolset::ToolList};
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    terminal::{self, paint, plain},
    toolbox::ToolOptions,
};

/// List the tools and what they take.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    tools: ToolOptions,
    /// Write one JSON object a tool and line, with its schemas.
    #[arg(long)]
    json: bool,
    /// Say what a model will miss instead: descriptions, choices, names. Fails when it misses something.
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let toolbox = arguments.tools.open().await?;
    let list = toolbox.list().await;
    if arguments.check {
        let is_well = check(&list, arguments.json)?;
        toolbox.check_all()?;
        return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for tool in list.tools() {
        let definition = tool.definition();
        if arguments.json {
            let json = serde_json::to_string(definition).map_err(|error| Failure::of(&error))?;
            terminal::write_json(&json)?;
        } else {
            terminal::write(&for_people(definition))?;
        }
    }
    toolbox.check_all()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the lints of the tools. Returns `true` if there are none.
fn check(list: &ToolList, json: bool) -> Result<bool, Failure> {
    let lints = haft_middleware::lint(list);
    for lint in &lints {
        if json {
            let line = json!({"tool": lint.tool, "argument": lint.argument, "message": lint.to_string()});
            terminal::write_json(&line.to_string())?;
        } else {
            terminal::write(&format!("{}\n", plain(&lint.to_string())))?;
        }
    }
    if !json && lints.is_empty() {
        terminal::write(&format!("a model will miss nothing in the {} tools\n", list.len()))?;
    }
    Ok(lints.is_empty())
}

fn for_people(definition: &ToolDefinition) -> String {
    let mut text = format!("{}\n", paint(Style::new().bold(), definition.name().as_str()));
    if let Some(deprecation) = definition.deprecated() {
        let _ = writeln!(text, "  {}", plain(&deprecation.to_string()));
    }
    for line in plain(definition.description()).lines().filter(|line| !line.trim().is_empty()) {
        let _ = writeln!(text, "  {line}");
    }
    for property in definition.input_schema().properties() {
        text.push_str(&argument(&property));
    }
    text + "\n"
}

fn argument(property: &Property<'_>) -> String {
    let default = property.schema.get("default").map(|default| format!(" = {default}")).unwrap_or_default();
    let optional = if property.required || !default.is_empty() { "" } else { "?" };
    let description = property.schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let separator = if description.is_empty() { "" } else { "  " };
    let words: Vec<_> = plain(description).split_whitespace().map(str::to_owned).collect();
    let dim = Style::new().dimmed();
    let name = plain(property.name);
    let kind = paint(dim, &plain(&format!("{}{default}", kind(property.schema))));
    format!("    {name}{optional}: {kind}{separator}{}\n", words.join(" "))
}

/// What a value is, in a word or a few.
fn kind(schema: &Value) -> String {
    if let Some(Value::Array(words)) = schema.get("enum") {
        return words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests;
