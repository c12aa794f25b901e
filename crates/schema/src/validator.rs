//! Compiled schema validators with limits for time, memory and stack space.

use std::sync::OnceLock;

use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;

use super::cost::ValidationCost;
use super::error::{SchemaError, SchemaFault};
use super::error_plan::ErrorPlan;
use super::preflight::SchemaGraph;
use super::union_guards::with_guards;
use super::{cost, error_plan, explain, metered_validator, preflight, type_aliases};
use crate::MAX_VALUE_DEPTH;

/// The maximum number of nested values in a value for which all errors are listed. For a larger
/// value, only the first error is listed: each nested value may have several errors, and an error
/// takes about a hundred times the memory of a JSON value.
const MAX_VALUES_FOR_ALL_ERRORS: usize = 10_000;

/// The maximum estimated cost of a check without a budget, in the unit of [`ValidationCost`]. If
/// the estimate is higher, or the cost cannot be estimated, the validator with a budget checks the
/// value.
const MAX_UNMETERED_COST: u64 = 50_000_000;

/// The budget of a check by [`metered_validator`], in the unit of [`ValidationCost`]. It
/// corresponds to a fraction of a second.
const METERED_BUDGET: u64 = 100_000_000;

/// The maximum number of nested subschema visits in a check. Each visit uses stack space, so this
/// number limits the nesting of values.
const MAX_STACK_SUBSCHEMAS: usize = 1_500;

/// The budget for listing the errors of a value, in the unit of [`ValidationCost`].
pub(super) const ERROR_BUDGET: u64 = 20_000_000;

/// A validator that checks values against a schema.
pub(super) enum SchemaValidator {
    /// A validator that accepts every object, for tools without arguments. It needs no compilation,
    /// so its creation cannot fail.
    AnyObject,
    /// A validator compiled by the `jsonschema` crate.
    Compiled(Box<CompiledValidator>),
}

pub(super) struct CompiledValidator {
    draft: Draft,
    validator: Validator,
    /// The maximum nesting of a value, in levels. Deeper values are rejected without a check.
    max_value_depth: usize,
    /// An upper bound on the cost of checking a value, per unit of its [`cost::value_size`]. `None`
    /// if the cost does not grow linearly with the size of the value.
    cost_per_unit: Option<u64>,
    /// The validator with a budget (see [`metered_validator`]), compiled when a check may exceed
    /// the cost limit of the plain validator. The inner value is `None` if the compilation failed.
    metered: OnceLock<Option<Validator>>,
    /// The schema with guards in its unions (see [`union_guards`](super::union_guards)), and its
    /// validator, which lists fewer errors. Both are created when errors are listed for the first
    /// time. The inner value is `None` if no alternative can have a guard, or if the compilation
    /// failed.
    guarded: OnceLock<Option<(Value, Validator)>>,
}

/// The validation errors of a value, and the schema to which their schema paths refer: the original
/// schema, or the schema with guards.
pub(super) struct Errors<'v> {
    pub(super) schema: &'v Value,
    pub(super) errors: Vec<ValidationError<'v>>,
}

impl SchemaValidator {
    /// Compiles `schema`, which must have passed the preflight, in the dialect `draft`.
    pub(super) fn compile(schema: &Value, draft: Draft) -> Result<Self, SchemaError> {
        let validator = compile(schema, draft).map_err(|error| compile_error("", schema, &error))?;
        let graph = preflight::build_graph(schema);
        if let Some(graph) = &graph {
            validate_targets(graph, draft)?;
        }
        let compiled = CompiledValidator {
            draft,
            validator,
            max_value_depth: graph
                .as_ref()
                .map_or(0, |graph| (MAX_STACK_SUBSCHEMAS / graph.longest_chain()).min(MAX_VALUE_DEPTH)),
            cost_per_unit: graph.as_ref().and_then(cost_per_unit),
            metered: OnceLock::new(),
            guarded: OnceLock::new(),
        };
        Ok(Self::Compiled(Box::new(compiled)))
    }

    /// Compiles `schema` in the dialect of this validator.
    pub(super) fn recompile(&self, schema: &Value) -> Result<Self, SchemaError> {
        Self::compile(schema, self.draft())
    }

    /// Returns the JSON Schema dialect of this validator.
    pub(super) fn draft(&self) -> Draft {
        match self {
            Self::AnyObject => Draft::Draft202012,
            Self::Compiled(compiled) => compiled.draft,
        }
    }

    /// Returns the maximum nesting of a value, in levels. The caller must reject deeper values
    /// without a check, because they could overflow the stack.
    pub(super) fn max_value_depth(&self) -> usize {
        match self {
            Self::AnyObject => MAX_VALUE_DEPTH,
            Self::Compiled(compiled) => compiled.max_value_depth,
        }
    }

    /// Returns `Some(true)` if `value` is valid, and `Some(false)` if it is invalid. Returns `None`
    /// if the check exceeds its budget, or if the validator with a budget cannot be compiled. The
    /// nesting of `value` must not exceed [`max_value_depth`](Self::max_value_depth).
    pub(super) fn is_valid(&self, schema: &Value, value: &Value) -> Option<bool> {
        match self {
            Self::AnyObject => Some(value.is_object()),
            Self::Compiled(compiled) => compiled.is_valid(schema, value),
        }
    }

