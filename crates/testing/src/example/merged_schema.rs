use serde_json::{Map, Value};

/// The schemas that apply to the same value, after references were followed and one alternative of
/// each `anyOf` and `oneOf` was selected.
#[derive(Default)]
pub(super) struct MergedSchema<'s>(Vec<&'s Map<String, Value>>);

impl<'s> MergedSchema<'s> {
    pub(super) fn add(&mut self, keywords: &'s Map<String, Value>) {
        self.0.push(keywords);
    }

    /// Returns the values of `keyword` in all merged schemas.
    pub(super) fn values(&self, keyword: &str) -> impl Iterator<Item = &'s Value> {
        self.0.iter().filter_map(move |part| part.get(keyword))
    }

    /// Returns the largest value of `keyword`, for a lower bound such as `minLength`. Returns 0 if
    /// no schema has the keyword.
    pub(super) fn lower_bound(&self, keyword: &str) -> usize {
        let sizes = self.values(keyword).filter_map(Value::as_u64);
        sizes.max().map_or(0, |size| usize::try_from(size).unwrap_or(usize::MAX))
    }

    /// Returns the merged schemas with only the given keywords. A schema without any of them is
    /// omitted.
    pub(super) fn only(&self, keywords: &[&str]) -> Vec<Value> {
        let rules = self.0.iter().map(|part| -> Map<_, _> {
            keywords.iter().filter_map(|it| Some(((*it).to_owned(), part.get(*it)?.clone()))).collect()
        });
        rules.filter(|rules| !rules.is_empty()).map(Value::Object).collect()
    }

    /// Returns the values that all `enum` and `const` keywords allow. `None` if no merged schema has
    /// these keywords.
    pub(super) fn enumerated_values(&self) -> Option<Vec<&'s Value>> {
        let lists = self.values("enum").filter_map(Value::as_array).map(|list| list.iter().collect());
        let lists = lists.chain(self.values("const").map(|only| vec![only]));
        lists.reduce(|common: Vec<_>, list| common.into_iter().filter(|value| list.contains(value)).collect())
    }

    /// Returns a type that all `type` keywords allow, preferably not `null`. Without the keyword, the
    /// type is `object` or `array` if the schema has their keywords, and otherwise `string`.
    pub(super) fn json_type(&self) -> Option<&'s str> {
        let mut lists = self.values("type").map(|types| match types {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => Vec::from_iter(name.as_str()),
        });
        let Some(first) = lists.next() else {
            let has = |keyword| self.values(keyword).next().is_some();
            return Some(match () {
                () if has("properties") || has("required") => "object",
                () if has("items") => "array",
                () if has("minimum") || has("maximum") => "number",
                () => "string",
            });
        };
        let allowed =
            lists.fold(first, |common, list| common.into_iter().filter(|name| list.contains(name)).collect());
        allowed.iter().find(|name| **name != "null").or_else(|| allowed.first()).copied()
    }

    /// Returns the names of the required members, those declared in `properties` first.
    pub(super) fn required_names(&self) -> Vec<&'s str> {
        let required: Vec<_> =
            self.values("required").filter_map(Value::as_array).flatten().filter_map(Value::as_str).collect();
        let declared = self.values("properties").filter_map(Value::as_object).flat_map(Map::keys);
        let declared = declared.map(String::as_str).filter(|name| required.contains(name));
        let mut names = Vec::new();
        for name in declared.chain(required.iter().copied()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the schemas of the member `name`, from `properties` or else `additionalProperties`.
    pub(super) fn member_schemas(&self, name: &str) -> Vec<&'s Value> {
        let of_part = |part: &&'s Map<String, Value>| {
            let declared = part.get("properties").and_then(|properties| properties.get(name));
            declared.or_else(|| part.get("additionalProperties"))
        };
        self.0.iter().filter_map(of_part).collect()
    }
}
