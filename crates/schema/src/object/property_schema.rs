use schemars::Schema;
use serde_json::Value;

/// The schema of a property, with methods that add constraints to it. See
/// [`TypedProperty::with_constraints`](super::TypedProperty::with_constraints).
#[derive(Debug)]
pub struct PropertySchema<'a>(pub(super) &'a mut Schema);

impl PropertySchema<'_> {
    /// Sets the JSON Schema keyword `name` to `value`. If the schema of the property's type already
    /// has this keyword, its value is replaced.
    pub fn keyword(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Sets the keyword `minimum` to `least`, unless the schema of the property's type already has
    /// a larger minimum.
    pub fn at_least(&mut self, least: Value) {
        self.bound("minimum", least, f64::gt);
    }

    /// Sets the keyword `maximum` to `most`, unless the schema of the property's type already has a
    /// smaller maximum.
    pub fn at_most(&mut self, most: Value) {
        self.bound("maximum", most, f64::lt);
    }

    /// Sets the keyword `name` to `bound`, unless the schema of the property's type already has a
    /// stricter bound. `is_narrower` returns `true` if its first argument is stricter than its
    /// second.
    fn bound(&mut self, name: &str, bound: Value, is_narrower: fn(&f64, &f64) -> bool) {
        let of_type = self.0.get(name).and_then(Value::as_f64);
        match (of_type, bound.as_f64()) {
            (Some(of_type), Some(given)) if is_narrower(&of_type, &given) => {}
            _ => self.keyword(name, bound),
        }
    }

    /// Limits the number of characters in a string, items in an array, or properties in an object.
    /// Adds no minimum if `least` is 0, and no maximum if `most` is `None`.
    pub fn length(&mut self, least: usize, most: Option<usize>) {
        let is = |name: &str| match self.0.get("type") {
            Some(Value::Array(types)) => types.iter().any(|it| it == name),
            other => other.is_some_and(|it| it == name),
        };
        let (min, max) = match (is("array"), is("object")) {
            (true, _) => ("minItems", "maxItems"),
            (_, true) => ("minProperties", "maxProperties"),
            _ => ("minLength", "maxLength"),
        };
        if least > 0 {
            self.keyword(min, least.into());
        }
        if let Some(most) = most {
            self.keyword(max, most.into());
        }
    }
}
