//! The current date and time.

mod timezone;

use haft_core::{Json, ToolContext, call::BoxError, tool};
use jiff::{Timestamp, Zoned, fmt::rfc2822};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use timezone::UnknownTimezone;

use crate::Clock;

/// How a date and time is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = list_words)]
#[non_exhaustive]
pub enum DatetimeFormat {
    /// ISO 8601 with the offset, such as `2026-11-21T18:30:00+09:00`.
    #[default]
    Iso,
    /// As in mail, such as `Sat, 21 Nov 2026 18:30:00 +0900`.
    Rfc2822,
    /// Seconds since 1970-01-01 in UTC, such as `1795253400`.
    Unix,
    /// The date alone, such as `2026-11-21`.
    Date,
    /// The time of day alone, such as `18:30:00`.
    Time,
}

/// Makes a plain `enum` of the words: a schema for each would cost a small model seconds to read.
fn list_words(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.remove("oneOf") else { return };
    let words = variants.iter().filter_map(|variant| variant.get("const")).cloned().collect();
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), Value::Array(words));
}

/// A date and time, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CurrentDatetime {
    /// The date and time.
    pub datetime: String,
    /// How it is written.
    pub format: DatetimeFormat,
    /// In which zone it is, as the IANA database names it.
    pub timezone: String,
}

/// Why the date and time cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatetimeError {
    /// There is no such time zone. The text names the closest.
    #[error(transparent)]
    Timezone(#[from] UnknownTimezone),
    /// The [`Clock`] gives a time that has no date, or none that can be written so.
    #[error("the clock gives a time that cannot be written")]
    Clock(#[source] BoxError),
}

/// Tells the date and time of the [`Clock`], in any time zone.
///
/// # Errors
///
/// Fails with the [`DatetimeError`] that says what is wrong with the time zone, or the clock.
#[tool(description = "Tells the current date and time, in any time zone.")]
pub fn get_current_datetime(
    /// How to write it: in full by ISO 8601, as in mail, in seconds since 1970, or the date or the time alone.
    #[tool(default)]
    format: DatetimeFormat,
    /// The time zone, as the IANA database names it, such as `Asia/Tokyo`.
    #[tool(default = "UTC")]
    timezone: String,
    #[tool(context)] cx: &ToolContext,
) -> Result<Json<CurrentDatetime>, DatetimeError> {
    let zone = timezone::find(&timezone)?;
    let now = cx.state::<Clock>().unwrap_or_default().now();
    let clock = |error: jiff::Error| DatetimeError::Clock(error.into());
    let now = Timestamp::from_millisecond(now.unix_millis()).map_err(clock)?.to_zoned(zone);
    let timezone = now.time_zone().iana_name().unwrap_or("UTC").to_owned();
    Ok(Json(CurrentDatetime { datetime: format.write(&now).map_err(clock)?, format, timezone }))
}

impl DatetimeFormat {
    fn write(self, time: &Zoned) -> Result<String, jiff::Error> {
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
