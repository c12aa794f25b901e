use serde_json::{Map, Value};

use super::merged_schema::MergedSchema;
use super::{ExampleError, Generator, example_error};
use haft_core::Schema;
use haft_schema::reference::join_pointer;

/// The maximum nesting depth of objects whose optional members are added if the example without
/// these members is invalid.
const MAX_OPTIONAL_DEPTH: usize = 2;

/// The maximum number of member names that are generated for one object. Names are generated only
/// if there are fewer required and declared members than `minProperties`.
const MAX_GENERATED_NAMES: usize = 1_000;

impl<'s> Generator<'s> {
    pub(super) fn object(
        &mut self,
        mut merged: MergedSchema<'s>,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, ExampleError> {
        let optional =
            merged.declared_names().any(|name| !merged.requires(name)) && depth <= MAX_OPTIONAL_DEPTH;
        let with_optional = optional && self.choices.choose(pointer, "optional", 0, 2) == 1;
        let mut names = Vec::new();
        loop {
            let known = names.len();
            self.add_member_names(&mut merged, &mut names, with_optional, pointer)?;
            if names.len() == known {
                break;
            }
        }
        self.add_up_to_minimum(&merged, &mut names, pointer)?;
        let mut members = Map::new();
        for name in names {
            let schemas = merged.member_schemas(&name);
            let member = self.value(&schemas, &join_pointer(pointer, &name), depth + 1)?;
            members.insert(name, member);
        }
        Ok(Value::Object(members))
    }

    /// Adds the names of the required members to `names`, and the names of the optional properties
    /// if `with_optional` is set. Names in `properties` precede other names.
    ///
    /// Then applies the dependencies of the members in `names`: required names are added to
    /// `names`, and required schemas to `merged`.
    fn add_member_names(
        &mut self,
        merged: &mut MergedSchema<'s>,
        names: &mut Vec<String>,
        with_optional: bool,
        pointer: &str,
    ) -> Result<(), ExampleError> {
        let declared = merged
            .declared_names()
            .filter(|name| merged.requires(name) || with_optional && merged.allows(name));
        let others =
            merged.keyword_values("required").filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        for name in declared.chain(others).map(str::to_owned).collect::<Vec<_>>() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let followed = merged.parts.len();
        for part in 0..followed {
            for (name, follows) in merged.dependencies(part) {
                if !names.iter().any(|known| known == name)
                    || merged.applied_dependencies.contains(&super::address(follows))
                {
                    continue;
                }
                merged.applied_dependencies.push(super::address(follows));
                match follows.as_array() {
                    Some(more) => {
                        let more = more.iter().filter_map(Value::as_str).map(str::to_owned);
                        names.extend(more.filter(|name| !names.contains(name)).collect::<Vec<_>>());
                    }
                    None => self.merge(merged, follows, pointer)?,
                }
            }
        }
        Ok(())
    }

    /// Adds member names to `names` until the object has `minProperties` members: first the
    /// optional properties, then generated names. Returns an error if the schema does not allow
    /// that many names.
    fn add_up_to_minimum(
        &mut self,
        merged: &MergedSchema<'s>,
        names: &mut Vec<String>,
        pointer: &str,
    ) -> Result<(), ExampleError> {
        let least = merged.lower_bound("minProperties");
        let optional: Vec<_> =
            merged.declared_names().filter(|name| merged.allows(name)).map(str::to_owned).collect();
        for name in optional {
            if names.len() < least && !names.contains(&name) {
                names.push(name);
            }
        }
        let rules: Vec<_> = merged.keyword_values("propertyNames").collect();
        for number in 0..MAX_GENERATED_NAMES {
            if names.len() >= least {
                return Ok(());
            }
            let outer = self.needs_distinct;
            self.needs_distinct = true;
            let generated = self.generate_name(&rules, pointer, number);
            self.needs_distinct = outer;
            if let Value::String(name) = generated?
                && !names.contains(&name)
                && merged.allows(&name)
            {
                names.push(name);
            }
        }
        Err(example_error(
            pointer,
            format!("the schema requires {least} members but does not allow that many names"),
        ))
    }

    /// Generates a member name that matches `rules`, the schemas in `propertyNames`. Different
    /// values of `number` usually give different names if the schemas allow several.
    fn generate_name(
        &mut self,
        rules: &[&'s Value],
        pointer: &str,
        number: usize,
    ) -> Result<Value, ExampleError> {
        let outer = self.choices.replace_offset(number);
        let merged = self.merge_all(rules, pointer);
        let name = merged.and_then(|merged| match merged.allowed_values() {
            Some(options) if !options.is_empty() => {
                let chosen = self.choices.choose(pointer, "name", 0, options.len());
                Ok(options.get(chosen).map_or(Value::Null, |name| (*name).clone()))
            }
            _ => self.text(&merged, pointer),
        });
        self.choices.replace_offset(outer);
        name
    }
}

impl<'s> MergedSchema<'s> {
    /// Returns the member names declared in `properties`, without duplicates.
    pub(super) fn declared_names(&self) -> impl Iterator<Item = &'s str> {
        let mut names: Vec<&str> = Vec::new();
        for properties in self.keyword_values("properties").filter_map(Value::as_object) {
            for name in properties.keys() {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names.into_iter()
    }

    fn requires(&self, name: &str) -> bool {
        self.keyword_values("required").filter_map(Value::as_array).flatten().any(|required| required == name)
    }

    fn allows(&self, name: &str) -> bool {
        self.member_schemas(name).iter().all(|schema| schema.as_bool() != Some(false))
    }

    /// Returns the schemas that apply to the member `name`. In each merged schema, they come from
    /// `properties` and `patternProperties` or, if neither matches the name, from
    /// `additionalProperties` or `unevaluatedProperties`.
    fn member_schemas(&self, name: &str) -> Vec<&'s Value> {
        let mut schemas = Vec::new();
        for part in &self.parts {
            let before = schemas.len();
            schemas.extend(part.get("properties").and_then(|properties| properties.get(name)));
            let patterns = part.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
            schemas.extend(
                patterns.filter(|(pattern, _)| matches_pattern(pattern, name)).map(|(_, schema)| schema),
            );
            if schemas.len() == before {
                schemas.extend(
                    part.get("additionalProperties")
                        .or_else(|| part.get("unevaluatedProperties").filter(|it| it.is_object())),
                );
            }
        }
        schemas
    }

    /// Returns the dependencies in the merged schema with the index `part`. Each dependency
    /// consists of a member name and a rule for objects with this member: an array of required
    /// names, or a schema.
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

fn matches_pattern(pattern: &str, name: &str) -> bool {
    let schema = Schema::new(serde_json::json!({"type": "string", "pattern": pattern}));
    schema.is_ok_and(|schema| schema.is_valid(&Value::from(name)))
}
