//! The tools that real servers list: each builds, converts and comes back, and what is lost on the way is told.
//!
//! What the catalogues are and where they come from is in `tests/catalogues/README.md`.

mod fixture;
mod formats;
mod losses;
mod place;
mod report;
mod rules;
mod writer;

use std::thread;

use expect_test::expect;
use haft_core::{
    Schema, ToolDefinition, ToolName, Toolset,
    schema::{ProviderSchema, RepairPolicy, SchemaChangeKind, SchemaTarget, repair},
    toolset::Diagnostic,
};
use haft_testing::example;
use serde_json::{Map, Value, json};

use self::fixture::Catalogue;
use self::report::Report;
use self::writer::{Texts, Writer};

const PROFILES: [SchemaTarget; 4] =
    [SchemaTarget::OpenAi, SchemaTarget::OpenAiStrict, SchemaTarget::Gemini, SchemaTarget::Small];

/// In which ways arguments are made of each schema: with what is required and the first of several alternatives, and with
/// everything and the second.
const VARIANTS: [usize; 2] = [0, 3];

#[test]
fn every_tool_of_every_catalogue_builds_converts_and_comes_back() {
    let report = examine(Catalogue::all());
    assert!(report.broken.is_empty(), "{}", report.broken.join("\n"));
    expect![[r#"
        servers: {"npm": 58, "pypi": 58}
        tools: 2230, with an output schema: 866, with a mapped name: 0
        refused: 0

        Gemini: 363 as given, 0 strict, 709 without a loss, 2223 called
            lost: $ref: Unexpanded: 1
            lost: additionalProperties: Described: 118
            lost: additionalProperties: Dropped: 949
            lost: const: Described: 17
            lost: default: Described: 3145
            lost: default: Dropped: 1
            lost: discriminator: Dropped: 1
            lost: enum: Narrowed: 1
            lost: examples: Dropped: 1
            lost: exclusiveMaximum: Described: 1
            lost: exclusiveMinimum: Described: 68
            lost: format: Described: 155
            lost: insert_after: Dropped: 1
            lost: insert_before: Dropped: 1
            lost: oneOf: AnyOf: 11
            lost: opt_fields: Described: 1
            lost: optional: Described: 21
            lost: parent: Described: 1
            lost: pattern: Described: 19
            lost: propertyNames: Described: 36
            lost: readOnly: Described: 130
            lost: type: Narrowed: 112

        OpenAi: 2230 as given, 0 strict, 2230 without a loss, 2223 called

        OpenAiStrict: 351 as given, 1968 strict, 1012 without a loss, 2223 called
            not strict: additionalProperties: its properties may have any name: 180
            not strict: properties: its properties may have any name: 10
            not strict: type: any value fits: 72
            lost: default: Described: 2379
            lost: default: Dropped: 1
            lost: discriminator: Dropped: 1
            lost: format: Described: 9
            lost: maxLength: Described: 97
            lost: minLength: Described: 249
            lost: minProperties: Described: 1
            lost: oneOf: AnyOf: 5
            lost: optional: Described: 21
            lost: pattern: Described: 17
            lost: readOnly: Described: 16
            lost: type: NullForAbsent: 843

        Small: 311 as given, 0 strict, 618 without a loss, 2223 called
            lost: $ref: Unexpanded: 1
            lost: additionalProperties: Dropped: 945
            lost: description: Shortened: 143
            lost: discriminator: Dropped: 1
            lost: format: Dropped: 4
            lost: insert_after: Dropped: 1
            lost: insert_before: Dropped: 1
            lost: minProperties: Dropped: 1
            lost: opt_fields: Dropped: 1
            lost: optional: Dropped: 21
            lost: parent: Dropped: 1
            lost: propertyNames: Dropped: 36
            lost: readOnly: Dropped: 130
            lost: title: Dropped: 3661
            lost: type: AbsentForNull: 1296
    "#]]
    .assert_eq(&report.to_string());
}

/// What a [`TestModel`](haft_testing::TestModel) calls them with.
#[test]
fn every_tool_of_every_catalogue_gets_arguments_that_fit() {
    let (mut made, mut missing) = (0, Vec::new());
    for catalogue in Catalogue::all() {
        for tool in &catalogue.tools {
            let of = |schema: &Value| Schema::new(schema.clone()).map_err(|error| error.to_string());
            for schema in [Some(&tool["inputSchema"]), tool.get("outputSchema")].into_iter().flatten() {
                let example =
                    of(schema).and_then(|schema| example(&schema).map_err(|error| error.to_string()));
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

/// Examines catalogues on all cores, and reports in their order.
fn examine(mut catalogues: Vec<Catalogue>) -> Report {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut parts: Vec<Vec<Catalogue>> = Vec::new();
    parts.resize_with(threads, Vec::new);
    // The largest first, so that all have the same to do.
    catalogues.sort_by_key(|it| std::cmp::Reverse(it.tools.len()));
    for (index, catalogue) in catalogues.into_iter().enumerate() {
        parts[index % threads].push(catalogue);
    }
    let mut report = Report::default();
    thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| examine_all(part))).collect();
        threads.into_iter().for_each(|thread| report.add(thread.join().unwrap()));
    });
    report.refused.sort();
    report.broken.sort();
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
    let (source, list) = fixture::listed(catalogue.tools.clone()).await;
    *report.servers.entry(catalogue.registry.clone()).or_default() += 1;
    report.tools += catalogue.tools.len();
    for diagnostic in list.diagnostics() {
        match diagnostic {
            Diagnostic::Quarantined { tool, reason, .. } => {
                report.refused.push(format!("{} {tool}: {reason}", catalogue.package));
            }
            other => report.broken.push(format!("{}: {other}", catalogue.package)),
        }
    }
    let served = fixture::served(Toolset::new().with_source(source)).await;
    for tool in &catalogue.tools {
        let name = ToolName::from_foreign(tool["name"].as_str().unwrap());
        let Some(definition) = list.get(name.as_str()).map(|tool| tool.definition()) else { continue };
        report.mapped_names += usize::from(tool["name"] != name.as_str());
        report.output_schemas += usize::from(definition.output_schema().is_some());
        let served = served.iter().find(|served| served["name"] == name.as_str()).unwrap();
        let changed = came_back(tool, served);
        let mut broken: Vec<_> =
            changed.iter().map(|field| format!("`{field}` does not come back")).collect();
        broken.extend(PROFILES.iter().flat_map(|profile| convert(definition, *profile, report, texts)));
        let named = |what: String| format!("{} {name}: {what}", catalogue.package);
        report.broken.extend(broken.into_iter().map(named));
    }
}

/// The fields of a tool that are not served as they were listed.
fn came_back(listed: &Value, served: &Value) -> Vec<&'static str> {
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
    // Any other root is served inside an object.
    let wrapped = &served["outputSchema"]["properties"]["result"];
    if !is_same("outputSchema", output) && (output["type"] == "object" || !wrapped.is_object()) {
        changed.push("outputSchema");
    }
    changed
}

/// What is wrong with what a profile is sent of a tool's schema.
fn convert(
    definition: &ToolDefinition,
    profile: SchemaTarget,
    report: &mut Report,
    texts: &mut Texts,
) -> Vec<String> {
    let schema = definition.input_schema();
    let wire = schema.for_provider(profile);
    let counts = report.profiles.entry(format!("{profile:?}")).or_default();
    let is_as_given = &wire.value == schema.as_value();
    counts.count(&wire, is_as_given);
    let sent = if is_as_given { Ok(schema.clone()) } else { Schema::new(understood(profile, &wire.value)) };
    let sent = match sent {
        Ok(sent) => sent,
        Err(error) => return vec![format!("{profile:?}: {error}")],
    };
    let mut broken = rules::broken(profile, &wire);
    broken.extend(losses::wrong(schema.as_value(), &wire));
    broken.extend(formats::wrong(definition, profile, &wire, &sent));
    let written = |of: &Schema, texts: &mut Texts| -> Vec<Value> {
        let of = of.as_value();
        VARIANTS.iter().map(|variant| Writer::new(of, *variant, texts).arguments()).collect()
    };
    let mut fitting = written(&sent, texts);
    fitting.retain(|arguments| sent.is_valid(arguments));
    counts.called += usize::from(!fitting.is_empty());
    if is_as_given {
        let lost = fitting.iter().filter(|arguments| !formats::bring(definition, arguments));
        broken.extend(lost.map(|arguments| format!("a reply does not bring these arguments: {arguments}")));
    } else {
        broken.extend(fitting.iter().filter_map(|arguments| arrives(schema, &wire, arguments)));
        let mut fitting = written(schema, texts);
        fitting.retain(|arguments| schema.is_valid(arguments) && !can_be_said(&wire, &sent, arguments));
        broken
            .extend(fitting.iter().map(|arguments| format!("these arguments cannot be given: {arguments}")));
    }
    broken.into_iter().map(|what| format!("{profile:?}: {what}")).collect()
}

/// A wire schema as JSON Schema.
fn understood(profile: SchemaTarget, schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    if profile != SchemaTarget::Gemini {
        return schema.clone();
    }
    let mut plain: Map<_, _> =
        keywords.iter().map(|(name, it)| (name.clone(), understood(profile, it))).collect();
    if let Some(parts) = plain.get_mut("anyOf").and_then(Value::as_array_mut) {
        parts.iter_mut().for_each(|part| *part = understood(profile, part));
    }
    match plain.remove("nullable") {
        Some(Value::Bool(true)) => json!({"anyOf": [plain, {"type": "null"}]}),
        _ => Value::Object(plain),
    }
}

/// What becomes of arguments that fit what is sent, if that is wrong.
fn arrives(schema: &Schema, wire: &ProviderSchema, arguments: &Value) -> Option<String> {
    let (repaired, _) = repair(schema, arguments.clone(), RepairPolicy::Default);
    if schema.is_valid(&repaired) || !wire.changes.is_empty() {
        return None;
    }
    Some(format!("nothing is lost, and {arguments} does not fit"))
}

/// Whether arguments that fit the original can be written by what is sent.
fn can_be_said(wire: &ProviderSchema, sent: &Schema, arguments: &Value) -> bool {
    // What a profile cannot say at all, or offers only in part.
    let is_narrower = |kind: &SchemaChangeKind| {
        matches!(
            kind,
            SchemaChangeKind::Narrowed | SchemaChangeKind::AbsentForNull | SchemaChangeKind::Unexpanded
        )
    };
    if !wire.strict {
        return sent.is_valid(arguments) || wire.changes.iter().any(|loss| is_narrower(&loss.kind));
    }
    writer::strictly(&wire.value, &wire.value, arguments).iter().any(|way| sent.is_valid(way))
}
