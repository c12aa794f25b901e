//! Tests that derive provider schemas from the schemas of the official JSON-Schema-Test-Suite. Each
//! schema is used as an argument of a tool.

use std::{fs, path::Path};

use expect_test::expect;
use haft_schema::{RepairPolicy, Schema, SchemaTarget, repair};
use serde_json::{Value, json};

/// The numbers of tested schemas, of schemas with a strict form, and of strict forms without
/// reported changes.
#[derive(Default)]
struct SchemaCounts {
    all: usize,
    strict: usize,
    exact: usize,
}

impl SchemaCounts {
    fn add(&mut self, case: &Value) {
        let argument = &case["schema"];
        // References are resolved from the root of the document. The tested schema is nested in an
        // argument, so schemas with references are skipped.
        if argument.to_string().contains("Ref\"") || argument.to_string().contains("$ref\"") {
            return;
        }
        let tool = json!({"type": "object", "properties": {"x": argument}, "required": ["x"]});
        let Ok(schema) = Schema::new(tool) else { return };
        self.all += 1;
        let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
        assert_eq!(derived.is_strict, derived.strict_obstacle().is_none());
        let sent = Schema::new(derived.value.clone()).unwrap();
        if !derived.is_strict {
            return;
        }
        self.strict += 1;
        self.exact += usize::from(derived.changes.is_empty());
        for test in case["tests"].as_array().unwrap() {
            let value = json!({"x": test["data"]});
            let (repaired, _) = repair(&schema, value.clone(), RepairPolicy::Default);
            let is_exact = derived.changes.is_empty() && sent.is_valid(&value);
            assert!(!is_exact || schema.is_valid(&repaired), "{schema:?} {sent:?} {value}");
        }
    }
}

#[test]
fn values_of_strict_schemas_of_the_suite_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json-schema-test-suite/draft2020-12");
    let mut count = SchemaCounts::default();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let cases: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            cases.iter().for_each(|case| count.add(case));
        }
    }
    let SchemaCounts { all, strict, exact } = count;
    expect!["280 schemas, 89 strict, 32 without changes"]
        .assert_eq(&format!("{all} schemas, {strict} strict, {exact} without changes"));
}
