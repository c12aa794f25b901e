//! The `get_current_datetime` tool.

mod timezone;

use haft_core::{Json, ToolContext, call::BoxError, tool};
use jiff::{Timestamp, Zoned, fmt::rfc2822};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use timezone::UnknownTimezone;

use crate::Clock;

/// The format of a date and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = flatten_enum)]
#[non_exhaustive]
pub enum DatetimeFormat {
    /// ISO 8601 with the offset, such as `2026-11-21T18:30:00+09:00`.
    #[default]
    Iso,
    /// RFC 2822, the format of e-mail headers, such as `Sat, 21 Nov 2026 18:30:00 +0900`.
    Rfc2822,
    /// Seconds since 1970-01-01 in UTC, such as `1795253400`.
    Unix,
    /// The date alone, such as `2026-11-21`.
    Date,
    /// The time of day alone, such as `18:30:00`.
    Time,
}

/// Replaces `oneOf` in `schema` with a plain `enum`, so that a local model has fewer tokens to
/// process.
fn flatten_enum(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.remove("oneOf") else { return };
    let values = variants.iter().filter_map(|variant| variant.get("const")).cloned().collect();
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), Value::Array(values));
}

/// A date and time with its format and time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CurrentDatetime {
    /// The date and time.
    pub datetime: String,
    /// The format of `datetime`.
    pub format: DatetimeFormat,
    /// The name of the time zone in the IANA database.
    pub timezone: String,
}

/// The error that [`get_current_datetime`] returns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatetimeError {
    /// The time zone is unknown. The message suggests the most similar name, if there is a similar
    /// name.
    #[error(transparent)]
    UnknownTimezone(#[from] UnknownTimezone),
    /// The time of the [`Clock`] is out of range, or cannot be formatted.
    #[error("the time of the clock cannot be formatted")]
    ClockOutOfRange(#[source] BoxError),
}

/// Returns the current time of the [`Clock`] in the time zone `timezone`, formatted as `format`.
///
/// # Errors
///
/// Returns an error if the time zone is unknown, or if the time of the clock is out of range.
#[tool(description = "Tells the current date and time, in any time zone.")]
pub fn get_current_datetime(
    /// Format: in full by ISO 8601, as in mail, seconds since 1970, or the date or the time alone.
    #[tool(default)]
    format: DatetimeFormat,
    /// The time zone, as the IANA database names it, such as `Asia/Tokyo`.
    #[tool(default = "UTC")]
    timezone: String,
    #[tool(context)] cx: &ToolContext,
) -> Result<Json<CurrentDatetime>, DatetimeError> {
    let zone = timezone::find_timezone(&timezone)?;
    let now = cx.state::<Clock>().unwrap_or_default().now();
    let clock_error = |error: jiff::Error| DatetimeError::ClockOutOfRange(error.into());
    let now = Timestamp::from_millisecond(now.unix_millis()).map_err(clock_error)?.to_zoned(zone);
    let timezone = now.time_zone().iana_name().unwrap_or("UTC").to_owned();
    Ok(Json(CurrentDatetime { datetime: format.format(&now).map_err(clock_error)?, format, timezone }))
}

impl DatetimeFormat {
    fn format(self, time: &Zoned) -> Result<String, jiff::Error> {
        Ok(match self {
            Self::Iso => time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            Self::Rfc2822 => rfc2822::to_string(time)?,
            Self::Unix => time.timestamp().as_second().to_string(),
            Self::Date => time.date().to_string(),
            Self::Time => time.strftime("%H:%M:%S").to_string(),
        })
    }
}

#[cfg(test)]
mod tests;
