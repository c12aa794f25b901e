//! Tests with the official JSON-Schema-Test-Suite.
//!
//! The suite lists the expected result of each validation. If a schema compiles, all its
//! validations must have the expected result. The snapshots list the schemas that are rejected on
//! purpose, grouped by the reason:
//!
//! - `RemoteReference`: a reference to another document, or to a part of the same document by the
//!   URI of its `$id`. Only `#`, `#/...` and `#name` are followed. Nothing is fetched, and
//!   references have the same meaning everywhere.
//! - `NestedId`: an `$id` below the root of a document with references, because the `$id` changes
//!   the meaning of the references. An `$id` in data, such as a value of an `enum`, is rejected
//!   too.
//! - `DuplicateAnchor`: two equal anchors, distinguished only by nested `$id`s or by the dynamic
//!   scope of `$dynamicRef`.
//! - `UnknownDialect`: a `$schema` other than draft 2020-12 and draft-07.

use std::{collections::BTreeMap, fs, path::Path};

use expect_test::{Expect, expect};
use haft_schema::{RepairPolicy, Schema, SchemaFault, repair};
use serde::Deserialize;
use serde_json::Value;

/// The skipped files of the suite.
const SKIPPED: [&str; 3] = [
    // The file expects annotations, but this validator treats formats as assertions. The folder
    // `format` tests them.
    "format",
    // Not validated, because these formats require Unicode tables.
    "idn-email",
    "idn-hostname",
];

/// A schema of the suite, with its tests.
#[derive(Deserialize)]
struct Case {
    description: String,
    schema: Value,
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    description: String,
    data: Value,
    valid: bool,
}

/// The results of the suite: the rejected schemas by reason, the values with a wrong result, and
/// the number of values with the right result.
#[derive(Default)]
struct Report {
    rejected: BTreeMap<String, Vec<String>>,
    wrong: Vec<String>,
    passed: usize,
}

impl Report {
    fn run_suite(folder: &str, dialect: Option<&str>) -> Self {
        let mut report = Self::default();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json-schema-test-suite").join(folder);
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.is_file());
        files.sort();
        for path in files {
            let file = path.file_stem().unwrap().to_str().unwrap();
            if SKIPPED.contains(&file) {
                continue;
            }
            for mut case in serde_json::from_slice::<Vec<Case>>(&fs::read(&path).unwrap()).unwrap() {
                if let (Some(dialect), Value::Object(schema)) = (dialect, &mut case.schema) {
                    schema.entry("$schema").or_insert_with(|| dialect.into());
                }
                report.run(file, case);
            }
        }
        report
    }

    fn run(&mut self, file: &str, case: Case) {
        let schema = match Schema::new(case.schema) {
            Ok(schema) => schema,
            Err(error) => {
                let case = format!("{file}: {}", case.description);
                self.rejected.entry(fault_name(error.fault())).or_default().push(case);
                return;
            }
        };
        for test in case.tests {
            let listed = schema.validate(&test.data).is_ok();
            assert_eq!(schema.is_valid(&test.data), listed, "{file}: {}", test.description);
            if listed != test.valid {
                let name = format!("{file}: {}: {}", case.description, test.description);
                self.wrong.extend(Some(name).filter(|name| !REFUSED.contains(&name.as_str())));
                continue;
            }
            self.passed += 1;
            let (repaired, repairs) = repair(&schema, test.data.clone(), RepairPolicy::Default);
            if test.valid {
                assert_eq!((repaired, repairs.len()), (test.data, 0), "a valid value is never changed");
            }
        }
    }

    fn check(&self, expected: &Expect) {
        let mut text = format!("{} right\n", self.passed);
        for (reason, cases) in &self.rejected {
            text += &format!("rejected, {reason}:\n");
            text.extend(cases.iter().map(|case| format!("  {case}\n")));
        }
        expected.assert_eq(&text);
        assert_eq!(self.wrong, Vec::<String>::new());
    }
}

/// Optional tests of integers beyond 64 bits. They are invalid here, because they cannot be held
/// exactly.
const REFUSED: [&str; 3] = [
    "bignum: integer: a bignum is an integer",
    "bignum: integer: a negative bignum is an integer",
    "float-overflow: all integers are multiples of 0.5, if overflow is handled: valid if optional overflow handling is implemented",
];

