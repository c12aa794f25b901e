use schemars::Schema;
use serde_json::Value;

/// A handle that adds constraints to the schema of a parameter.
pub struct Constraints<'a>(pub(super) &'a mut Schema);

impl Constraints<'_> {
    /// Sets the JSON Schema keyword `name` to `value`. It replaces the same keyword in the schema
    /// of the parameter's type.
    pub fn keyword(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Sets the minimum value of a number to `least`, unless the schema of its type has a larger
    /// minimum.
    pub fn at_least(&mut self, least: Value) {
        self.bound("minimum", least, f64::gt);
    }

    /// Sets the maximum value of a number to `most`, unless the schema of its type has a smaller
    /// maximum.
    pub fn at_most(&mut self, most: Value) {
        self.bound("maximum", most, f64::lt);
    }

    /// Sets the keyword `name` to `bound`, unless the schema of the parameter's type has a stricter
    /// bound.
    fn bound(&mut self, name: &str, bound: Value, is_narrower: fn(&f64, &f64) -> bool) {
        let of_type = self.0.get(name).and_then(Value::as_f64);
        match (of_type, bound.as_f64()) {
            (Some(of_type), Some(given)) if is_narrower(&of_type, &given) => {}
            _ => self.keyword(name, bound),
        }
    }

    /// Sets the minimum and maximum number of characters in a string, items in a list, or entries
    /// in a map. A minimum of 0 is omitted.
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
