use serde_json::{Map, Number, Value, json};

use super::flat::Flat;
use super::{Maker, NoExample, misfit_at};
use haft_core::Schema;

const RULES: [&str; 5] = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"];

/// How many numbers are tried that follow one another.
const NEXT: usize = 4;

impl<'s> Maker<'s> {
    pub(super) fn number(
        &mut self,
        flat: &Flat<'s>,
        place: &str,
        is_integer: bool,
    ) -> Result<Value, NoExample> {
        let candidates = candidates(flat, is_integer);
        let Some(first) = candidates.first() else {
            return Err(misfit_at(place, "no number was found that the schema allows"));
        };
        let ways = if self.unlimited { super::text::UNLIMITED } else { candidates.len() };
        let chosen = self.choices.choose(place, "number", 0, ways);
        Ok(candidates.get(chosen).cloned().unwrap_or_else(|| {
            let step = step(flat);
            #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
            let next = first.as_f64().unwrap_or(0.0) + step * chosen as f64;
            value_of(next, is_integer).unwrap_or(Value::Null)
        }))
    }
}

/// Numbers that fit, the plainest first.
fn candidates(flat: &Flat<'_>, is_integer: bool) -> Vec<Value> {
    let numbers = |keyword| flat.rules(keyword).filter_map(Value::as_f64);
    let step = step(flat);
    let least = numbers("minimum").chain(numbers("exclusiveMinimum")).fold(f64::NEG_INFINITY, f64::max);
    let most = numbers("maximum").chain(numbers("exclusiveMaximum")).fold(f64::INFINITY, f64::min);
    let up = (least / step).ceil() * step;
    let down = (most / step).floor() * step;
    let mut tried: Vec<Value> = Vec::new();
    let mut plain = vec![0.0, 1.0];
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    plain.extend((0..NEXT).flat_map(|more| [up + step * more as f64, down - step * more as f64]));
    plain.extend([f64::midpoint(least, most), least + f64::EPSILON, least.next_up(), most.next_down()]);
    tried.extend(plain.into_iter().filter_map(|number| value_of(number, is_integer)));
    // As they are written: they may be larger than a float tells apart.
    tried.extend(["minimum", "maximum", "multipleOf"].into_iter().flat_map(|it| flat.rules(it)).cloned());
    tried.extend(
        flat.rules("examples").filter_map(Value::as_array).flatten().chain(flat.rules("default")).cloned(),
    );
    let rules = flat.parts.iter().map(|part| {
        let rules = RULES.iter().filter_map(|rule| Some(((*rule).to_owned(), part.get(*rule)?.clone())));
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

fn step(flat: &Flat<'_>) -> f64 {
    let largest = flat.rules("multipleOf").filter_map(Value::as_f64).fold(0.0, f64::max);
    if largest > 0.0 { largest } else { 1.0 }
}

fn value_of(number: f64, is_integer: bool) -> Option<Value> {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return format!("{number:.0}").parse::<i64>().ok().map(Value::from);
    }
    (!is_integer).then(|| Number::from_f64(number).map(Value::Number)).flatten()
}
