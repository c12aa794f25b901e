//! Which package may depend on which.
//!
//! The crates that hold an idea each (`haft-openai`, `haft-mcp`, …) know the core and never each other, so
//! that a user takes one without the rest. They meet in the command line, the examples and the tests.

use super::{Finding, Tree};
use crate::workspace::{Dependency, Kind, Package};

/// Crates that any package may use in its tests.
const FREE_FOR_TESTS: &[&str] = &["haft-testing", "haft-middleware"];

/// What a package may have of this workspace.
enum Arrows {
    Only(&'static [&'static str]),
    Any,
}

/// A crate of somebody else that has one home, so that its types and its versions do not spread.
const HOMES: &[(&str, &str)] =
    &[("async-openai", "haft-openai"), ("rmcp", "haft-mcp"), ("candle-core", "haft-local")];

/// What tokio may bring to the core: neither sockets nor files nor processes.
const CORE_TOKIO: &[&str] = &["rt", "sync", "time"];

/// What the formats of `haft-openai` are made of: without its client it costs no HTTP stack and no runtime.
const FORMATS: &[&str] = &["fastrand", "haft-core", "serde", "serde_json", "tracing"];

pub(super) fn check(packages: &[Package], tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            let complaint = forbidden(package, dependency, packages)
                .or_else(|| away_from_home(package, dependency))
                .or_else(|| core_reaches_out(package, dependency))
                .or_else(|| formats_cost_more(package, dependency))
                .or_else(|| schemas_are_fetched(dependency))
                .or_else(|| macros_may_differ(dependency));
            if let Some(message) = complaint {
                findings.push(Finding::in_manifest(package, tree, &dependency.name, message));
            }
        }
    }
    findings
}

fn arrows(package: &Package) -> Arrows {
    match package.name.as_str() {
        "haft-macros" | "haft-schema" | "haft-text" | "xtask" => Arrows::Only(&[]),
        "haft-core" => Arrows::Only(&["haft-macros", "haft-schema", "haft-text"]),
        "haft-testing" => Arrows::Only(&["haft-core", "haft-schema"]),
        "haft-cli" => Arrows::Any,
        _ if package.folder().starts_with("crates/") => Arrows::Only(&["haft-core"]),
        _ => Arrows::Any,
    }
}

fn forbidden(package: &Package, dependency: &Dependency, packages: &[Package]) -> Option<String> {
    let is_ours = packages.iter().any(|other| other.name == dependency.name);
    let Arrows::Only(allowed) = arrows(package) else { return None };
    let is_free = dependency.kind == Some(Kind::Dev) && FREE_FOR_TESTS.contains(&dependency.name.as_str());
    if !is_ours || is_free || allowed.contains(&dependency.name.as_str()) {
        return None;
    }
    let kind = match dependency.kind {
        None => "depend on",
        Some(Kind::Build) => "build with",
        Some(Kind::Dev) => "test with",
    };
    let allowed =
        if allowed.is_empty() { "no crate of this workspace".to_owned() } else { allowed.join(", ") };
    Some(format!(
        "{} must not {kind} {}: it may know {allowed}; join the two in `tests/`, `examples/` or the command line",
        package.name, dependency.name
    ))
}

fn away_from_home(package: &Package, dependency: &Dependency) -> Option<String> {
    let (_, home) = HOMES.iter().find(|(name, _)| *name == dependency.name)?;
    let is_library = package.folder().starts_with("crates/");
    (is_library && dependency.kind.is_none() && package.name != *home)
        .then(|| format!("{} belongs in {home}, not in {}", dependency.name, package.name))
}

fn core_reaches_out(package: &Package, dependency: &Dependency) -> Option<String> {
    if package.name != "haft-core" || dependency.name != "tokio" || dependency.kind.is_some() {
        return None;
    }
    let foreign = dependency.features.iter().find(|feature| !CORE_TOKIO.contains(&feature.as_str()))?;
    Some(format!(
        "haft-core opens no socket, file or process: of tokio it takes {}, not `{foreign}`",
        CORE_TOKIO.join(", ")
    ))
}

fn formats_cost_more(package: &Package, dependency: &Dependency) -> Option<String> {
    let is_always_there = dependency.kind.is_none() && !dependency.optional;
    let is_more =
        package.name == "haft-openai" && is_always_there && !FORMATS.contains(&dependency.name.as_str());
    is_more.then(|| {
        format!(
            "haft-openai without its features has only formats: {} must be optional, and come with `client`",
            dependency.name
        )
    })
}

/// The features of jsonschema resolve references to files and addresses. `macros` compiles half of its
/// tree a second time, for a procedural macro.
fn schemas_are_fetched(dependency: &Dependency) -> Option<String> {
    let is_bare = !dependency.uses_default_features && dependency.features.is_empty();
    (dependency.name == "jsonschema" && !is_bare).then(|| {
        "jsonschema is used without features: they open what a schema refers to, or cost minutes to compile"
            .to_owned()
    })
}

/// The code that a macro writes fits one version of the core only.
fn macros_may_differ(dependency: &Dependency) -> Option<String> {
    (dependency.name == "haft-macros" && !dependency.req.starts_with('=')).then(|| {
        format!("haft-macros is needed in exactly one version: `={}`", dependency.req.trim_start_matches('^'))
    })
}
