//! The command `haft tools`: lists the tools and checks their definitions.

use std::{fmt::Write as _, process::ExitCode};

use anstyle::Style;
use clap::Args;
use haft_core::{ToolDefinition, schema::Property, toolset::ToolList};
use serde_json::{Value, json};

use crate::{
    error::CliError,
    terminal::{self, paint, remove_control_chars},
    toolbox::{StartWait, ToolOptions},
};

/// List the tools and their arguments.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    tools: ToolOptions,
    /// Write one JSON object per line and tool, with its schemas.
    #[arg(long)]
    json: bool,
    /// Check the definitions instead: report missing descriptions, vague names, and strings that
    /// should be enums. Fails if there are findings.
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let toolbox = arguments.tools.open_toolbox(StartWait::All).await?;
    let list = toolbox.list_and_warn().await;
    if arguments.check {
        let has_no_findings = write_findings(&list, arguments.json)?;
        toolbox.require_all_servers()?;
        return Ok(if has_no_findings { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    write_list(&list, arguments.json)?;
    toolbox.require_all_servers()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the definitions in `list`, as text or as one JSON object per line.
pub(crate) fn write_list(list: &ToolList, json: bool) -> Result<(), CliError> {
    for tool in list.tools() {
        let definition = tool.definition();
        if json {
            let json = serde_json::to_string(definition).map_err(|error| CliError::from_error(&error))?;
            terminal::write_json(&json)?;
        } else {
            terminal::write(&format_tool(definition))?;
        }
    }
    Ok(())
}

/// Lints the tools in `list` and writes the findings. Returns `true` if there are none.
fn write_findings(list: &ToolList, json: bool) -> Result<bool, CliError> {
    let findings = haft_middleware::lint::lint(list);
    for finding in &findings {
        if json {
            let line =
                json!({"tool": finding.tool, "argument": finding.argument, "message": finding.to_string()});
            terminal::write_json(&line.to_string())?;
        } else {
            terminal::write(&format!("{}\n", remove_control_chars(&finding.to_string())))?;
        }
    }
    if !json && findings.is_empty() {
        terminal::write(&format!("{} tools checked, no findings\n", list.len()))?;
    }
    Ok(findings.is_empty())
}

/// Formats the name, the description and the arguments of a tool as text for a terminal.
fn format_tool(definition: &ToolDefinition) -> String {
    let mut text = format!("{}\n", paint(Style::new().bold(), definition.name().as_str()));
    if let Some(deprecation) = definition.deprecation() {
        let _ = writeln!(text, "  {}", remove_control_chars(&deprecation.to_string()));
    }
    for line in remove_control_chars(definition.description()).lines().filter(|line| !line.trim().is_empty())
    {
        let _ = writeln!(text, "  {line}");
    }
    for property in definition.input_schema().properties() {
        text.push_str(&format_argument(&property));
    }
    text + "\n"
}

fn format_argument(property: &Property<'_>) -> String {
    let default = property.schema.get("default").map(|default| format!(" = {default}")).unwrap_or_default();
    let optional = if property.is_required || !default.is_empty() { "" } else { "?" };
    let description = property.schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let separator = if description.is_empty() { "" } else { "  " };
    let words: Vec<_> = remove_control_chars(description).split_whitespace().map(str::to_owned).collect();
    let dim = Style::new().dimmed();
    let name = remove_control_chars(property.name);
    let value_type = paint(dim, &remove_control_chars(&format!("{}{default}", type_name(property.schema))));
    format!("    {name}{optional}: {value_type}{separator}{}\n", words.join(" "))
}

/// Returns the type in a JSON Schema as text, such as `string` or `integer | null`. For an `enum`,
/// returns its values. Returns `any` for a schema without either.
fn type_name(schema: &Value) -> String {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests;
