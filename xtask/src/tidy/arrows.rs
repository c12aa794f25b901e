//! Dependencies between the packages of the workspace.
//!
//! The adapter crates (`haft-openai`, `haft-mcp`, …) depend on the core and never on each other, so
//! that a program can use one without the others. Only `haft-server`, the command line, the
//! examples and the tests combine them.

use super::{Finding, Tree};
use crate::workspace::{Dependency, Kind, Package};

/// Crates that any package may have as development dependencies.
const FREE_FOR_TESTS: &[&str] = &["haft-testing", "haft-middleware"];

/// The packages of the workspace that a package may depend on.
#[derive(Clone, Copy)]
enum Arrows {
    Only(&'static [&'static str]),
    Any,
}

const NONE: Arrows = Arrows::Only(&[]);
const CORE: Arrows = Arrows::Only(&["haft-core"]);
const LIBRARIES: Arrows = Arrows::Only(&[
    "haft-core",
    "haft-langchain",
    "haft-local",
    "haft-mcp",
    "haft-middleware",
    "haft-openai",
    "haft-react",
    "haft-session",
    "haft-tools",
]);

/// The crates, those to come included. A package outside of `crates/` may depend on any, except
/// for `xtask`.
const ARROWS: &[(&str, Arrows)] = &[
    ("haft-schema", NONE),
    ("haft-text", NONE),
    ("haft-macros", NONE),
    ("haft-core", Arrows::Only(&["haft-macros", "haft-schema", "haft-text"])),
    ("haft-middleware", CORE),
    ("haft-testing", Arrows::Only(&["haft-core", "haft-schema"])),
    ("haft-react", CORE),
    ("haft-openai", CORE),
    ("haft-mcp", CORE),
    ("haft-langchain", CORE),
    ("haft-local", CORE),
    ("haft-session", CORE),
    ("haft-tools", CORE),
    ("haft-server", LIBRARIES),
    ("haft-cli", Arrows::Any),
    ("xtask", NONE),
];

/// Third-party crates that only one of our crates may use, so that their types and versions stay
/// in one place.
const HOMES: &[(&str, &str)] =
    &[("async-openai", "haft-openai"), ("rmcp", "haft-mcp"), ("candle-core", "haft-local")];

/// The tokio features of the core: no sockets, files or processes.
const CORE_TOKIO: &[&str] = &["rt", "sync", "time"];

/// The dependencies of `haft-openai` without its feature `client`: no HTTP stack, no runtime.
const FORMATS: &[&str] = &["fastrand", "haft-core", "serde", "serde_json", "tracing"];

pub(super) fn check(packages: &[Package], tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            let complaint = forbidden(package, dependency, packages)
                .or_else(|| away_from_home(package, dependency))
                .or_else(|| core_reaches_out(package, dependency))
                .or_else(|| formats_stay_light(package, dependency))
                .or_else(|| fetches_schemas(dependency))
                .or_else(|| macros_version_differs(dependency));
            if let Some(message) = complaint {
                findings.push(Finding::in_manifest(package, tree, &dependency.name, message));
            }
        }
    }
    findings
}

/// Returns `true` if the dependencies of this crate are in the table.
pub(super) fn has_arrows(name: &str) -> bool {
    ARROWS.iter().any(|(known, _)| *known == name)
}

fn arrows(package: &Package) -> Arrows {
    let arrows = ARROWS.iter().find(|(name, _)| *name == package.name).map(|(_, arrows)| *arrows);
    arrows.unwrap_or(if package.folder().starts_with("crates/") { CORE } else { Arrows::Any })
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
        "{} must not {kind} {}: it may use {allowed}; combine the two in `tests/`, `examples/` or the command line",
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
        "haft-core opens no socket, file or process: its tokio features are {}, not `{foreign}`",
        CORE_TOKIO.join(", ")
    ))
}

fn formats_stay_light(package: &Package, dependency: &Dependency) -> Option<String> {
    let is_always_there = dependency.kind.is_none() && !dependency.optional;
    let is_more =
        package.name == "haft-openai" && is_always_there && !FORMATS.contains(&dependency.name.as_str());
    is_more.then(|| {
        format!(
            "haft-openai without its features has only formats: {} must be optional, enabled by `client`",
            dependency.name
        )
    })
}

/// The resolver features of jsonschema open files and URLs. Its feature `macros` compiles half of
/// the dependency tree twice, for a procedural macro.
fn fetches_schemas(dependency: &Dependency) -> Option<String> {
    let is_bare = !dependency.uses_default_features && dependency.features.is_empty();
    (dependency.name == "jsonschema" && !is_bare).then(|| {
        "jsonschema is used without features: they open references of a schema, or take minutes to compile"
            .to_owned()
    })
}

/// The expansion of `#[tool]` fits exactly one version of the core.
fn macros_version_differs(dependency: &Dependency) -> Option<String> {
    (dependency.name == "haft-macros" && !dependency.req.starts_with('=')).then(|| {
        format!(
            "haft-macros is required in exactly one version: `={}`",
            dependency.req.trim_start_matches('^')
        )
    })
}
