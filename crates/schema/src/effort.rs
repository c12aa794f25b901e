//! What it takes to hold a value against a schema, told before or counted while it is done.
//!
//! Effort is counted in steps of some nanoseconds. The figures are upper bounds for what may grow without a bound,
//! and rough for the rest.

use std::cell::Cell;

use serde_json::Value;

use super::preflight::pattern;

/// What the visit of one subschema takes at least.
const VISIT: u64 = 100;
/// What a character takes where the text is read at all.
const READ: u64 = 8;
/// How often an expression with lookaround or references to groups may backtrack in one text.
pub(super) const BACKTRACKS: usize = 10_000;
/// What one time takes.
const BACKTRACK: u64 = 20;

/// Keywords that read the whole of a value, which may be long.
const READERS: [&str; 7] =
    ["const", "enum", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"];

/// What one visit of a subschema takes, apart from the subschemas in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// For any value.
    visit: u64,
    /// For each part and character of the value.
    part: u64,
    /// Expressions that backtrack.
    backtracking: u64,
    compares_items: bool,
    /// Looks into its own subschemas more than once.
    looks_again: bool,
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
                "unevaluatedProperties" | "unevaluatedItems" => cost.looks_again = true,
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

    /// What a visit takes per part and character of any value; `None` if that has no bound.
    pub(super) fn linear(&self) -> Option<u64> {
        let is_linear = self.backtracking == 0 && !self.compares_items && !self.looks_again;
        is_linear.then(|| self.visit.saturating_add(self.part))
    }

    /// What a visit with that value takes.
    pub(super) fn with(&self, value: &Value) -> u64 {
        let reads = self.part > 0 || self.compares_items;
        let size = if reads { extent(value) } else { 0 };
        let mut cost = self.visit + width(value) + self.part.saturating_mul(size);
        if self.backtracking > 0 && size > 0 {
            // Each time may read the whole text, once from each of its characters.
            let text = size.saturating_mul(size).max(BACKTRACKS as u64 * BACKTRACK);
            cost = cost.saturating_add(self.backtracking.saturating_mul(text));
        }
        if let (true, Value::Array(items)) = (self.compares_items, value) {
            // Arrays inside items have the same hash as others of the same leaves.
            let nested = items.iter().any(holds_array);
            cost = cost.saturating_add(if nested { size.saturating_mul(items.len() as u64) } else { size });
        }
        cost
    }

    /// Whether the subschemas that apply to the same value are gone through for more than whether it fits.
    pub(super) fn looks_again(&self) -> bool {
        self.looks_again
    }
}

thread_local! {
    /// What is left for the check that runs on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Runs a check that [`spend`]s, and returns `None` if it took more than it may.
pub(super) fn metered<T>(effort: u64, check: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(effort);
    let result = check();
    (LEFT.get() > 0).then_some(result)
}

/// Whether there is effort left for a step.
pub(super) fn spend(effort: u64) -> bool {
    LEFT.set(LEFT.get().saturating_sub(effort));
    LEFT.get() > 0
}

/// How many parts and characters a value has, in all. Its depth is bounded.
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
