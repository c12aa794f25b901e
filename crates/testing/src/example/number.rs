use serde_json::{Map, Number, Value, json};

use super::merged_schema::MergedSchema;
use super::{ExampleError, Generator, example_error};
use haft_core::Schema;

const NUMBER_KEYWORDS: [&str; 5] =
    ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"];

/// The number of multiples of `multipleOf` to try from each bound: upwards from the lower bound,
/// and downwards from the upper bound.
const MULTIPLES_PER_BOUND: usize = 4;

impl<'s> Generator<'s> {
    pub(super) fn number(
        &mut self,
        merged: &MergedSchema<'s>,
        pointer: &str,
        is_integer: bool,
    ) -> Result<Value, ExampleError> {
        let candidates = candidate_numbers(merged, is_integer);
        let Some(first) = candidates.first() else {
            return Err(example_error(pointer, "no number was found that the schema allows"));
        };
        let ways = if self.needs_distinct { super::string::DISTINCT_CANDIDATES } else { candidates.len() };
        let chosen = self.choices.choose(pointer, "number", 0, ways);
        Ok(candidates.get(chosen).cloned().unwrap_or_else(|| {
            let step = multiple_of(merged);
            #[expect(clippy::cast_precision_loss, reason = "at most 5,000")]
            let next = first.as_f64().unwrap_or(0.0) + step * chosen as f64;
            to_json_number(next, is_integer).unwrap_or(Value::Null)
        }))
    }
}

/// Returns numbers that satisfy the type and the [`NUMBER_KEYWORDS`] of `merged`, simple numbers
/// first.
fn candidate_numbers(merged: &MergedSchema<'_>, is_integer: bool) -> Vec<Value> {
    let numbers = |keyword| merged.keyword_values(keyword).filter_map(Value::as_f64);
    let step = multiple_of(merged);
    let least = numbers("minimum").chain(numbers("exclusiveMinimum")).fold(f64::NEG_INFINITY, f64::max);
    let most = numbers("maximum").chain(numbers("exclusiveMaximum")).fold(f64::INFINITY, f64::min);
    let up = (least / step).ceil() * step;
    let down = (most / step).floor() * step;
    let mut tried: Vec<Value> = Vec::new();
    let mut plain = vec![0.0, 1.0];
    #[expect(clippy::cast_precision_loss, reason = "at most 4")]
    plain.extend(
        (0..MULTIPLES_PER_BOUND).flat_map(|more| [up + step * more as f64, down - step * more as f64]),
    );
    plain.extend([f64::midpoint(least, most), least + f64::EPSILON, least.next_up(), most.next_down()]);
    tried.extend(plain.into_iter().filter_map(|number| to_json_number(number, is_integer)));
    // Also try the bounds and `multipleOf` as written in the schema, because `f64` is not exact for
    // integers above 2^53.
    tried.extend(
        ["minimum", "maximum", "multipleOf"].into_iter().flat_map(|it| merged.keyword_values(it)).cloned(),
    );
    tried.extend(
        merged
            .keyword_values("examples")
            .filter_map(Value::as_array)
            .flatten()
            .chain(merged.keyword_values("default"))
            .cloned(),
    );
    let rules = merged.parts.iter().map(|part| {
        let rules =
            NUMBER_KEYWORDS.iter().filter_map(|rule| Some(((*rule).to_owned(), part.get(*rule)?.clone())));
        Value::Object(rules.collect::<Map<_, _>>())
    });
    let rules: Vec<_> = rules.collect();
    let kind = if is_integer { "integer" } else { "number" };
    let mut fitting: Vec<Value> = Vec::new();
    if let Ok(schema) = Schema::new(json!({"type": kind, "allOf": rules})) {
        for number in tried {
            if schema.is_valid(&number) && !fitting.contains(&number) {
                fitting.push(number);
            }
        }
    }
    fitting
}

fn multiple_of(merged: &MergedSchema<'_>) -> f64 {
    let largest = merged.keyword_values("multipleOf").filter_map(Value::as_f64).fold(0.0, f64::max);
    if largest > 0.0 { largest } else { 1.0 }
}

fn to_json_number(number: f64, is_integer: bool) -> Option<Value> {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return format!("{number:.0}").parse::<i64>().ok().map(Value::from);
    }
    (!is_integer).then(|| Number::from_f64(number).map(Value::Number)).flatten()
}
