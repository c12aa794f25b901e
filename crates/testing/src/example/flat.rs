use serde_json::{Map, Value};

/// What several schemas say together of one value: the keywords of each of them, with references followed and ways chosen.
#[derive(Default)]
pub(super) struct Flat<'s> {
    pub(super) parts: Vec<&'s Map<String, Value>>,
    /// The dependencies that were followed.
    pub(super) followed: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Text,
    Integer,
    Number,
    Boolean,
    Null,
}

const KINDS: [Kind; 7] =
    [Kind::Text, Kind::Object, Kind::Array, Kind::Integer, Kind::Number, Kind::Boolean, Kind::Null];

impl<'s> Flat<'s> {
    /// What is said by a keyword, by each that says it.
    pub(super) fn rules(&self, keyword: &'s str) -> impl Iterator<Item = &'s Value> + Clone {
        self.parts.iter().filter_map(move |part| part.get(keyword))
    }

    /// The largest of the sizes that a keyword names.
    pub(super) fn least(&self, keyword: &'s str) -> usize {
        self.rules(keyword).filter_map(size).max().unwrap_or(0)
    }

    pub(super) fn most(&self, keyword: &'s str) -> Option<usize> {
        self.rules(keyword).filter_map(size).min()
    }

    /// The values that are allowed, where they are listed.
    pub(super) fn options(&self) -> Option<Vec<&'s Value>> {
        let lists = self.rules("enum").filter_map(Value::as_array).map(|list| list.iter().collect());
        let mut lists = lists.chain(self.rules("const").map(|only| vec![only]));
        let first: Vec<_> = lists.next()?;
        let mut options = lists.fold(first, |options: Vec<&Value>, list: Vec<&Value>| {
            options.into_iter().filter(|option| list.contains(option)).collect()
        });
        let kinds = self.kinds();
        options.retain(|option| !self.says_type() || kinds.iter().any(|kind| kind.has(option)));
        Some(options)
    }

    fn says_type(&self) -> bool {
        self.rules("type").next().is_some()
    }

    /// The types that the value may have; null is the last of them.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let mut lists = self.rules("type").map(|value| match value {
            Value::Array(names) => names.iter().filter_map(Kind::of).collect(),
            name => Kind::of(name).into_iter().collect::<Vec<_>>(),
        });
        let mut kinds = match lists.next() {
            None => self.inferred(),
            Some(first) => lists.fold(first, |kinds, list| {
                // What is a number and an integer is an integer.
                let both = kinds.iter().flat_map(|kind| list.iter().filter_map(|other| kind.and(*other)));
                both.collect()
            }),
        };
        kinds.sort_by_key(|kind| *kind == Kind::Null);
        kinds
    }

    /// Where no type is said, first the one that the other keywords are about.
    fn inferred(&self) -> Vec<Kind> {
        let says = |keywords: &[&str]| {
            self.parts.iter().any(|part| keywords.iter().any(|it| part.contains_key(*it)))
        };
        let about = if says(&[
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "minProperties",
            "propertyNames",
        ]) {
            Kind::Object
        } else if says(&["items", "prefixItems", "minItems", "contains", "uniqueItems"]) {
            Kind::Array
        } else if says(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
            Kind::Number
        } else {
            Kind::Text
        };
        let mut kinds = vec![about];
        kinds.extend(KINDS.into_iter().filter(|kind| *kind != about));
        kinds
    }
}

impl Kind {
    fn of(name: &Value) -> Option<Self> {
        Some(match name.as_str()? {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::Text,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "null" => Self::Null,
            _ => return None,
        })
    }

    fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Integer, Self::Number) | (Self::Number, Self::Integer) => Some(Self::Integer),
            _ => (self == other).then_some(self),
        }
    }

    fn has(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::Text => value.is_string(),
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Null => value.is_null(),
        }
    }
}

pub(super) fn size(value: &Value) -> Option<usize> {
    // `2.0` is a size too.
    let size = value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|it| it.fract() == 0.0 && (0.0..1e15).contains(it))
            .and_then(|it| format!("{it:.0}").parse().ok())
    });
    size.and_then(|size| usize::try_from(size).ok())
}
