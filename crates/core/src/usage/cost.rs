use std::{
    collections::BTreeMap,
    fmt,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Serialize};

use super::Usage;

/// Nano-units in a unit.
const NANOS: f64 = 1e9;

/// The most that can be told: as JSON numbers, larger amounts would not be exact.
const MOST: u64 = (1 << 53) - 1;

/// An amount of money, in the unit of the [prices](Prices) that it follows from, exact to a billionth. Sums with `+`.
///
/// # Examples
///
/// ```
/// use haft_core::usage::Cost;
///
/// let cost = Cost::new(0.1) + Cost::new(0.2);
/// assert_eq!(cost, Cost::new(0.3));
/// assert_eq!(cost.to_string(), "0.3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct Cost(u64);

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many units. What is less than nothing, or no number, is nothing; more than nine million units are not told apart.
    pub fn new(units: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "such a cast saturates")]
        let nanos = (units * NANOS).round() as u64;
        Self(nanos.min(MOST))
    }

    /// The amount in units.
    pub fn units(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "it is small enough to be exact")]
        let nanos = self.0 as f64;
        nanos / NANOS
    }

    pub(super) fn without(self, part: Self) -> Self {
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
        Self(self.0.saturating_add(other.0).min(MOST))
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

/// What a model's tokens cost, in units for a million of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Tokens that are read, and come from no cache.
    pub input: f64,
    /// Tokens that come from a cache. Default: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// Tokens that are written, those of reasoning included.
    pub output: f64,
}

impl Price {
    /// A price for a million tokens that are read, and one for a million that are written.
    pub fn new(input: f64, output: f64) -> Self {
        Self { input, cached_input: None, output }
    }

    /// What this usage costs.
    pub fn of(&self, usage: &Usage) -> Cost {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let parts = [
            (usage.input_tokens - cached, self.input),
            (cached, self.cached_input.unwrap_or(self.input)),
            (usage.output_tokens, self.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "no reply has so many tokens")]
        let units = parts.map(|(tokens, price)| tokens as f64 * price / 1e6);
        Cost::new(units.iter().sum())
    }
}

/// The prices of models, by the names that their providers give them. Data: as JSON an object of [`Price`]s.
///
/// # Examples
///
/// ```
/// use haft_core::usage::{Price, Prices, Usage};
///
/// let prices: Prices = serde_json::from_str(r#"{"small": {"input": 0.25, "cached_input": 0.025, "output": 2}}"#)?;
/// let cost = prices.get("small").unwrap().of(&Usage::of_request(1_000_000, 500_000));
/// assert_eq!(cost.units(), 1.25);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// No prices.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the price of a model; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, model: impl Into<String>, price: Price) -> Self {
        self.0.insert(model.into(), price);
        self
    }

    /// The price of a model.
    pub fn get(&self, model: &str) -> Option<Price> {
        self.0.get(model).copied()
    }
}
