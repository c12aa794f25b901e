//! A catalogue of the chat models of common APIs: limits, abilities and prices.
//!
//! The catalogue is a convenience for programs that choose a model, show costs or set a
//! [`ModelProfile`]. It is never authoritative: the data is a copy from [`date`], it can be old or
//! wrong, and providers change prices without a change of the name. The profile and the prices of a
//! program take precedence. No adapter of haft reads the catalogue by itself: a model has the
//! profile of its adapter, and a run without prices has no cost.
//!
//! It contains the chat models of the APIs of Anthropic, OpenAI, Google (Gemini), Mistral,
//! DeepSeek, xAI, Groq and Moonshot that were not shut down on the date of the data. The data is
//! taken from the table of models in the Python package `litellm`; `cargo xtask models` in the
//! repository of haft refreshes it.
//!
//! # Examples
//!
//! ```
//! use haft_core::{model::catalogue, usage::Usage};
//!
//! let card = catalogue::find("openai/gpt-5.6").ok_or("unknown model")?;
//! assert_eq!((card.context_window, card.supports_images), (1_050_000, true));
//!
//! let price = card.price.ok_or("no price")?;
//! let cost = price.cost_of(&Usage::one_request(10_000, 500));
//! println!("{} USD, with the prices of {}", cost, catalogue::date());
//! # Ok::<(), &str>(())
//! ```

#[cfg(test)]
mod tests;

use std::{ops::Not, sync::LazyLock};

use serde::{Deserialize, Serialize};

use super::ModelProfile;
use crate::usage::{Price, Prices};

/// The data: a line with its date and source, and a line for each model, sorted by provider and
/// name.
const DATA: &str = include_str!("catalogue.jsonl");

/// The forms of the date in the name of a snapshot, such as `claude-sonnet-4-5-20250929` and
/// `gpt-5-2025-08-07`. `#` is a digit.
const DATE_FORMS: [&str; 2] = ["-20######", "-20##-##-##"];

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::parse(DATA));

/// A model of the catalogue. In JSON, the field names do not have the prefix `supports_`, and
/// fields that are `false` or `None` are omitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelCard {
    /// The name of the provider: `anthropic`, `openai`, `gemini`, `mistral`, `deepseek`, `xai`,
    /// `groq` or `moonshot`.
    pub provider: String,
    /// The name of the model in the API of the provider.
    pub name: String,
    /// The maximum total number of tokens in a request and its reply. For a model of Gemini, it is
    /// the maximum number of tokens in a request: its API limits requests and replies separately.
    pub context_window: u64,
    /// The maximum number of tokens in a reply. `None` if only the context window limits the reply,
    /// or if the limit is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// `true` if the model accepts images.
    #[serde(rename = "images", default, skip_serializing_if = "Not::not")]
    pub supports_images: bool,
    /// `true` if the model accepts audio.
    #[serde(rename = "audio", default, skip_serializing_if = "Not::not")]
    pub supports_audio: bool,
    /// `true` if the model accepts PDF documents.
    #[serde(rename = "files", default, skip_serializing_if = "Not::not")]
    pub supports_files: bool,
    /// `true` if the model supports tool definitions and tool calls (function calling).
    #[serde(rename = "native_tools", default, skip_serializing_if = "Not::not")]
    pub supports_native_tools: bool,
    /// `true` if the model supports replies constrained by a JSON Schema (structured output).
    #[serde(rename = "json_schema", default, skip_serializing_if = "Not::not")]
    pub supports_json_schema: bool,
    /// `true` if the model can reason before it replies.
    #[serde(rename = "reasoning", default, skip_serializing_if = "Not::not")]
    pub supports_reasoning: bool,
    /// The price in US dollars per million tokens. `None` if it is unknown or the model is free.
    ///
    /// It is the standard price of text tokens in a short prompt. Some providers have other prices
    /// for long prompts (OpenAI: more than 272,000 tokens), for audio, for batches, for priority, for
    /// a region, or for a time of the day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

