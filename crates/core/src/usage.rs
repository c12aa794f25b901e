//! Token usage and cost.

mod cost;

use std::{
    mem,
    ops::{Add, AddAssign},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

pub use cost::{Cost, Price, Prices};

/// What requests cost. Sums with `+`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// How many requests there were.
    pub requests: u64,
    /// Tokens that were read, those from a cache included.
    pub input_tokens: u64,
    /// Tokens that were written, those of reasoning included.
    pub output_tokens: u64,
    /// Those of the input that came from a cache.
    pub cached_input_tokens: u64,
    /// Those of the output that were reasoning.
    pub reasoning_tokens: u64,
    /// How many of the requests did not say what they used: their tokens are missing above. Requests that failed are such.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreported: u64,
    /// What the requests cost whose price is [known](crate::model::ChatModelExt::priced).
    #[serde(skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
    /// How many of the requests have their price in `cost`.
    #[serde(skip_serializing_if = "is_zero")]
    pub priced: u64,
}

impl Usage {
    /// The cost of one request.
    pub fn of_request(input_tokens: u64, output_tokens: u64) -> Self {
        Self { requests: 1, input_tokens, output_tokens, ..Self::default() }
    }

    /// What a request used that came to nothing: nobody says. It is taken as free, as it is with providers that charge for replies.
    pub fn of_failed_request() -> Self {
        Self { requests: 1, unreported: 1, priced: 1, ..Self::default() }
    }

    /// The same as the usage of one reply, which was a request, whether its provider says what it used or not.
    #[must_use]
    pub fn of_reply(self) -> Self {
        let unreported = if self.is_reported() { self.unreported } else { 1 };
        Self { requests: self.requests.max(1), unreported, ..self }
    }

    /// Whether it says what was used: no request uses no tokens.
    pub(crate) fn is_reported(&self) -> bool {
        self.total_tokens() > 0
    }

    /// Whether what all of the requests cost is known.
    pub fn is_priced(&self) -> bool {
        self.priced >= self.requests
    }

    /// Subtracts the usage of a part.
    #[must_use]
    pub fn without(self, part: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(part.requests),
            input_tokens: self.input_tokens.saturating_sub(part.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(part.output_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_sub(part.cached_input_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(part.reasoning_tokens),
            unreported: self.unreported.saturating_sub(part.unreported),
            cost: self.cost.without(part.cost),
            priced: self.priced.saturating_sub(part.priced),
        }
    }

    /// Tokens that were read or written.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_add(other.cached_input_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            unreported: self.unreported.saturating_add(other.unreported),
            cost: self.cost + other.cost,
            priced: self.priced.saturating_add(other.priced),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What calls have used of models, such as those of an agent that is a tool. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct UsageMeter(Arc<Mutex<Usage>>);

impl UsageMeter {
    /// Counts what was used.
    pub fn add(&self, usage: Usage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += usage;
    }

    /// What was counted since it was taken last.
    pub fn take(&self) -> Usage {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
