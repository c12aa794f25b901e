//! The compiled side of a schema.

use std::sync::OnceLock;

use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;

use super::effort::Cost;
use super::error::{SchemaError, SchemaFault};
use super::guarded::guarded;
use super::listing::Listing;
use super::preflight::Graph;
use super::{effort, explain, foreign, listing, metered, preflight};
use crate::VALUE_DEPTH;

/// How many parts a value may have for all of its errors to be listed. Each part may have several, and they take
/// a hundred times the memory.
const LISTED_VALUES: usize = 10_000;

/// What a check may surely take to be done without counting.
const UNCOUNTED: u64 = 50_000_000;

/// What a check may take at most. A part of a second.
const EFFORT: u64 = 100_000_000;

/// How many subschemas may be gone through on the way to the innermost part of a value. Each takes stack.
const STEPS: usize = 1_500;

/// What may be done to find out what is wrong with one value.
pub(super) const LISTING: u64 = 20_000_000;

/// How values are held against a schema.
pub(super) enum Check {
    /// Any object fits. A tool without arguments needs no compiler, so that its schema cannot fail.
    AnyObject,
    /// The schema's own validator.
    Compiled(Box<Compiled>),
}

pub(super) struct Compiled {
    draft: Draft,
    validator: Validator,
    /// How deep a value may be nested.
    depth: usize,
    /// What a check takes at most for each part and character of a value; `None` if that has no bound.
    weight: Option<u64>,
    /// What checks instead, where the validator might take too long. Compiled when it is first needed.
    metered: OnceLock<Option<Validator>>,
    /// What lists errors instead, where the validator might take too long. Compiled when the first value fails.
    guarded: OnceLock<Option<(Value, Validator)>>,
}

/// The errors of one value, and the schema that they point into.
pub(super) struct Errors<'v> {
    pub(super) schema: &'v Value,
    pub(super) errors: Vec<ValidationError<'v>>,
}

impl Check {
    /// Compiles a schema that the preflight has let pass.
    pub(super) fn compile(schema: &Value, draft: Draft) -> Result<Self, SchemaError> {
        let validator = compile(schema, draft).map_err(|error| refused("", schema, &error))?;
        let graph = preflight::graph(schema);
        if let Some(graph) = &graph {
            hold_targets(graph, draft)?;
        }
        let compiled = Compiled {
            draft,
            validator,
            depth: graph.as_ref().map_or(0, |graph| (STEPS / graph.chain()).min(VALUE_DEPTH)),
            weight: graph.as_ref().and_then(weight),
            metered: OnceLock::new(),
            guarded: OnceLock::new(),
        };
        Ok(Self::Compiled(Box::new(compiled)))
    }

    /// Compiles another schema in the dialect of this one.
    pub(super) fn of_same_draft(&self, schema: &Value) -> Result<Self, SchemaError> {
        Self::compile(schema, self.draft())
    }

    /// The dialect of the schema.
    pub(super) fn draft(&self) -> Draft {
        match self {
            Self::AnyObject => Draft::Draft202012,
            Self::Compiled(compiled) => compiled.draft,
        }
    }

    /// How deep a value may be nested that is held against this schema.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::AnyObject => VALUE_DEPTH,
            Self::Compiled(compiled) => compiled.depth,
        }
    }

    /// Whether a value fits that is not too deep, or `None` if that takes too much to find out.
    pub(super) fn is_valid(&self, schema: &Value, value: &Value) -> Option<bool> {
        match self {
            Self::AnyObject => Some(value.is_object()),
            Self::Compiled(compiled) => compiled.is_valid(schema, value),
        }
    }

    /// Every error of a value, or only the first where there is room for very many; none if it is valid. `None` if
    /// that takes more than the effort that is left.
    pub(super) fn errors<'v>(
        &'v self,
        schema: &'v Value,
        value: &'v Value,
        effort: &mut u64,
    ) -> Option<Errors<'v>> {
        match self {
            Self::AnyObject if value.is_object() => Some(Errors { schema, errors: Vec::new() }),
            Self::AnyObject => Some(Errors { schema, errors: vec![ValidationError::custom("object")] }),
            Self::Compiled(compiled) => compiled.errors(schema, value, effort),
        }
    }
}

