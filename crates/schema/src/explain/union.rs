//! A value that fits none of several alternatives: which one was meant?

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::super::violation::{LISTED, Violation, Violations};
use super::super::{describe, guarded};
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
    ) -> Violations {
        let pointer = error.instance_path().as_str();
        match nearest(pointer, alternatives) {
            (Nearness::Kind, _) => {}
            (nearness, nearest) => match nearest.as_slice() {
                [meant] => return explain(self.schema, self.value, meant),
                several if nearness == Nearness::Tag => return self.tags(pointer, several),
                _ => {}
            },
        }
        let schemas = self.schema.pointer(error.schema_path().as_str()).and_then(Value::as_array);
        let expected = match schemas {
            Some(schemas) => describe::either(
                schemas.iter().map(|it| describe::schema(self.schema, guarded::alternative(it))),
            ),
            None => describe::either(
                alternatives
                    .iter()
                    .flatten()
                    .map(|it| self.violations(it))
                    .flat_map(|it| it.iter().map(|it| it.expected.clone()).collect::<Vec<_>>()),
            ),
        };
        let violation = Violation::mismatch(pointer, expected, describe::received(error.instance()));
        Violations::new(vec![violation], 0)
    }

    /// Explains objects of which only the tag is wrong: each tag is listed with all that it may be.
    fn tags(&self, pointer: &str, alternatives: &[&[ValidationError<'_>]]) -> Violations {
        let errors =
            alternatives.iter().copied().flatten().filter(|error| nearness(pointer, error) == Nearness::Tag);
        let mut tags: Vec<(&ValidationError<'_>, Vec<String>)> = Vec::new();
        for error in errors {
            let expected = self.expected(error, error.kind());
            let is_full = tags.len() >= LISTED;
            match tags.iter_mut().find(|(tag, _)| tag.instance_path() == error.instance_path()) {
                Some((_, values)) => values.push(expected),
                None if is_full => {}
                None => tags.push((error, vec![expected])),
            }
        }
        let violation = |(tag, values): (&ValidationError<'_>, Vec<String>)| {
            let received = describe::received(tag.instance());
            Violation::mismatch(tag.instance_path().as_str(), describe::either(values.into_iter()), received)
        };
        Violations::new(tags.into_iter().map(violation).collect(), 0)
    }
}

/// The alternatives that are nearest to what was meant, and how near that is.
fn nearest<'e>(
    pointer: &str,
    alternatives: &'e [Vec<ValidationError<'static>>],
) -> (Nearness, Vec<&'e [ValidationError<'static>]>) {
    let rank = |errors: &[ValidationError<'_>]| {
        errors.iter().map(|error| nearness(pointer, error)).min().unwrap_or(Nearness::Kind)
    };
    let nearest = alternatives.iter().map(|errors| rank(errors)).max().unwrap_or(Nearness::Kind);
    (nearest, alternatives.iter().map(Vec::as_slice).filter(|errors| rank(errors) == nearest).collect())
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
