//! The schemas of the official JSON-Schema-Test-Suite, as an argument of a tool.

use std::{fs, path::Path};

use expect_test::expect;
use haft_schema::{RepairPolicy, Schema, SchemaTarget, repair};
use serde_json::{Value, json};

/// How many schemas are sent strictly, and how many of these without a loss.
#[derive(Debug, Default)]
struct Count {
    all: usize,
    strict: usize,
    exact: usize,
}

impl Count {
    fn add(&mut self, case: &Value) {
        let argument = &case["schema"];
        // A reference counts from the root, which is another one here.
        if argument.to_string().contains("Ref\"") || argument.to_string().contains("$ref\"") {
            return;
        }
        let tool = json!({"type": "object", "properties": {"x": argument}, "required": ["x"]});
        let Ok(schema) = Schema::new(tool) else { return };
        self.all += 1;
        let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
        assert_eq!(derived.strict, derived.obstacle().is_none());
        let sent = Schema::new(derived.value.clone()).unwrap();
        if !derived.strict {
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
fn what_fits_a_strict_schema_of_the_suite_fits_the_original() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json-schema-test-suite/draft2020-12");
    let mut count = Count::default();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let cases: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            cases.iter().for_each(|case| count.add(case));
        }
    }
    expect!["Count { all: 280, strict: 89, exact: 32 }"].assert_eq(&format!("{count:?}"));
}
