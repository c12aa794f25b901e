use std::iter;

use serde_json::Value;

use super::merged_schema::{MergedSchema, parse_size};
use super::{ExampleError, Generator, example_error};
use haft_schema::reference::join_pointer;

/// The maximum number of attempts to generate an item that differs from the previous items.
const MAX_RETRIES: usize = 2_000;

/// The maximum number of items in a generated array.
const MAX_ITEMS: usize = 10_000;

impl<'s> Generator<'s> {
    pub(super) fn list(
        &mut self,
        merged: &MergedSchema<'s>,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, ExampleError> {
        let contained = repeated_contains_schemas(merged);
        let least = merged.lower_bound("minItems").max(contained.len());
        if least > MAX_ITEMS {
            return Err(example_error(pointer, "the schema requires more than 10000 items"));
        }
        let is_unique = merged.keyword_values("uniqueItems").any(|it| *it == true);
        let mut items: Vec<Value> = Vec::new();
        for index in 0..least {
            let mut schemas = item_schemas(merged, index);
            schemas.extend(contained.get(index));
            let pointer = join_pointer(pointer, &index.to_string());
            let item = if is_unique {
                self.distinct_item(&schemas, &items, &pointer, depth)?
            } else {
                self.value(&schemas, &pointer, depth + 1)?
            };
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    /// Generates an array item that differs from all items in `others`.
    fn distinct_item(
        &mut self,
        schemas: &[&'s Value],
        others: &[Value],
        pointer: &str,
        depth: usize,
    ) -> Result<Value, ExampleError> {
        let outer = (self.needs_distinct, self.choices.replace_offset(0));
        self.needs_distinct = true;
        let mut item = Err(example_error(pointer, "not enough distinct items"));
        let visited = self.choices.visited_count();
        for number in others.len()..others.len() + MAX_RETRIES {
            self.choices.truncate(visited);
            self.choices.replace_offset(number);
            let candidate = self.value(schemas, pointer, depth + 1);
            // The remaining offset is the number of times that all combinations were tried, because
            // each choice divides the offset by its number of options.
            let rounds = self.choices.replace_offset(0);
            if !candidate.as_ref().is_ok_and(|it| others.contains(it)) {
                item = candidate;
                break;
            }
            if rounds > 1 {
                break;
            }
        }
        self.needs_distinct = outer.0;
        self.choices.replace_offset(outer.1);
        item
    }
}

/// Returns the `contains` schemas. Each of them is repeated `minContains` times (default: once),
/// because a schema in the returned list applies to the array item at the same index.
fn repeated_contains_schemas<'s>(merged: &MergedSchema<'s>) -> Vec<&'s Value> {
    let mut contained = Vec::new();
    for part in &merged.parts {
        if let Some(schema) = part.get("contains") {
            let times = part.get("minContains").and_then(parse_size).unwrap_or(1);
            contained.extend(iter::repeat_n(schema, times.min(MAX_ITEMS + 1)));
        }
    }
    contained
}

/// Returns the schemas that apply to the array item at `index`. They come from `prefixItems` and
/// `items` or, in draft-07, from `items` and `additionalItems`.
fn item_schemas<'s>(merged: &MergedSchema<'s>, index: usize) -> Vec<&'s Value> {
    let of_part = |part: &&'s serde_json::Map<String, Value>| {
        let tuple = part.get("prefixItems").or_else(|| part.get("items")).and_then(Value::as_array);
        let rest = part.get("items").filter(|it| !it.is_array()).or_else(|| part.get("additionalItems"));
        tuple.and_then(|tuple| tuple.get(index)).or(rest)
    };
    merged.parts.iter().filter_map(of_part).collect()
}
