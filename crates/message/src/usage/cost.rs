use std::{
    collections::BTreeMap,
    fmt,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Serialize};

use super::Usage;

/// The number of billionths (nanos) in one currency unit.
const NANOS_PER_UNIT: f64 = 1e9;

/// The largest [`Cost`], in billionths of a currency unit. A cost is converted to and from `f64`,
/// which represents every integer up to this value exactly.
const MAX_NANOS: u64 = (1 << 53) - 1;

/// An amount of money in the currency of the [prices](Prices), with a resolution of a billionth of
/// a currency unit. Amounts are added with `+`. The sum saturates at about nine million units.
///
/// # Examples
///
/// ```
/// use haft_message::usage::Cost;
///
/// let cost = Cost::new(0.1) + Cost::new(0.2);
/// assert_eq!(cost, Cost::new(0.3));
/// assert_eq!(cost.to_string(), "0.3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct Cost(u64);

impl Cost {
    /// A cost of zero.
    pub const ZERO: Self = Self(0);

    /// Creates an amount of `units` currency units, rounded to a billionth. Negative numbers and
    /// NaN become 0. Large amounts are limited to 2^53 - 1 billionths, about nine million units.
    pub fn new(units: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        let nanos = (units * NANOS_PER_UNIT).round() as u64;
        Self(nanos.min(MAX_NANOS))
    }

    /// Returns the amount in currency units.
    pub fn units(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "integers up to 2^53 are exact")]
        let nanos = self.0 as f64;
        nanos / NANOS_PER_UNIT
    }

    pub(super) fn saturating_sub(self, part: Self) -> Self {
        Self(self.0.saturating_sub(part.0))
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl From<f64> for Cost {
    fn from(units: f64) -> Self {
        Self::new(units)
    }
}

impl From<Cost> for f64 {
    fn from(cost: Cost) -> Self {
        cost.units()
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(MAX_NANOS))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.units().fmt(f)
    }
}

/// The price of a model, in currency units per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The price of a million uncached input tokens.
    pub input: f64,
    /// The price of a million input tokens read from the prompt cache. `None` selects the price of
    /// uncached input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// The price of a million input tokens written to the prompt cache. `None` selects the price of
    /// uncached input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// The price of a million output tokens, including reasoning tokens.
    pub output: f64,
}

impl Price {
    /// Creates a price from `input` and `output`, the prices per million input and output tokens.
    /// Cached input tokens, and those written to the cache, have the price `input`.
    pub fn new(input: f64, output: f64) -> Self {
        Self { input, cached_input: None, cache_write: None, output }
    }

    /// Returns the cost of `usage` at this price. Requests to hosted tools are not included.
    pub fn cost_of(&self, usage: &Usage) -> Cost {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let parts = [
            (usage.input_tokens - cached - written, self.input),
            (cached, self.cached_input.unwrap_or(self.input)),
            (written, self.cache_write.unwrap_or(self.input)),
            (usage.output_tokens, self.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "replies have fewer than 2^53 tokens")]
        let units = parts.map(|(tokens, price)| tokens as f64 * price / 1e6);
        Cost::new(units.iter().sum())
    }
}

/// The prices of models, by model name. The JSON form is an object with a [`Price`] for each model
/// name.
///
/// # Examples
///
/// ```
/// use haft_message::usage::{Price, Prices, Usage};
///
/// let json = r#"{"small": {"input": 0.25, "cached_input": 0.025, "output": 2}}"#;
/// let prices: Prices = serde_json::from_str(json)?;
/// let cost = prices.get("small").unwrap().cost_of(&Usage::one_request(1_000_000, 500_000));
/// assert_eq!(cost.units(), 1.25);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Creates an empty price table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the price of the model named `model`. An earlier price of this model is replaced.
    #[must_use]
    pub fn with_price(mut self, model: impl Into<String>, price: Price) -> Self {
        self.0.insert(model.into(), price);
        self
    }

    /// Returns the price of the model named `model`, or `None` if the table does not contain the
    /// model.
    pub fn get(&self, model: &str) -> Option<Price> {
        self.0.get(model).copied()
    }
}
