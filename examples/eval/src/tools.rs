//! The tools of the evaluation. The date, the time and the files are fixed, so the right answers
//! are known.
//!
//! The descriptions of the tools are sent to the models, so changing their text changes the
//! measured results.

use haft_core::{Json, Toolset, tool};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) fn all() -> Toolset {
    Toolset::new().with_tool(Add).with_tool(GetCurrentDatetime).with_tool(SearchFiles)
}

/// Calls the function of the tool `name` directly, without haft's pipeline. The plain loop calls
/// tools in this way.
pub(crate) fn call(name: &str, arguments: &Value) -> Result<String, String> {
    let number = |name: &str| arguments[name].as_f64().ok_or_else(|| format!("{name} must be a number"));
    let text = |name: &str| {
        arguments[name].as_str().map(str::to_owned).ok_or_else(|| format!("{name} must be a text"))
    };
    match name {
        "add" => Ok(add(number("a")?, number("b")?).to_string()),
        "get_current_datetime" => {
            let timezone = text("timezone").unwrap_or_else(|_| "UTC".to_owned());
            get_current_datetime(timezone).map(|Json(datetime)| json!(datetime).to_string())
        }
        "search_files" => {
            let most = arguments["max_results"].as_u64().and_then(|most| most.try_into().ok()).unwrap_or(100);
            let Json(files) = search_files(text("directory")?, text("pattern")?, most);
            Ok(json!(files).to_string())
        }
        _ => Err(format!("there is no tool {name}")),
    }
}

/// Adds two numbers.
#[tool]
fn add(
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
) -> f64 {
    a + b
}

/// The date and time in a time zone.
#[derive(Serialize, JsonSchema)]
struct Datetime {
    datetime: &'static str,
    timezone: String,
}

/// Tells the current date and time.
#[tool]
fn get_current_datetime(
    /// The time zone, as the IANA database names it, such as America/New_York.
    #[tool(default = "UTC")]
    timezone: String,
) -> Result<Json<Datetime>, String> {
    let datetime = match timezone.as_str() {
        "Asia/Tokyo" => "2027-03-14T18:26:53+09:00",
        "Europe/Paris" => "2027-03-14T10:26:53+01:00",
        "UTC" | "Etc/UTC" | "GMT" => "2027-03-14T09:26:53+00:00",
        other => return Err(format!("unknown timezone {other:?}")),
    };
    Ok(Json(Datetime { datetime, timezone }))
}

/// Searches a directory for files whose names match a pattern.
#[tool]
fn search_files(
    /// The directory.
    directory: String,
    /// The pattern of the names, such as *.txt.
    pattern: String,
    /// At most this many files.
    #[tool(default = 100)]
    max_results: usize,
) -> Json<Vec<String>> {
    let names: &[&str] = match pattern.rsplit('.').next() {
        Some("rs") => &["main.rs", "parser.rs"],
        Some("md") => &["notes.md", "todo.md"],
        Some("log") => &["boot.log", "kernel.log"],
        _ => &[],
    };
    let directory = directory.trim_end_matches('/');
    Json(names.iter().take(max_results).map(|name| format!("{directory}/{name}")).collect())
}
