#![allow(unused)]

use std::collections::BTreeMap;

use serde_json::json;
use haft_core::tool;

#[tool]
fn bounds(#[tool(range = 5)] a: i64, #[tool(length)] b: String, #[tool(range = ..)] c: i64) {}

#[tool]
fn twice(#[tool(rename = "x")] a: i64, x: i64) {}

#[tool]
fn early(#[tool(flatten)] rest: BTreeMap<String, i64>, x: i64) {}

#[tool(schema = json!({"properties": {"x": {"type": "integer"}}}))]
fn by_hand(#[tool(range = 1..=3)] x: i64) {}

/// Adds.
///
/// # Arguments
///
/// * `x` - The first.
/// * `z` - Not there.
#[tool]
fn listed(x: i64) {}

#[tool(replaced_by = "new")]
fn old() {}

fn main() {
    let _ = (Bounds, Twice, Early, ByHand, Listed, Old);
}
