use haft_core::{
    Schema,
    schema::{ProviderSchema, RepairPolicy, SchemaFault, SchemaLimits, SchemaTarget, repair},
};
use serde_json::Value;

use crate::Case;

const TARGETS: [SchemaTarget; 4] =
    [SchemaTarget::OpenAi, SchemaTarget::OpenAiStrict, SchemaTarget::Gemini, SchemaTarget::SmallModel];

/// Checks the conversion of schemas to provider schemas:
///
/// - A provider schema compiles, and the conversion is deterministic. Converting a strict schema
///   again does not change it.
/// - If no changes are reported, a value that is valid for the provider schema is, after repair,
///   also valid for the original schema.
/// - If the original schema describes tool arguments, the provider schema describes an object.
///
/// # Panics
///
/// Panics if the law is violated.
pub fn check_provider(input: &[u8]) {
    let Some(case) = Case::parse(input) else { return };
    let values = case.values();
    if let Ok(schema) = Schema::new(case.schema.clone()) {
        TARGETS.iter().for_each(|target| drop(check_derivation(&schema, *target, &values)));
    }
    if let Ok(schema) = Schema::for_arguments(case.schema) {
        for target in TARGETS {
            let sent = check_derivation(&schema, target, &values);
            assert_eq!(sent["type"], "object", "{target:?} {sent}");
        }
    }
}

fn check_derivation(schema: &Schema, target: SchemaTarget, values: &[Value]) -> Value {
    let derived = schema.for_provider(target);
    assert_eq!(schema.for_provider(target), derived);
    assert_eq!(
        derived.is_strict,
        target == SchemaTarget::OpenAiStrict && derived.strict_obstacle().is_none()
    );
    let Some(sent) = compile(&derived) else { return derived.value };
    if derived.is_strict {
        let again = sent.for_provider(target);
        assert_eq!((&again.value, again.changes.len()), (&derived.value, 0), "{target:?}");
    }
    if derived.changes.is_empty() {
        for value in values.iter().filter(|value| sent.is_valid(value)) {
            let (arrived, _) = repair(schema, value.clone(), RepairPolicy::Default);
            assert!(schema.is_valid(&arrived), "{target:?} {} {value}", derived.value);
        }
    }
    derived.value
}

/// Compiles a provider schema. The limits are higher than for the original schema, because the
/// provider schema may be larger, for example with nullable types for optional properties.
///
/// Returns `None` if the provider schema contains an anchor twice. This is not a mistake of the
/// conversion: inlining a reference copies data such as an `enum`, and this data may contain an
/// `$anchor`.
fn compile(derived: &ProviderSchema) -> Option<Schema> {
    let SchemaLimits { bytes, depth, nodes, expansion, pattern_states: patterns } = SchemaLimits::default();
    let limits = SchemaLimits {
        bytes: 4 * bytes,
        depth: 4 * depth,
        nodes: 4 * nodes,
        expansion: 4 * expansion,
        pattern_states: 4 * patterns,
    };
    match Schema::with_limits(derived.value.clone(), &limits) {
        Ok(schema) => Some(schema),
        Err(error) if matches!(error.fault(), SchemaFault::DuplicateAnchor(_)) => None,
        Err(error) => panic!("{error}: {}", derived.value),
    }
}
