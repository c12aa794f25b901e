use serde_json::{Map, Value};

use super::flat::Flat;
use super::{Maker, NoExample, misfit_at};
use haft_core::Schema;
use haft_schema::reference::join;

/// How deep what is optional is ever written.
const OPTIONAL_DEPTH: usize = 2;

/// How many members are made up at most, where a schema wants some and names none.
const MADE_UP: usize = 1_000;

impl<'s> Maker<'s> {
    pub(super) fn object(
        &mut self,
        mut flat: Flat<'s>,
        place: &str,
        depth: usize,
    ) -> Result<Value, NoExample> {
        let optional = flat.declared().any(|name| !flat.requires(name)) && depth <= OPTIONAL_DEPTH;
        let with_optional = optional && self.choices.choose(place, "optional", 0, 2) == 1;
        let mut names = Vec::new();
        loop {
            let known = names.len();
            self.name_members(&mut flat, &mut names, with_optional, place)?;
            if names.len() == known {
                break;
            }
        }
        self.fill_up(&flat, &mut names, place)?;
        let mut members = Map::new();
        for name in names {
            let schemas = flat.schemas_of(&name);
            let member = self.value(&schemas, &join(place, &name), depth + 1)?;
            members.insert(name, member);
        }
        Ok(Value::Object(members))
    }

    /// Names what must be there, in the order of the properties, and what follows from that.
    fn name_members(
        &mut self,
        flat: &mut Flat<'s>,
        names: &mut Vec<String>,
        with_optional: bool,
        place: &str,
    ) -> Result<(), NoExample> {
        let declared =
            flat.declared().filter(|name| flat.requires(name) || with_optional && flat.allows(name));
        let others = flat.rules("required").filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        for name in declared.chain(others).map(str::to_owned).collect::<Vec<_>>() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let followed = flat.parts.len();
        for part in 0..followed {
            for (name, follows) in flat.dependencies(part) {
                if !names.iter().any(|known| known == name)
                    || flat.followed.contains(&super::address(follows))
                {
                    continue;
                }
                flat.followed.push(super::address(follows));
                match follows.as_array() {
                    Some(more) => {
                        let more = more.iter().filter_map(Value::as_str).map(str::to_owned);
                        names.extend(more.filter(|name| !names.contains(name)).collect::<Vec<_>>());
                    }
                    None => self.gather(flat, follows, place)?,
                }
            }
        }
        Ok(())
    }

    /// Adds members until there are enough: optional ones, then such as nobody named.
    fn fill_up(&mut self, flat: &Flat<'s>, names: &mut Vec<String>, place: &str) -> Result<(), NoExample> {
        let least = flat.least("minProperties");
        let optional: Vec<_> = flat.declared().filter(|name| flat.allows(name)).map(str::to_owned).collect();
        for name in optional {
            if names.len() < least && !names.contains(&name) {
                names.push(name);
            }
        }
        let rules: Vec<_> = flat.rules("propertyNames").collect();
        for number in 0..MADE_UP {
            if names.len() >= least {
                return Ok(());
            }
            let outer = self.unlimited;
            self.unlimited = true;
            let made = self.name(&rules, place, number);
            self.unlimited = outer;
            if let Value::String(name) = made?
                && !names.contains(&name)
                && flat.allows(&name)
            {
                names.push(name);
            }
        }
        Err(misfit_at(
            place,
            format!("the schema asks for {least} members, and not enough names are allowed"),
        ))
    }

    fn name(&mut self, rules: &[&'s Value], place: &str, number: usize) -> Result<Value, NoExample> {
        let outer = self.choices.shift_by(number);
        let flat = self.flat(rules, place);
        let name = flat.and_then(|flat| match flat.options() {
            Some(options) if !options.is_empty() => {
                let chosen = self.choices.choose(place, "name", 0, options.len());
                Ok(options.get(chosen).map_or(Value::Null, |name| (*name).clone()))
            }
            _ => self.text(&flat, place),
        });
        self.choices.shift_by(outer);
        name
    }
}

impl<'s> Flat<'s> {
    /// The names of the properties, each once.
    pub(super) fn declared(&self) -> impl Iterator<Item = &'s str> {
        let mut names: Vec<&str> = Vec::new();
        for properties in self.rules("properties").filter_map(Value::as_object) {
            for name in properties.keys() {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names.into_iter()
    }

    fn requires(&self, name: &str) -> bool {
        self.rules("required").filter_map(Value::as_array).flatten().any(|required| required == name)
    }

    fn allows(&self, name: &str) -> bool {
        self.schemas_of(name).iter().all(|schema| schema.as_bool() != Some(false))
    }

    /// What each part says of the member of that name.
    fn schemas_of(&self, name: &str) -> Vec<&'s Value> {
        let mut schemas = Vec::new();
        for part in &self.parts {
            let before = schemas.len();
            schemas.extend(part.get("properties").and_then(|properties| properties.get(name)));
            let patterns = part.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
            schemas.extend(patterns.filter(|(pattern, _)| matches(pattern, name)).map(|(_, schema)| schema));
            if schemas.len() == before {
                schemas.extend(
                    part.get("additionalProperties")
                        .or_else(|| part.get("unevaluatedProperties").filter(|it| it.is_object())),
                );
            }
        }
        schemas
    }

    /// What must be where a member is: names, or a schema.
    fn dependencies(&self, part: usize) -> Vec<(&'s str, &'s Value)> {
        let part = self.parts.get(part);
        ["dependentRequired", "dependentSchemas", "dependencies"]
            .into_iter()
            .filter_map(|keyword| part?.get(keyword)?.as_object())
            .flatten()
            .map(|(name, follows)| (name.as_str(), follows))
            .collect()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    let schema = Schema::new(serde_json::json!({"type": "string", "pattern": pattern}));
    schema.is_ok_and(|schema| schema.is_valid(&Value::from(name)))
}
