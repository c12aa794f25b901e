//! Checks haft with the tools of real MCP servers. Each tool is built, converted for each provider,
//! and served again over MCP.
//!
//! `tests/catalogues/README.md` describes the origin of the tools.

mod changes;
mod formats;
mod mcp_fixture;
mod report;
mod rules;
mod subschemas;
mod writer;

use std::thread;

use expect_test::{expect, expect_file};
use haft_core::{
    Schema, ToolDefinition, ToolName, Toolset,
    schema::{ProviderSchema, RepairPolicy, SchemaChangeKind, SchemaTarget, repair},
    text::without_hidden_chars,
    toolset::Diagnostic,
};
use haft_testing::generate_example;
use serde_json::{Map, Value, json};

pub(crate) use self::mcp_fixture::{Catalogue, list_over_mcp};
use self::report::{Report, lines};
use self::writer::{Texts, Writer};

const TARGETS: [SchemaTarget; 4] =
    [SchemaTarget::OpenAi, SchemaTarget::OpenAiStrict, SchemaTarget::Gemini, SchemaTarget::SmallModel];

/// The variants of arguments to generate for each schema, as defined by [`Writer`]. Variant 0 has
/// the required properties and uses the first alternatives. Variant 3 has all properties and uses
/// the second alternatives.
const VARIANTS: [usize; 2] = [0, 3];

