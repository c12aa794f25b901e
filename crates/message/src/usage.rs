//! Token usage and cost.

mod cost;

use std::{
    mem,
    ops::{Add, AddAssign},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

pub use cost::{Cost, Price, Prices};

/// The usage of model requests: the number of requests, their tokens and their cost. Values are
/// added with `+`.
///
/// # Examples
///
/// ```
/// use haft_message::usage::Usage;
///
/// let total = Usage::one_request(1_000, 200) + Usage::one_request(500, 50);
/// assert_eq!((total.requests, total.total_tokens()), (2, 1_750));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The number of model requests.
    pub requests: u64,
    /// The number of input tokens, including cached tokens.
    pub input_tokens: u64,
    /// The number of output tokens, including reasoning tokens.
    pub output_tokens: u64,
    /// The number of input tokens that the provider read from its prompt cache.
    pub cached_input_tokens: u64,
    /// The number of input tokens that the provider wrote to its prompt cache, at the price of a
    /// write. They are included in `input_tokens`.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// The number of output tokens used for reasoning.
    pub reasoning_tokens: u64,
    /// The number of requests to hosted tools, such as web searches, that the provider bills.
    #[serde(skip_serializing_if = "is_zero")]
    pub hosted_tool_requests: u64,
    /// The number of requests whose tokens were not reported, including failed requests. Their
    /// tokens are not included in the other fields.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreported_requests: u64,
    /// The cost of the requests with a known [price](Price).
    #[serde(skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
    /// The number of requests whose cost is included in `cost`. Failed requests count with a cost
    /// of 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub priced_requests: u64,
}

impl Usage {
    /// Creates the usage of one request with the given numbers of tokens.
    pub fn one_request(input_tokens: u64, output_tokens: u64) -> Self {
        Self { requests: 1, input_tokens, output_tokens, ..Self::default() }
    }

    /// Creates the usage of a failed request. Its tokens are unreported. Its cost is assumed to be
    /// 0, because providers usually charge only for replies.
    pub fn failed_request() -> Self {
        Self { requests: 1, unreported_requests: 1, priced_requests: 1, ..Self::default() }
    }

    /// Corrects the usage that a provider reported for one reply. The number of
    /// [`requests`](Self::requests) becomes at least 1. If the provider reported no tokens,
    /// [`unreported_requests`](Self::unreported_requests) becomes 1.
    #[must_use]
    pub fn counted_as_request(self) -> Self {
        let unreported_requests = if self.is_reported() { self.unreported_requests } else { 1 };
        Self { requests: self.requests.max(1), unreported_requests, ..self }
    }

    /// Returns `true` if the provider reported any tokens. Zero tokens count as unreported.
    pub fn is_reported(&self) -> bool {
        self.total_tokens() > 0
    }

    /// Returns `true` if the cost of every request is known.
    pub fn is_priced(&self) -> bool {
        self.priced_requests >= self.requests
    }

    /// Returns this usage minus `part`. Each field saturates at 0.
    #[must_use]
    pub fn saturating_sub(self, part: Self) -> Self {
        self.combine(part, u64::saturating_sub, Cost::saturating_sub)
    }

    /// Returns the sum of input and output tokens.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Combines each field of `self` with the same field of `other`.
    fn combine(
        self,
        other: Self,
        counts: impl Fn(u64, u64) -> u64,
        costs: impl Fn(Cost, Cost) -> Cost,
    ) -> Self {
        Self {
            requests: counts(self.requests, other.requests),
            input_tokens: counts(self.input_tokens, other.input_tokens),
            output_tokens: counts(self.output_tokens, other.output_tokens),
            cached_input_tokens: counts(self.cached_input_tokens, other.cached_input_tokens),
            cache_write_tokens: counts(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens: counts(self.reasoning_tokens, other.reasoning_tokens),
            hosted_tool_requests: counts(self.hosted_tool_requests, other.hosted_tool_requests),
            unreported_requests: counts(self.unreported_requests, other.unreported_requests),
            cost: costs(self.cost, other.cost),
            priced_requests: counts(self.priced_requests, other.priced_requests),
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, u64::saturating_add, Cost::add)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A shared counter for the usage of model requests made inside tool calls, for example by an agent
/// used as a tool. All clones add to the same counter. A [part](Self::part) has its own count.
///
/// # Examples
///
/// ```
/// use haft_message::usage::{Usage, UsageMeter};
///
/// let meter = UsageMeter::default();
/// meter.clone().add(Usage::one_request(100, 10));
/// assert_eq!(meter.take().total_tokens(), 110);
/// assert_eq!(meter.take(), Usage::default());
/// ```
#[derive(Clone, Debug, Default)]
pub struct UsageMeter(Arc<MeterInner>);

#[derive(Debug, Default)]
struct MeterInner {
    usage: Mutex<Usage>,
    whole: Option<UsageMeter>,
}

impl UsageMeter {
    /// Creates a counter for a part of the usage, for example of one call. Usage added to the part
    /// is also added to this counter.
    #[must_use]
    pub fn part(&self) -> Self {
        Self(Arc::new(MeterInner { usage: Mutex::default(), whole: Some(self.clone()) }))
    }

    /// Adds `usage` to the counter.
    pub fn add(&self, usage: Usage) {
        *self.lock() += usage;
        if let Some(whole) = &self.0.whole {
            whole.add(usage);
        }
    }

    /// Returns the usage added since the last call to [`take`](Self::take).
    pub fn peek(&self) -> Usage {
        *self.lock()
    }

    /// Returns the usage added since the previous call to `take`, and resets the counter to zero.
    pub fn take(&self) -> Usage {
        mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