impl ModelCard {
    /// Returns the profile of the model, without hosted tools. An adapter uses it only if the
    /// program sets it, for example with the builder method `profile` of `haft-openai`.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::model::catalogue;
    ///
    /// let profile = catalogue::find("claude-opus-5").ok_or("unknown model")?.profile();
    /// assert_eq!(profile.context_window, Some(1_000_000));
    /// assert!(profile.supports_images && profile.supports_native_tools);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn profile(&self) -> ModelProfile {
        ModelProfile {
            supports_native_tools: self.supports_native_tools,
            supports_json_schema: self.supports_json_schema,
            supports_images: self.supports_images,
            supports_audio: self.supports_audio,
            supports_files: self.supports_files,
            context_window: Some(self.context_window),
            ..ModelProfile::new(&self.name)
        }
    }
}

/// Returns the model with this name, or `None` if the catalogue does not contain it.
///
/// The name is that of the provider's API, such as `gpt-5.6`, also with a provider before `/` or
/// `:`, such as `openai/gpt-5.6` and `openai:gpt-5.6`. A snapshot without an entry of its own, such
/// as `gpt-5.6-2027-01-31` or `claude-opus-5-20270131`, is found by the name before its date. Other
/// suffixes are not removed, so a model is never found by the name of another version: `gpt-5.6` and
/// `claude-opus-5-6` are not found by `gpt-5` and `claude-opus-5`.
///
/// # Examples
///
/// ```
/// use haft_core::model::catalogue;
///
/// let gpt = catalogue::find("gpt-5.6").ok_or("unknown model")?;
/// assert_eq!(gpt.provider, "openai");
/// assert_eq!(catalogue::find("openai:gpt-5.6"), Some(gpt));
/// assert_eq!(catalogue::find("gpt-5.6-2099-01-31"), Some(gpt));
/// assert_eq!(catalogue::find("mistral/gpt-5.6"), None);
/// # Ok::<(), &str>(())
/// ```
pub fn find(name: &str) -> Option<&'static ModelCard> {
    CATALOGUE.find(name)
}

/// Returns all models, sorted by provider and name.
pub fn all() -> &'static [ModelCard] {
    &CATALOGUE.models
}

/// Returns the prices of all models that have one, in US dollars, by the names in the providers'
/// APIs. A program can replace prices with [`Prices::with_price`].
///
/// # Examples
///
/// ```
/// use haft_core::{model::catalogue, usage::Price};
///
/// let prices = catalogue::prices().with_price("my-deployment", Price::new(1.0, 8.0));
/// assert!(prices.get("gpt-5.6").is_some() && prices.get("my-deployment").is_some());
/// ```
pub fn prices() -> Prices {
    let priced = all().iter().filter_map(|card| Some((&card.name, card.price?)));
    priced.fold(Prices::new(), |prices, (name, price)| prices.with_price(name, price))
}

/// Returns the date of the data, such as `2026-11-30`.
pub fn date() -> &'static str {
    &CATALOGUE.origin.date
}

/// The parsed data.
#[derive(Default)]
struct Catalogue {
    origin: Origin,
    models: Vec<ModelCard>,
}

/// The first line of the data.
#[derive(Default, Deserialize)]
struct Origin {
    date: String,
}

impl Catalogue {
    /// Parses the lines of `data`. Invalid lines are skipped: a test excludes them.
    fn parse(data: &str) -> Self {
        let (origin, models) = data.split_once('\n').unwrap_or_default();
        Self {
            origin: serde_json::from_str(origin).unwrap_or_default(),
            models: models.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        }
    }

    fn find(&self, name: &str) -> Option<&ModelCard> {
        self.find_exactly(name).or_else(|| self.find_exactly(without_date(name)?))
    }

    /// Returns the model whose name is `name`, or whose provider and name are the parts of `name`
    /// before and after the first `/` or `:`.
    fn find_exactly(&self, name: &str) -> Option<&ModelCard> {
        let with_provider = name.split_once(['/', ':']).and_then(|(provider, name)| {
            self.models.iter().find(|card| card.provider == provider && card.name == name)
        });
        with_provider.or_else(|| self.models.iter().find(|card| card.name == name))
    }
}

/// Returns the part of `name` before its date. Returns `None` if `name` does not end with a date.
fn without_date(name: &str) -> Option<&str> {
    DATE_FORMS.iter().find_map(|form| {
        let (base, suffix) = name.split_at_checked(name.len().checked_sub(form.len())?)?;
        let is_date = suffix.bytes().zip(form.bytes()).all(|(byte, form)| match form {
            b'#' => byte.is_ascii_digit(),
            form => byte == form,
        });
        is_date.then_some(base)
    })
}
