use std::iter;

use serde_json::Value;

use super::merged::{MergedSchema, size};
use super::{Generator, NoExample, no_example};
use haft_schema::reference::join;

/// Maximum number of values that are generated until an item is distinct.
const MAX_RETRIES: usize = 2_000;

/// Maximum number of items in a generated list.
const MAX_ITEMS: usize = 10_000;

impl<'s> Generator<'s> {
    pub(super) fn list(
        &mut self,
        merged: &MergedSchema<'s>,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, NoExample> {
        let contained = repeat_contains(merged);
        let least = merged.lower_bound("minItems").max(contained.len());
        if least > MAX_ITEMS {
            return Err(no_example(pointer, "the schema requires more than 10000 items"));
        }
        let is_unique = merged.rules("uniqueItems").any(|it| *it == true);
        let mut items: Vec<Value> = Vec::new();
        for index in 0..least {
            let mut schemas = schemas_of(merged, index);
            schemas.extend(contained.get(index));
            let pointer = join(pointer, &index.to_string());
            let item = if is_unique {
                self.distinct_item(&schemas, &items, &pointer, depth)?
            } else {
                self.value(&schemas, &pointer, depth + 1)?
            };
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    /// Generates an item that differs from all items in `others`.
    fn distinct_item(
        &mut self,
        schemas: &[&'s Value],
        others: &[Value],
        pointer: &str,
        depth: usize,
    ) -> Result<Value, NoExample> {
        let outer = (self.needs_distinct, self.choices.replace_shift(0));
        self.needs_distinct = true;
        let mut item = Err(no_example(pointer, "not enough distinct items"));
        let visited = self.choices.visited();
        for number in others.len()..others.len() + MAX_RETRIES {
            self.choices.truncate(visited);
            self.choices.replace_shift(number);
            let candidate = self.value(schemas, pointer, depth + 1);
            // Each choice divides the number by its options, so the rest counts how often all
            // combinations were generated.
            let rounds = self.choices.replace_shift(0);
            if !candidate.as_ref().is_ok_and(|it| others.contains(it)) {
                item = candidate;
                break;
            }
            if rounds > 1 {
                break;
            }
        }
        self.needs_distinct = outer.0;
        self.choices.replace_shift(outer.1);
        item
    }
}

/// Returns each `contains` schema as often as its `minContains` requires. Each entry applies to one
/// of the first items.
fn repeat_contains<'s>(merged: &MergedSchema<'s>) -> Vec<&'s Value> {
    let mut contained = Vec::new();
    for part in &merged.parts {
        if let Some(schema) = part.get("contains") {
            let times = part.get("minContains").and_then(size).unwrap_or(1);
            contained.extend(iter::repeat_n(schema, times.min(MAX_ITEMS + 1)));
        }
    }
    contained
}

/// Returns the schemas that apply to the item at `index`. Supports the keywords of draft 2020-12
/// and of draft-07.
fn schemas_of<'s>(merged: &MergedSchema<'s>, index: usize) -> Vec<&'s Value> {
    let of_part = |part: &&'s serde_json::Map<String, Value>| {
        let tuple = part.get("prefixItems").or_else(|| part.get("items")).and_then(Value::as_array);
        let rest = part.get("items").filter(|it| !it.is_array()).or_else(|| part.get("additionalItems"));
        tuple.and_then(|tuple| tuple.get(index)).or(rest)
    };
    merged.parts.iter().filter_map(of_part).collect()
}