    /// Lists all errors of `value`, or only the first error if the list could be too large.
    /// Subtracts the cost from `budget`. Returns `None` if even the first error could take too much
    /// time or memory to produce.
    pub(super) fn errors<'v>(
        &'v self,
        schema: &'v Value,
        value: &'v Value,
        budget: &mut u64,
    ) -> Option<Errors<'v>> {
        match self {
            Self::AnyObject if value.is_object() => Some(Errors { schema, errors: Vec::new() }),
            Self::AnyObject => Some(Errors { schema, errors: vec![ValidationError::custom("object")] }),
            Self::Compiled(compiled) => compiled.errors(schema, value, budget),
        }
    }
}

impl CompiledValidator {
    fn is_valid(&self, schema: &Value, value: &Value) -> Option<bool> {
        if self
            .cost_per_unit
            .is_some_and(|rate| rate.saturating_mul(cost::value_size(value)) <= MAX_UNMETERED_COST)
        {
            return Some(self.validator.is_valid(value));
        }
        let metered = self.metered.get_or_init(|| metered_validator::compile(schema, self.draft)).as_ref()?;
        cost::with_budget(METERED_BUDGET, || metered.is_valid(value))
    }

    fn errors<'v>(&'v self, schema: &'v Value, value: &'v Value, budget: &mut u64) -> Option<Errors<'v>> {
        let guarded = self.guarded.get_or_init(|| {
            let guarded = with_guards(schema)?;
            let validator = compile(&guarded, self.draft).ok()?;
            Some((guarded, validator))
        });
        let (schema, validator) =
            guarded.as_ref().map_or((schema, &self.validator), |(schema, it)| (schema, it));
        let is_large = preflight::exceeds_size(value, MAX_VALUES_FOR_ALL_ERRORS);
        let errors = match error_plan::plan(schema, value, budget) {
            ErrorPlan::All if !is_large => validator.iter_errors(value).collect(),
            ErrorPlan::All | ErrorPlan::First => validator.validate(value).err().into_iter().collect(),
            ErrorPlan::None => return None,
        };
        Some(Errors { schema, errors })
    }
}

/// Returns an upper bound on the cost of checking a value, per unit of its [`cost::value_size`].
/// Returns `None` if the cost does not grow linearly with the size of the value.
fn cost_per_unit(graph: &SchemaGraph<'_>) -> Option<u64> {
    let costs: Option<Vec<_>> =
        graph.nodes().iter().map(|node| ValidationCost::of(node.schema).cost_per_unit()).collect();
    let costs = costs?;
    graph.sum_over_paths(|node| costs.get(node).copied().unwrap_or(0))
}

fn compile(schema: &Value, draft: Draft) -> Result<Validator, ValidationError<'static>> {
    // All references are local, so the `$id` of the root is not needed. It is removed because the
    // compiler would resolve references in the meta-schema if the `$id` is the URI of a
    // meta-schema.
    let anonymous = without_id(schema);
    let options = jsonschema::options().with_draft(draft).should_validate_formats(true).offline();
    options
        .with_pattern_options(metered_validator::pattern_options())
        .build(anonymous.as_ref().unwrap_or(schema))
}

/// Returns a copy of `schema` without the `$id` of its root. Returns `None` if the root has no
/// `$id`, or if the `$id` is an anchor, such as `"#root"`.
fn without_id(schema: &Value) -> Option<Value> {
    let is_id = |id: &Value| id.as_str().is_none_or(|id| !id.starts_with('#'));
    let mut anonymous = schema.as_object().filter(|root| root.get("$id").is_some_and(is_id))?.clone();
    anonymous.shift_remove("$id");
    Some(Value::Object(anonymous))
}

/// Validates reference targets against the meta-schema. The compiler has already checked the root
/// and the definitions, but does not check a target below a keyword that the dialect does not
/// define.
fn validate_targets(graph: &SchemaGraph<'_>, draft: Draft) -> Result<(), SchemaError> {
    let is_checked = |pointer: &str| {
        let definition = pointer.strip_prefix("/definitions/");
        let definition =
            definition.or_else(|| pointer.strip_prefix("/$defs/").filter(|_| draft != Draft::Draft7));
        pointer.is_empty() || definition.is_some_and(|name| !name.contains('/'))
    };
    for target in graph.reference_targets().filter(|target| !is_checked(&target.pointer)) {
        let declared = target.schema.get("$schema").and_then(Value::as_str).map(Draft::from_schema_uri);
        let result = match declared.unwrap_or(draft) {
            Draft::Draft7 => jsonschema::draft7::meta::validate(target.schema),
            _ => jsonschema::draft202012::meta::validate(target.schema),
        };
        result.map_err(|error| compile_error(&target.pointer, target.schema, &error))?;
    }
    Ok(())
}

/// Converts `error` to a [`SchemaError`]. `error` reports that `schema`, the subschema at the JSON
/// pointer `at`, violates the meta-schema.
fn compile_error(at: &str, schema: &Value, error: &ValidationError<'_>) -> SchemaError {
    let violations = explain::explain(&Value::Null, schema, std::slice::from_ref(error));
    let Some(first) = violations.as_slice().first() else {
        let pointer = format!("{at}{}", error.instance_path().as_str());
        return SchemaError::new(pointer, SchemaFault::Invalid(error.to_string()));
    };
    // The meta-schema lists the type names only for the keyword `type`. An error for a property
    // with the name `type` does not list them.
    let is_type = first.expected.starts_with("one of \"array\"");
    let alias = schema.pointer(&first.pointer).filter(|_| is_type).and_then(type_aliases::explain);
    let reason = alias.unwrap_or_else(|| first.message().to_owned());
    SchemaError::new(format!("{at}{}", first.pointer), SchemaFault::Invalid(reason))
}
