//! Costs of validation. They are estimated before a check, or subtracted from a budget during the
//! check.
//!
//! The unit is a step of a few nanoseconds. Costs that grow with the size of the value are upper
//! bounds. All other costs are rough estimates.

use std::cell::Cell;

use serde_json::Value;

use super::preflight::{child_count, regex_size};

/// The minimum cost of checking a value against a subschema, without its nested subschemas.
const VISIT_COST: u64 = 100;
/// The cost per unit of [`value_size`] for each keyword that reads the complete value, such as
/// `enum`.
const READ_COST: u64 = 8;
/// The maximum number of backtracks in one match of a regular expression with look-around or
/// back-references.
pub(super) const MAX_BACKTRACKS: usize = 10_000;
/// The cost of one backtrack.
const BACKTRACK_COST: u64 = 20;

/// Keywords that read the complete value, so their cost grows with its size.
const VALUE_READING_KEYWORDS: [&str; 7] =
    ["const", "enum", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"];

/// The cost of checking a value against one subschema, without its nested subschemas.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ValidationCost {
    /// The cost of a visit to the subschema, independent of the size of the value.
    fixed: u64,
    /// The cost per unit of the value's [`value_size`].
    per_unit: u64,
    /// The number of regular expressions in the subschema that need backtracking.
    backtracking_patterns: u64,
    /// `true` if the subschema has `uniqueItems: true`.
    compares_items: bool,
    /// `true` if the subschema has `unevaluatedProperties` or `unevaluatedItems`. These keywords
    /// evaluate other subschemas for the same value again.
    reevaluates: bool,
}

impl ValidationCost {
    pub(super) fn of(schema: &Value) -> Self {
        let mut cost = Self { fixed: VISIT_COST, ..Self::default() };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let children = child_count(value) as u64;
            cost.fixed += 1 + children;
            match keyword.as_str() {
                "pattern" => cost.add_patterns(value.as_str().into_iter()),
                "patternProperties" => {
                    cost.add_patterns(value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
                }
                "uniqueItems" => cost.compares_items = value == &Value::Bool(true),
                "unevaluatedProperties" | "unevaluatedItems" => cost.reevaluates = true,
                _ if VALUE_READING_KEYWORDS.contains(&keyword.as_str()) => {
                    cost.per_unit += READ_COST + children;
                }
                _ => {}
            }
        }
        cost
    }

    fn add_patterns<'p>(&mut self, patterns: impl Iterator<Item = &'p str>) {
        for pattern in patterns {
            self.per_unit = self.per_unit.saturating_add(regex_size::estimate_states(pattern) as u64);
            self.backtracking_patterns += u64::from(regex_size::needs_backtracking(pattern));
        }
    }

    /// Returns the cost per unit of the value's [`value_size`]. Returns `None` if the cost does not
    /// grow linearly with this size, for example because of `uniqueItems`.
    pub(super) fn cost_per_unit(&self) -> Option<u64> {
        let is_linear = self.backtracking_patterns == 0 && !self.compares_items && !self.reevaluates;
        is_linear.then(|| self.fixed.saturating_add(self.per_unit))
    }

    /// Returns the cost of checking `value` against the subschema, without its nested subschemas.
    pub(super) fn of_value(&self, value: &Value) -> u64 {
        let reads = self.per_unit > 0 || self.compares_items;
        let size = if reads { value_size(value) } else { 0 };
        let mut cost = self.fixed + child_count(value) as u64 + self.per_unit.saturating_mul(size);
        if self.backtracking_patterns > 0 && size > 0 {
            // A match is attempted at each character, and each attempt may read the whole text.
            let text = size.saturating_mul(size).max(MAX_BACKTRACKS as u64 * BACKTRACK_COST);
            cost = cost.saturating_add(self.backtracking_patterns.saturating_mul(text));
        }
        if let (true, Value::Array(items)) = (self.compares_items, value) {
            // `uniqueItems` compares items with equal hashes in pairs. Nested arrays with the same
            // leaves have equal hashes, so the validator may compare all pairs.
            let nested = items.iter().any(holds_array);
            cost = cost.saturating_add(if nested { size.saturating_mul(items.len() as u64) } else { size });
        }
        cost
    }

    /// Returns `true` if the subschema has `unevaluatedProperties` or `unevaluatedItems`, which
    /// evaluate nested subschemas again for the same value.
    pub(super) fn reevaluates(&self) -> bool {
        self.reevaluates
    }
}

thread_local! {
    /// The remaining budget of the current check on this thread.
    static REMAINING_BUDGET: Cell<u64> = const { Cell::new(0) };
}

/// Runs `check` with the given `budget`, from which `check` subtracts its costs with [`spend`].
/// Returns the result of `check`, or `None` if the budget is used up.
pub(super) fn with_budget<T>(budget: u64, check: impl FnOnce() -> T) -> Option<T> {
    REMAINING_BUDGET.set(budget);
    let result = check();
    (REMAINING_BUDGET.get() > 0).then_some(result)
}

/// Subtracts `cost` from the remaining budget of the current check. Returns `false` if the budget
/// is used up.
pub(super) fn spend(cost: u64) -> bool {
    REMAINING_BUDGET.set(REMAINING_BUDGET.get().saturating_sub(cost));
    REMAINING_BUDGET.get() > 0
}

/// Returns the size of `value`: the number of JSON values in it, including `value` itself, plus the
/// length of all strings and property names in bytes. The caller must limit the depth of `value`,
/// because this function is recursive.
pub(super) fn value_size(value: &Value) -> u64 {
    1 + match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() as u64 + value_size(member)).sum()
        }
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
