use haft_core::{
    Schema,
    schema::{RepairPolicy, SchemaFault, SchemaLimits, Wire, WireProfile, repair},
};
use serde_json::Value;

use crate::Case;

const PROFILES: [WireProfile; 4] =
    [WireProfile::OpenAi, WireProfile::OpenAiStrict, WireProfile::Gemini, WireProfile::Small];

/// What is sent of a schema to a provider is a schema, and always the same. Where nothing is reported as lost, what fits
/// it fits the original. The arguments of a tool are sent as an object.
///
/// # Panics
///
/// Panics where that does not hold.
pub fn wire(input: &[u8]) {
    let Some(case) = Case::read(input) else { return };
    let values = case.values();
    if let Ok(schema) = Schema::new(case.schema.clone()) {
        PROFILES.iter().for_each(|profile| drop(sent(&schema, *profile, &values)));
    }
    if let Ok(schema) = Schema::arguments(case.schema) {
        for profile in PROFILES {
            let sent = sent(&schema, profile, &values);
            assert_eq!(sent["type"], "object", "{profile:?} {sent}");
        }
    }
}

fn sent(schema: &Schema, profile: WireProfile, values: &[Value]) -> Value {
    let wire = schema.wire(profile);
    assert_eq!(schema.wire(profile), wire);
    assert_eq!(wire.strict, profile == WireProfile::OpenAiStrict && wire.obstacle().is_none());
    let Some(sent) = compiled(&wire) else { return wire.value };
    if wire.strict {
        let again = sent.wire(profile);
        assert_eq!((&again.value, again.losses.len()), (&wire.value, 0), "{profile:?}");
    }
    if wire.losses.is_empty() {
        for value in values.iter().filter(|value| sent.is_valid(value)) {
            let (arrived, _) = repair(schema, value.clone(), RepairPolicy::Default);
            assert!(schema.is_valid(&arrived), "{profile:?} {} {value}", wire.value);
        }
    }
    wire.value
}

/// What is sent may be larger than what was given: an optional property is written with its `null`. `None` where a
/// name is there twice, since what has it was written out twice: in data, such as an `enum`, where it names nothing.
fn compiled(wire: &Wire) -> Option<Schema> {
    let SchemaLimits { bytes, depth, nodes, expansion, patterns } = SchemaLimits::default();
    let limits = SchemaLimits {
        bytes: 4 * bytes,
        depth: 4 * depth,
        nodes: 4 * nodes,
        expansion: 4 * expansion,
        patterns: 4 * patterns,
    };
    match Schema::within(wire.value.clone(), &limits) {
        Ok(schema) => Some(schema),
        Err(error) if matches!(error.fault(), SchemaFault::DuplicateAnchor(_)) => None,
        Err(error) => panic!("{error}: {}", wire.value),
    }
}
