//! The cost of validation: estimated before a check, or subtracted from a budget during it.
//!
//! The unit is a step of some nanoseconds. The figures are upper bounds for work that grows with
//! the input, and rough estimates for the rest.

use std::cell::Cell;

use serde_json::Value;

use super::preflight::pattern;

/// Minimum cost of one subschema visit.
const VISIT: u64 = 100;
/// Cost per character of a text that is read.
const READ: u64 = 8;
/// Maximum backtracks per text of an expression with look-around or back-references.
pub(super) const MAX_BACKTRACKS: usize = 10_000;
/// Cost of one backtrack.
const BACKTRACK: u64 = 20;

/// Keywords that read the complete value.
const READERS: [&str; 7] =
    ["const", "enum", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"];

/// The cost of one subschema visit, without nested subschemas.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// Constant part.
    visit: u64,
    /// Cost per part and character of the value.
    part: u64,
    /// Number of regular expressions that backtrack.
    backtracking: u64,
    /// Set for `uniqueItems`.
    compares_items: bool,
    /// Set for `unevaluatedProperties` and `unevaluatedItems`, which evaluate subschemas again.
    reevaluates: bool,
}

impl Cost {
    pub(super) fn of(schema: &Value) -> Self {
        let mut cost = Self { visit: VISIT, ..Self::default() };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            cost.visit += 1 + width(value);
            match keyword.as_str() {
                "pattern" => cost.matches(value.as_str().into_iter()),
                "patternProperties" => {
                    cost.matches(value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
                }
                "uniqueItems" => cost.compares_items = value == &Value::Bool(true),
                "unevaluatedProperties" | "unevaluatedItems" => cost.reevaluates = true,
                _ if READERS.contains(&keyword.as_str()) => cost.part += READ + width(value),
                _ => {}
            }
        }
        cost
    }

    fn matches<'p>(&mut self, patterns: impl Iterator<Item = &'p str>) {
        for pattern in patterns {
            self.part = self.part.saturating_add(pattern::states(pattern) as u64);
            self.backtracking += u64::from(pattern::backtracks(pattern));
        }
    }

    /// The cost per part and character of a value. `None` if the cost is not linear.
    pub(super) fn linear(&self) -> Option<u64> {
        let is_linear = self.backtracking == 0 && !self.compares_items && !self.reevaluates;
        is_linear.then(|| self.visit.saturating_add(self.part))
    }

    /// The cost of a visit with a value.
    pub(super) fn with(&self, value: &Value) -> u64 {
        let reads = self.part > 0 || self.compares_items;
        let size = if reads { extent(value) } else { 0 };
        let mut cost = self.visit + width(value) + self.part.saturating_mul(size);
        if self.backtracking > 0 && size > 0 {
            // Each attempt may read the whole text, and there is an attempt per character.
            let text = size.saturating_mul(size).max(MAX_BACKTRACKS as u64 * BACKTRACK);
            cost = cost.saturating_add(self.backtracking.saturating_mul(text));
        }
        if let (true, Value::Array(items)) = (self.compares_items, value) {
            // Nested arrays with the same leaves have the same hash, so all pairs are compared.
            let nested = items.iter().any(holds_array);
            cost = cost.saturating_add(if nested { size.saturating_mul(items.len() as u64) } else { size });
        }
        cost
    }

    /// Returns `true` if subschemas for the same value are evaluated more than once.
    pub(super) fn reevaluates(&self) -> bool {
        self.reevaluates
    }
}

thread_local! {
    /// Remaining budget of the check on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Runs a check that calls [`spend`]. Returns `None` if the check used up the budget.
pub(super) fn with_budget<T>(budget: u64, check: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(budget);
    let result = check();
    (LEFT.get() > 0).then_some(result)
}

/// Subtracts a cost from the budget. Returns `false` if the budget is used up.
pub(super) fn spend(cost: u64) -> bool {
    LEFT.set(LEFT.get().saturating_sub(cost));
    LEFT.get() > 0
}

/// The number of parts and characters of a value. Recursion is bounded by the depth limit.
pub(super) fn extent(value: &Value) -> u64 {
    1 + match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(extent).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() as u64 + extent(member)).sum()
        }
        _ => 0,
    }
}

fn width(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.len() as u64,
        Value::Object(members) => members.len() as u64,
        _ => 0,
    }
}

fn holds_array(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(members) => members.values().any(holds_array),
        _ => false,
    }
}
