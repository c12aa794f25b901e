//! A value that fits none of several alternatives: which one was meant?

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::super::describe;
use super::super::violation::Violation;
use super::{Explainer, explain};

/// How near an error leaves an alternative to what was meant, from far to near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// Another kind of value altogether.
    Kind,
    /// An object with another tag, such as `{"type": "circle"}` for `"square"`.
    Tag,
    /// An object with other properties.
    Shape,
    /// Something inside it.
    Inside,
}

impl Explainer<'_> {
    /// Explains the alternative that was meant if there is one, and otherwise names them all.
    pub(super) fn union(
        &self,
        error: &ValidationError<'_>,
        alternatives: &[Vec<ValidationError<'static>>],
    ) -> Vec<Violation> {
        let pointer = error.instance_path().as_str();
        if let Some(meant) = meant(pointer, alternatives) {
            return explain(self.schema, self.value, meant);
        }
        let schemas = self.schema.pointer(error.schema_path().as_str()).and_then(Value::as_array);
        let expected = match schemas {
            Some(schemas) => describe::either(schemas.iter().map(|it| describe::schema(self.schema, it))),
            None => describe::either(
                alternatives.iter().flatten().flat_map(|it| self.violations(it)).map(|it| it.expected),
            ),
        };
        vec![Violation::mismatch(pointer, expected, describe::received(error.instance()))]
    }
}

/// The alternative that is nearer than all others.
fn meant<'e>(
    pointer: &str,
    alternatives: &'e [Vec<ValidationError<'static>>],
) -> Option<&'e [ValidationError<'static>]> {
    let rank = |errors: &[ValidationError<'_>]| errors.iter().map(|error| nearness(pointer, error)).min();
    let ranked = alternatives.iter().map(|errors| (rank(errors), errors));
    let nearest = ranked.clone().filter_map(|(rank, _)| rank).max().filter(|rank| *rank > Nearness::Kind)?;
    let mut nearest = ranked.filter(|(rank, _)| *rank == Some(nearest)).map(|(_, errors)| errors.as_slice());
    let first = nearest.next()?;
    nearest.next().is_none().then_some(first)
}

fn nearness(pointer: &str, error: &ValidationError<'_>) -> Nearness {
    let inside = error.instance_path().as_str().strip_prefix(pointer).unwrap_or_default();
    let is_tag = matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. });
    match (inside.matches('/').count(), error.kind()) {
        (
            0,
            Kind::Required { .. } | Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. },
        ) => Nearness::Shape,
        (0, _) => Nearness::Kind,
        (1, _) if is_tag => Nearness::Tag,
        _ => Nearness::Inside,
    }
}