impl Compiled {
    fn is_valid(&self, schema: &Value, value: &Value) -> Option<bool> {
        if self.weight.is_some_and(|weight| weight.saturating_mul(effort::extent(value)) <= UNCOUNTED) {
            return Some(self.validator.is_valid(value));
        }
        let metered = self.metered.get_or_init(|| metered::compile(schema, self.draft)).as_ref()?;
        effort::metered(EFFORT, || metered.is_valid(value))
    }

    fn errors<'v>(&'v self, schema: &'v Value, value: &'v Value, effort: &mut u64) -> Option<Errors<'v>> {
        let guarded = self.guarded.get_or_init(|| {
            let guarded = guarded(schema)?;
            let validator = compile(&guarded, self.draft).ok()?;
            Some((guarded, validator))
        });
        let (schema, validator) =
            guarded.as_ref().map_or((schema, &self.validator), |(schema, it)| (schema, it));
        let is_large = preflight::exceeds_size(value, LISTED_VALUES);
        let errors = match listing::plan(schema, value, effort) {
            Listing::Whole if !is_large => validator.iter_errors(value).collect(),
            Listing::Whole | Listing::First => validator.validate(value).err().into_iter().collect(),
            Listing::None => return None,
        };
        Some(Errors { schema, errors })
    }
}

/// What a check takes for each part and character of a value.
fn weight(graph: &Graph<'_>) -> Option<u64> {
    let costs: Option<Vec<_>> = graph.nodes().iter().map(|node| Cost::of(node.schema).linear()).collect();
    let costs = costs?;
    graph.weight(|node| costs.get(node).copied().unwrap_or(0))
}

fn compile(schema: &Value, draft: Draft) -> Result<Validator, ValidationError<'static>> {
    // Every reference stays within the document, so an identifier of the document has no use. With one, the compiler
    // would look references up under it, where a dialect's own schema may be found instead.
    let anonymous = without_id(schema);
    let options = jsonschema::options().with_draft(draft).should_validate_formats(true).offline();
    options.with_pattern_options(metered::patterns()).build(anonymous.as_ref().unwrap_or(schema))
}

/// The schema without the identifier of its root, unless that is a mere anchor.
fn without_id(schema: &Value) -> Option<Value> {
    let is_id = |id: &Value| id.as_str().is_none_or(|id| !id.starts_with('#'));
    let mut anonymous = schema.as_object().filter(|root| root.get("$id").is_some_and(is_id))?.clone();
    anonymous.shift_remove("$id");
    Some(Value::Object(anonymous))
}

/// Holds against the rules for schemas what only a reference makes one. Under a keyword that a dialect does not know the
/// compiler takes anything.
fn hold_targets(graph: &Graph<'_>, draft: Draft) -> Result<(), SchemaError> {
    let is_held = |pointer: &str| {
        let definition = pointer.strip_prefix("/definitions/");
        let definition =
            definition.or_else(|| pointer.strip_prefix("/$defs/").filter(|_| draft != Draft::Draft7));
        pointer.is_empty() || definition.is_some_and(|name| !name.contains('/'))
    };
    for target in graph.targets().filter(|target| !is_held(&target.pointer)) {
        let declared = target.schema.get("$schema").and_then(Value::as_str).map(Draft::from_schema_uri);
        let held = match declared.unwrap_or(draft) {
            Draft::Draft7 => jsonschema::draft7::meta::validate(target.schema),
            _ => jsonschema::draft202012::meta::validate(target.schema),
        };
        held.map_err(|error| refused(&target.pointer, target.schema, &error))?;
    }
    Ok(())
}

/// The compiler's refusal of the schema at a place, as a violation of what a schema must be.
fn refused(at: &str, schema: &Value, error: &ValidationError<'_>) -> SchemaError {
    let violations = explain::explain(&Value::Null, schema, std::slice::from_ref(error));
    let Some(first) = violations.as_slice().first() else {
        let pointer = format!("{at}{}", error.instance_path().as_str());
        return SchemaError::new(pointer, SchemaFault::Invalid(error.to_string()));
    };
    // Only of the keyword `type` these are the values. A property of that name has a schema.
    let is_type = first.expected.starts_with("one of \"array\"");
    let foreign = schema.pointer(&first.pointer).filter(|_| is_type).and_then(foreign::explain);
    let words = foreign.unwrap_or_else(|| first.message().to_owned());
    SchemaError::new(format!("{at}{}", first.pointer), SchemaFault::Invalid(words))
}
