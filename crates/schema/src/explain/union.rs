//! Violations of `anyOf` and `oneOf`. If possible, they refer to the alternative that the model
//! probably intended.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::super::violation::{MAX_LISTED, Violation, Violations};
use super::super::{union_guards, wording};
use super::{Explainer, explain};

/// The similarity between an invalid value and an alternative of a union, derived from the errors
/// of the alternative. The variants are in ascending order of similarity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// The lowest similarity: the value itself is invalid, for example because it has the wrong
    /// type.
    Type,
    /// The value is an object with the wrong tag, such as `{"type": "circle"}` for an alternative
    /// with the tag `"square"`.
    Tag,
    /// The value is an object with missing or unknown properties, but the right tag.
    Properties,
    /// The value has the right type, tag and properties. Only values nested in it are invalid.
    Member,
}

impl Explainer<'_> {
    /// Explains `error` with the errors of the alternative that is most similar to the value. If
    /// several alternatives are equally similar and the value has the wrong tag for all of them,
    /// lists the allowed tags. In all other cases, describes all alternatives.
    pub(super) fn explain_union(
        &self,
        error: &ValidationError<'_>,
        alternatives: &[Vec<ValidationError<'static>>],
    ) -> Violations {
        let pointer = error.instance_path().as_str();
        match nearest_alternatives(pointer, alternatives) {
            (Nearness::Type, _) => {}
            (nearness, nearest) => match nearest.as_slice() {
                [meant] => return explain(self.schema, self.value, meant),
                several if nearness == Nearness::Tag => return self.explain_tags(pointer, several),
                _ => {}
            },
        }
        let schemas = self.schema.pointer(error.schema_path().as_str()).and_then(Value::as_array);
        let expected = match schemas {
            Some(schemas) => wording::join_with_or(
                schemas
                    .iter()
                    .map(|it| wording::describe_schema(self.schema, union_guards::original_alternative(it))),
            ),
            None => wording::join_with_or(
                alternatives
                    .iter()
                    .flatten()
                    .map(|it| self.explain_error(it))
                    .flat_map(|it| it.iter().map(|it| it.expected.clone()).collect::<Vec<_>>()),
            ),
        };
        let violation = Violation::mismatch(pointer, expected, wording::describe_value(error.instance()));
        Violations::new(vec![violation], 0)
    }

    /// Creates the violations for an object with a wrong tag, such as `{"type": "circle"}`. The
    /// violation for a tag lists its allowed values from all `alternatives`.
    fn explain_tags(&self, pointer: &str, alternatives: &[&[ValidationError<'_>]]) -> Violations {
        let errors =
            alternatives.iter().copied().flatten().filter(|error| nearness(pointer, error) == Nearness::Tag);
        let mut tags: Vec<(&ValidationError<'_>, Vec<String>)> = Vec::new();
        for error in errors {
            let expected = self.describe_expected(error, error.kind());
            let is_full = tags.len() >= MAX_LISTED;
            match tags.iter_mut().find(|(tag, _)| tag.instance_path() == error.instance_path()) {
                Some((_, values)) => values.push(expected),
                None if is_full => {}
                None => tags.push((error, vec![expected])),
            }
        }
        let violation = |(tag, values): (&ValidationError<'_>, Vec<String>)| {
            let received = wording::describe_value(tag.instance());
            Violation::mismatch(
                tag.instance_path().as_str(),
                wording::join_with_or(values.into_iter()),
                received,
            )
        };
        Violations::new(tags.into_iter().map(violation).collect(), 0)
    }
}

/// Returns the highest similarity of any alternative, and the errors of each alternative with this
/// similarity.
fn nearest_alternatives<'e>(
    pointer: &str,
    alternatives: &'e [Vec<ValidationError<'static>>],
) -> (Nearness, Vec<&'e [ValidationError<'static>]>) {
    let rank = |errors: &[ValidationError<'_>]| {
        errors.iter().map(|error| nearness(pointer, error)).min().unwrap_or(Nearness::Type)
    };
    let nearest = alternatives.iter().map(|errors| rank(errors)).max().unwrap_or(Nearness::Type);
    (nearest, alternatives.iter().map(Vec::as_slice).filter(|errors| rank(errors) == nearest).collect())
}

fn nearness(pointer: &str, error: &ValidationError<'_>) -> Nearness {
    let inside = error.instance_path().as_str().strip_prefix(pointer).unwrap_or_default();
    let is_tag = matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. });
    match (inside.matches('/').count(), error.kind()) {
        (
            0,
            Kind::Required { .. } | Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. },
        ) => Nearness::Properties,
        (0, _) => Nearness::Type,
        (1, _) if is_tag => Nearness::Tag,
        _ => Nearness::Member,
    }
}