#[test]
fn every_tool_builds_converts_and_round_trips() {
    let report = examine(Catalogue::all());
    assert!(report.broken.is_empty(), "{}", lines(&report.broken));
    assert_eq!((report.servers, report.tools), (116, 2230));
    expect![""].assert_eq(&lines(&report.rejected));
    expect![[r#"
        awslabs-s3-tables-mcp-server create_namespace
        awslabs-s3-tables-mcp-server create_table
        awslabs-s3-tables-mcp-server get_maintenance_job_status
        awslabs-s3-tables-mcp-server get_table_maintenance_config
        awslabs-s3-tables-mcp-server get_table_metadata_location
        awslabs-s3-tables-mcp-server rename_table
        awslabs-s3-tables-mcp-server update_table_metadata_location
    "#]]
    .assert_eq(&lines(&report.without_arguments));
    expect_file!["../../catalogues/not-strict.txt"].assert_eq(&lines(&report.not_strict));
}

/// [`TestModel`](haft_testing::TestModel) calls tools with generated examples, so an example must
/// be found for every schema.
#[test]
fn every_schema_has_a_valid_example() {
    let (mut made, mut missing) = (0, Vec::new());
    for catalogue in Catalogue::all() {
        for tool in &catalogue.tools {
            let parse = |schema: &Value| Schema::new(schema.clone()).map_err(|error| error.to_string());
            for schema in [Some(&tool["inputSchema"]), tool.get("outputSchema")].into_iter().flatten() {
                let example = parse(schema)
                    .and_then(|schema| generate_example(&schema).map_err(|error| error.to_string()));
                match example {
                    Ok(_) => made += 1,
                    Err(reason) => missing.push(format!("{} {}: {reason}", catalogue.package, tool["name"])),
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert_eq!(made, 2230 + 866);
}

/// Checks the tools of `catalogues` in parallel, with one thread per core. Returns a report of all
/// results.
fn examine(mut catalogues: Vec<Catalogue>) -> Report {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut parts: Vec<Vec<Catalogue>> = Vec::new();
    parts.resize_with(threads, Vec::new);
    // Distribute the largest catalogues first, so that the threads get similar amounts of work.
    catalogues.sort_by_key(|it| std::cmp::Reverse(it.tools.len()));
    for (index, catalogue) in catalogues.into_iter().enumerate() {
        parts[index % threads].push(catalogue);
    }
    let mut report = Report::default();
    thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| examine_all(part))).collect();
        threads.into_iter().for_each(|thread| report.add(thread.join().unwrap()));
    });
    report
}

fn examine_all(catalogues: Vec<Catalogue>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut report = Report::default();
    let mut texts = Texts::new();
    for catalogue in catalogues {
        runtime.block_on(examine_one(&catalogue, &mut report, &mut texts));
    }
    report
}

async fn examine_one(catalogue: &Catalogue, report: &mut Report, texts: &mut Texts) {
    let (source, list) = list_over_mcp(catalogue.tools.clone()).await;
    report.servers += 1;
    report.tools += catalogue.tools.len();
    for diagnostic in list.diagnostics() {
        match diagnostic {
            Diagnostic::Quarantined { tool, reason, .. } => {
                report.rejected.insert(format!("{} {tool}: {reason}", catalogue.package));
            }
            other => drop(report.broken.insert(format!("{}: {other}", catalogue.package))),
        }
    }
    let served = mcp_fixture::serve_over_mcp(Toolset::new().with_source(source)).await;
    for tool in &catalogue.tools {
        let name = ToolName::sanitize(tool["name"].as_str().unwrap());
        let Some(definition) = list.get(name.as_str()).map(|tool| tool.definition()) else { continue };
        let label = format!("{} {name}", catalogue.package);
        let served = served.iter().find(|served| served["name"] == name.as_str()).unwrap();
        // Hidden characters are removed from the texts of a definition.
        let visible = serde_json::from_str(&without_hidden_chars(&tool.to_string())).unwrap();
        let changed = changed_fields(&visible, served);
        let mut broken: Vec<_> =
            changed.iter().map(|field| format!("`{field}` differs after a round trip")).collect();
        broken.extend(
            TARGETS.iter().flat_map(|target| check_conversion(definition, *target, &label, report, texts)),
        );
        let named = |problem: String| format!("{label}: {problem}");
        report.broken.extend(broken.into_iter().map(named));
    }
}

/// Compares two definitions of a tool: `listed` from the original server, and `served` by haft.
/// Returns the names of the fields that differ.
fn changed_fields(listed: &Value, served: &Value) -> Vec<&'static str> {
    let mut root = json!({"type": "object", "properties": {}});
    root.as_object_mut().unwrap().extend(listed["inputSchema"].as_object().unwrap().clone());
    let mut hints = listed["annotations"].clone();
    let title = hints.as_object_mut().and_then(|hints| hints.remove("title"));
    let title = listed.get("title").cloned().or(title).unwrap_or_default();
    if let Some(hints) = hints.as_object_mut() {
        hints.retain(|name, hint| name.ends_with("Hint") && hint.is_boolean());
    }
    let is_same = |field: &str, expected: &Value| {
        let is_nothing = expected.is_null() || expected == "" || expected == &json!({});
        served.get(field).map_or(is_nothing, |served| served == expected)
    };
    let expected = [
        ("title", &title),
        ("description", &listed["description"]),
        ("inputSchema", &root),
        ("annotations", &hints),
        ("_meta", &listed["_meta"]),
    ];
    let mut changed: Vec<_> = expected
        .into_iter()
        .filter(|(field, value)| !is_same(field, value))
        .map(|(field, _)| field)
        .collect();
    let output = &listed["outputSchema"];
    // haft serves an output schema inside an object schema if its root type is not `object`.
    let wrapped = &served["outputSchema"]["properties"]["result"];
    if !is_same("outputSchema", output) && (output["type"] == "object" || !wrapped.is_object()) {
        changed.push("outputSchema");
    }
    changed
}

/// Converts the input schema of a tool for `target` and checks the conversion. Adds
/// incompatibilities with strict mode, and tools without generated arguments, to `report`. Returns
/// a description of each mistake in the conversion.
fn check_conversion(
    definition: &ToolDefinition,
    target: SchemaTarget,
    label: &str,
    report: &mut Report,
    texts: &mut Texts,
) -> Vec<String> {
    let schema = definition.input_schema();
    let converted = schema.for_provider(target);
    let is_as_given = &converted.value == schema.as_value();
    report.add_obstacles(label, &converted);
    let sent =
        if is_as_given { Ok(schema.clone()) } else { Schema::new(to_json_schema(target, &converted.value)) };
    let sent = match sent {
        Ok(sent) => sent,
        Err(error) => return vec![format!("{target:?}: {error}")],
    };
    let mut broken = rules::broken_rules(target, &converted);
    broken.extend(changes::find_mistakes(schema.as_value(), &converted));
    broken.extend(formats::find_mistakes(definition, target, &converted, &sent));
    let written = |of: &Schema, texts: &mut Texts| -> Vec<Value> {
        let of = of.as_value();
        VARIANTS.iter().map(|variant| Writer::new(of, *variant, texts).arguments()).collect()
    };
    let mut fitting = written(&sent, texts);
    fitting.retain(|arguments| sent.is_valid(arguments));
    if fitting.is_empty() {
        report.without_arguments.insert(label.to_owned());
    }
    if is_as_given {
        let changed = fitting.iter().filter(|arguments| !formats::calls_round_trip(definition, arguments));
        broken.extend(changed.map(|arguments| format!("these arguments differ after a reply: {arguments}")));
    } else {
        broken
            .extend(fitting.iter().filter_map(|arguments| rejected_arguments(schema, &converted, arguments)));
        let mut fitting = written(schema, texts);
        fitting
            .retain(|arguments| schema.is_valid(arguments) && !is_expressible(&converted, &sent, arguments));
        broken.extend(
            fitting.iter().map(|arguments| format!("these arguments cannot be expressed: {arguments}")),
        );
    }
    broken.into_iter().map(|problem| format!("{target:?}: {problem}")).collect()
}

/// Returns a converted schema as JSON Schema. Gemini's keyword `nullable` is replaced by an `anyOf`
/// with the type `null`.
fn to_json_schema(target: SchemaTarget, schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    if target != SchemaTarget::Gemini {
        return schema.clone();
    }
    let mut plain: Map<_, _> =
        keywords.iter().map(|(name, it)| (name.clone(), to_json_schema(target, it))).collect();
    if let Some(parts) = plain.get_mut("anyOf").and_then(Value::as_array_mut) {
        parts.iter_mut().for_each(|part| *part = to_json_schema(target, part));
    }
    match plain.remove("nullable") {
        Some(Value::Bool(true)) => json!({"anyOf": [plain, {"type": "null"}]}),
        _ => Value::Object(plain),
    }
}

/// Checks `arguments`, valid arguments for the converted schema, against the original schema.
/// Returns a description of the problem if they are invalid, even after repairs. Returns `None` if
/// they are valid, or if the conversion reported a change, because the change may be the cause.
fn rejected_arguments(schema: &Schema, converted: &ProviderSchema, arguments: &Value) -> Option<String> {
    let (repaired, _) = repair(schema, arguments.clone(), RepairPolicy::Default);
    if schema.is_valid(&repaired) || !converted.changes.is_empty() {
        return None;
    }
    Some(format!("no change is reported, and {arguments} is invalid"))
}

/// Returns `true` if a model that follows the converted schema can send `arguments`, which are
/// valid for the original schema. If the converted schema is strict, absent properties may be sent
/// as `null`. If it is not strict, also returns `true` if the conversion reported an excluded
/// value.
fn is_expressible(converted: &ProviderSchema, sent: &Schema, arguments: &Value) -> bool {
    // The kinds of changes that exclude values.
    let is_narrower = |kind: &SchemaChangeKind| {
        matches!(
            kind,
            SchemaChangeKind::Narrowed | SchemaChangeKind::AbsentForNull | SchemaChangeKind::Unexpanded
        )
    };
    if !converted.is_strict {
        return sent.is_valid(arguments) || converted.changes.iter().any(|change| is_narrower(&change.kind));
    }
    writer::strict_values(&converted.value, &converted.value, arguments).iter().any(|way| sent.is_valid(way))
}
