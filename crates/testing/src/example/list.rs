use std::iter;

use serde_json::Value;

use super::flat::{Flat, size};
use super::{Maker, NoExample, misfit_at};
use haft_schema::reference::join;

/// How often an item is made anew so that it differs from those before it.
const DIFFERENT: usize = 2_000;

/// The longest list that is made.
const LONGEST: usize = 10_000;

impl<'s> Maker<'s> {
    pub(super) fn list(&mut self, flat: &Flat<'s>, place: &str, depth: usize) -> Result<Value, NoExample> {
        let contained = contained(flat);
        let least = flat.least("minItems").max(contained.len());
        if least > LONGEST {
            return Err(misfit_at(place, "a list of so many items is too long to be made"));
        }
        let is_unique = flat.rules("uniqueItems").any(|it| *it == true);
        let mut items: Vec<Value> = Vec::new();
        for index in 0..least {
            let mut schemas = schemas_of(flat, index);
            schemas.extend(contained.get(index));
            let place = join(place, &index.to_string());
            let item = if is_unique {
                self.another(&schemas, &items, &place, depth)?
            } else {
                self.value(&schemas, &place, depth + 1)?
            };
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    /// Makes an item that is not among the others.
    fn another(
        &mut self,
        schemas: &[&'s Value],
        others: &[Value],
        place: &str,
        depth: usize,
    ) -> Result<Value, NoExample> {
        let outer = (self.unlimited, self.choices.shift_by(0));
        self.unlimited = true;
        let mut made = Err(misfit_at(place, "there are not enough different items"));
        let met = self.choices.met();
        for number in others.len()..others.len() + DIFFERENT {
            self.choices.forget_after(met);
            self.choices.shift_by(number);
            let item = self.value(schemas, place, depth + 1);
            // What is left of the number says how often all ways were gone through.
            let rounds = self.choices.shift_by(0);
            if !item.as_ref().is_ok_and(|item| others.contains(item)) {
                made = item;
                break;
            }
            if rounds > 1 {
                break;
            }
        }
        self.unlimited = outer.0;
        self.choices.shift_by(outer.1);
        made
    }
}

/// What the first items must be beside all else, so that the list contains what it must.
fn contained<'s>(flat: &Flat<'s>) -> Vec<&'s Value> {
    let mut contained = Vec::new();
    for part in &flat.parts {
        if let Some(schema) = part.get("contains") {
            let times = part.get("minContains").and_then(size).unwrap_or(1);
            contained.extend(iter::repeat_n(schema, times.min(LONGEST + 1)));
        }
    }
    contained
}

/// What each part says of an item, by draft 2020-12 or draft-07.
fn schemas_of<'s>(flat: &Flat<'s>, index: usize) -> Vec<&'s Value> {
    let of_part = |part: &&'s serde_json::Map<String, Value>| {
        let tuple = part.get("prefixItems").or_else(|| part.get("items")).and_then(Value::as_array);
        let rest = part.get("items").filter(|it| !it.is_array()).or_else(|| part.get("additionalItems"));
        tuple.and_then(|tuple| tuple.get(index)).or(rest)
    };
    flat.parts.iter().filter_map(of_part).collect()
}