/// Returns the name of the variant of `fault`, without its fields.
fn fault_name(fault: &SchemaFault) -> String {
    let text = format!("{fault:?}");
    text.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

#[test]
fn draft_2020_12() {
    Report::run_suite("draft2020-12", None).check(&expect![[r#"
        1010 right
        rejected, DuplicateAnchor:
          anchor: same $anchor with different base uri
          dynamicRef: A $dynamicRef resolves to the first $dynamicAnchor still in scope that is encountered when the schema is evaluated
          dynamicRef: A $dynamicRef without anchor in fragment behaves identical to $ref
          dynamicRef: A $dynamicRef with intermediate scopes that don't include a matching $dynamicAnchor does not affect dynamic scope resolution
          dynamicRef: An $anchor with the same name as a $dynamicAnchor is not used for dynamic scope resolution
          dynamicRef: A $dynamicRef without a matching $dynamicAnchor in the same schema resource behaves like a normal $ref to $anchor
          dynamicRef: A $dynamicRef with a non-matching $dynamicAnchor in the same schema resource behaves like a normal $ref to $anchor
          dynamicRef: A $dynamicRef that initially resolves to a schema with a matching $dynamicAnchor resolves to the first $dynamicAnchor in the dynamic scope
          dynamicRef: A $dynamicRef that initially resolves to a schema without a matching $dynamicAnchor behaves like a normal $ref to $anchor
          dynamicRef: multiple dynamic paths to the $dynamicRef keyword
          dynamicRef: after leaving a dynamic scope, it is not used by a $dynamicRef
          dynamicRef: $dynamicRef skips over intermediate resources - direct reference
          ref: order of evaluation: $id and $anchor and $ref
          unevaluatedItems: unevaluatedItems with $dynamicRef
          unevaluatedProperties: unevaluatedProperties with $dynamicRef
        rejected, RemoteReference:
          anchor: Location-independent identifier with absolute URI
          anchor: Location-independent identifier with base URI change in subschema
          defs: validate definition against metaschema
          dynamicRef: strict-tree schema, guards against misspelled properties
          dynamicRef: tests for implementation dynamic anchor and reference link
          dynamicRef: $ref and $dynamicAnchor are independent of order - $defs first
          dynamicRef: $ref and $dynamicAnchor are independent of order - $ref first
          dynamicRef: $ref to $dynamicRef finds detached $dynamicAnchor
          ref: remote ref, containing refs itself
          ref: Recursive references between schemas
          ref: refs with relative uris and defs
          ref: relative refs with absolute uris and defs
          ref: $id must be resolved against nearest parent, not just immediate parent
          ref: order of evaluation: $id and $ref
          ref: simple URN base URI with $ref via the URN
          ref: URN base URI with URN and JSON pointer ref
          ref: URN base URI with URN and anchor ref
          ref: URN ref with nested pointer ref
          ref: ref to if
          ref: ref to then
          ref: ref to else
          ref: ref with absolute-path-reference
          refRemote: remote ref
          refRemote: fragment within remote ref
          refRemote: anchor within remote ref
          refRemote: ref within remote ref
          refRemote: base URI change
          refRemote: base URI change - change folder
          refRemote: base URI change - change folder in subschema
          refRemote: root ref in remote ref
          refRemote: remote ref with ref to defs
          refRemote: Location-independent identifier in remote ref
          refRemote: retrieved nested refs resolve relative to their URI not $id
          refRemote: remote HTTP ref with different $id
          refRemote: remote HTTP ref with different URN $id
          refRemote: remote HTTP ref with nested absolute ref
          refRemote: $ref to $ref finds detached $anchor
        rejected, UnknownDialect:
          vocabulary: schema that uses custom metaschema with with no validation vocabulary
          vocabulary: ignore unrecognized optional vocabulary
    "#]]);
}

#[test]
fn draft_2020_12_optional() {
    Report::run_suite("draft2020-12/optional", None).check(&expect![[r#"
        138 right
        rejected, DuplicateAnchor:
          anchor: $anchor inside an enum is not a real identifier
          dynamicRef: $dynamicRef skips over intermediate resources - pointer reference across resource boundary
        rejected, NestedId:
          id: $id inside an enum is not a real identifier
          unknownKeyword: $id inside an unknown keyword is not a real identifier
        rejected, RemoteReference:
          cross-draft: refs to historic drafts are processed as historic drafts
        rejected, UnknownDialect:
          format-assertion: schema that uses custom metaschema with format-assertion: false
          format-assertion: schema that uses custom metaschema with format-assertion: true
    "#]]);
}

#[test]
fn draft_2020_12_formats() {
    Report::run_suite("draft2020-12/format", None).check(&expect![[r#"
        416 right
    "#]]);
}

const DRAFT_7: Option<&str> = Some("http://json-schema.org/draft-07/schema#");

#[test]
fn draft_7() {
    Report::run_suite("draft7", DRAFT_7).check(&expect![[r#"
        754 right
        rejected, NestedId:
          refRemote: base URI change - change folder
          refRemote: base URI change - change folder in subschema
        rejected, RemoteReference:
          definitions: validate definition against metaschema
          ref: $ref prevents a sibling $id from changing the base uri
          ref: remote ref, containing refs itself
          ref: Recursive references between schemas
          ref: Reference an anchor with a non-relative URI
          ref: Location-independent identifier with base URI change in subschema
          ref: refs with relative uris and defs
          ref: relative refs with absolute uris and defs
          ref: $id must be resolved against nearest parent, not just immediate parent
          ref: simple URN base URI with $ref via the URN
          ref: URN base URI with URN and JSON pointer ref
          ref: URN base URI with URN and anchor ref
          ref: ref to if
          ref: ref to then
          ref: ref to else
          ref: ref with absolute-path-reference
          refRemote: remote ref
          refRemote: fragment within remote ref
          refRemote: ref within remote ref
          refRemote: base URI change
          refRemote: root ref in remote ref
          refRemote: remote ref with ref to definitions
          refRemote: Location-independent identifier in remote ref
          refRemote: retrieved nested refs resolve relative to their URI not $id
          refRemote: $ref to $ref finds location-independent $id
    "#]]);
}

#[test]
fn draft_7_optional() {
    Report::run_suite("draft7/optional", DRAFT_7).check(&expect![[r#"
        105 right
        rejected, NestedId:
          id: id inside an enum is not a real identifier
          id: non-schema object containing an $id property
          unknownKeyword: $id inside an unknown keyword is not a real identifier
        rejected, RemoteReference:
          cross-draft: refs to future drafts are processed as future drafts
    "#]]);
}

#[test]
fn draft_7_formats() {
    Report::run_suite("draft7/format", DRAFT_7).check(&expect![[r#"
        360 right
    "#]]);
}
