//! Rule: a package depends only on the packages and third-party crates that it is allowed to use.
//!
//! The adapter crates (`haft-openai`, `haft-mcp`, …) depend on the core and never on each other, so
//! a program can use one adapter without the others. Adapters are combined only in `haft-cli`, the
//! examples and the tests.

use super::{Finding, SourceTree};
use crate::workspace::{Dependency, Kind, Package};

/// The crates of the workspace that every package may use as development dependencies.
const TEST_DEPENDENCIES: &[&str] = &["haft-testing", "haft-middleware"];

/// Further development dependencies on crates of the workspace, as pairs of a crate and a
/// dependency. The tests of `haft-langchain` need an agent. They are not in `tests/`,
/// because that package would then depend on `langchain-rust`.
const EXTRA_TEST_DEPENDENCIES: &[(&str, &str)] = &[("haft-langchain", "haft-react")];

/// The packages of the workspace that a package may depend on.
#[derive(Clone, Copy)]
enum AllowedPackages {
    Only(&'static [&'static str]),
    Any,
}

const NO_PACKAGES: AllowedPackages = AllowedPackages::Only(&[]);
const CORE_ONLY: AllowedPackages = AllowedPackages::Only(&["haft-core"]);
const CORE_AND_HTTP: AllowedPackages = AllowedPackages::Only(&["haft-core", "haft-http"]);

/// The packages of the workspace that each crate may depend on. An unlisted crate in `crates/` may
/// depend only on the core. An unlisted package elsewhere may depend on every package.
const ARROWS: &[(&str, AllowedPackages)] = &[
    ("haft-schema", NO_PACKAGES),
    ("haft-text", NO_PACKAGES),
    ("haft-macros", NO_PACKAGES),
    ("haft-message", AllowedPackages::Only(&["haft-schema"])),
    ("haft-core", AllowedPackages::Only(&["haft-macros", "haft-message", "haft-schema", "haft-text"])),
    ("haft-middleware", CORE_ONLY),
    ("haft-testing", AllowedPackages::Only(&["haft-core", "haft-schema"])),
    ("haft-dialect", CORE_ONLY),
    ("haft-react", AllowedPackages::Only(&["haft-core", "haft-dialect"])),
    ("haft-http", CORE_ONLY),
    ("haft-gemini", CORE_AND_HTTP),
    ("haft-openai", CORE_AND_HTTP),
    ("haft-anthropic", CORE_AND_HTTP),
    ("haft-mcp", CORE_AND_HTTP),
    ("haft-openapi", CORE_AND_HTTP),
    ("haft-langchain", CORE_ONLY),
    ("haft-local", CORE_AND_HTTP),
    ("haft-tools", CORE_ONLY),
    ("haft-session", CORE_ONLY),
    (
        "haft-server",
        AllowedPackages::Only(&["haft-core", "haft-http", "haft-mcp", "haft-react", "haft-session"]),
    ),
    ("haft-cli", AllowedPackages::Any),
    ("xtask", NO_PACKAGES),
];

/// Third-party crates, each with the only crate in `crates/` that may have it as an ordinary
/// dependency. Other libraries therefore do not depend on the types or the version of these crates.
const SOLE_USERS: &[(&str, &str)] = &[
    ("async-openai", "haft-openai"),
    ("candle-core", "haft-local"),
    ("langchain-rust", "haft-langchain"),
    ("rmcp", "haft-mcp"),
    ("sqlx", "haft-session"),
];

/// The tokio features that `haft-core` may enable. None of them opens sockets, files or processes.
const CORE_TOKIO_FEATURES: &[&str] = &["rt", "sync", "time"];

/// The crates that have only formats without their feature `client`, and contain no HTTP stack.
const FORMAT_CRATES: &[&str] = &["haft-anthropic", "haft-gemini", "haft-openai"];

/// The only dependencies that a crate of [`FORMAT_CRATES`] may have without its feature `client`.
const FORMAT_DEPENDENCIES: &[&str] = &["fastrand", "haft-core", "serde", "serde_json", "tracing"];

pub(super) fn check(packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            let complaint = check_workspace_dependency(package, dependency, packages)
                .or_else(|| check_sole_user(package, dependency))
                .or_else(|| check_core_tokio(package, dependency))
                .or_else(|| check_formats(package, dependency))
                .or_else(|| check_jsonschema(dependency))
                .or_else(|| check_macros_version(dependency));
            if let Some(message) = complaint {
                findings.push(Finding::in_manifest(package, tree, &dependency.name, message));
            }
        }
    }
    findings
}

fn allowed_packages(package: &Package) -> AllowedPackages {
    let arrows = ARROWS.iter().find(|(name, _)| *name == package.name).map(|(_, arrows)| *arrows);
    arrows.unwrap_or(if package.folder().starts_with("crates/") { CORE_ONLY } else { AllowedPackages::Any })
}

fn check_workspace_dependency(
    package: &Package,
    dependency: &Dependency,
    packages: &[Package],
) -> Option<String> {
    let is_ours = packages.iter().any(|other| other.name == dependency.name);
    let AllowedPackages::Only(allowed) = allowed_packages(package) else { return None };
    let (user, used) = (package.name.as_str(), dependency.name.as_str());
    // A crate that tests with itself enables its own features for its tests.
    let is_free = dependency.kind == Some(Kind::Dev)
        && (user == used
            || TEST_DEPENDENCIES.contains(&used)
            || EXTRA_TEST_DEPENDENCIES.contains(&(user, used)));
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

fn check_sole_user(package: &Package, dependency: &Dependency) -> Option<String> {
    let (_, sole_user) = SOLE_USERS.iter().find(|(name, _)| *name == dependency.name)?;
    let is_library = package.folder().starts_with("crates/");
    (is_library && dependency.kind.is_none() && package.name != *sole_user)
        .then(|| format!("{} belongs in {sole_user}, not in {}", dependency.name, package.name))
}

fn check_core_tokio(package: &Package, dependency: &Dependency) -> Option<String> {
    if package.name != "haft-core" || dependency.name != "tokio" || dependency.kind.is_some() {
        return None;
    }
    let foreign =
        dependency.features.iter().find(|feature| !CORE_TOKIO_FEATURES.contains(&feature.as_str()))?;
    Some(format!(
        "haft-core opens no socket, file or process: its tokio features are {}, not `{foreign}`",
        CORE_TOKIO_FEATURES.join(", ")
    ))
}

fn check_formats(package: &Package, dependency: &Dependency) -> Option<String> {
    let is_always_there = dependency.kind.is_none() && !dependency.optional;
    let is_more = FORMAT_CRATES.contains(&package.name.as_str())
        && is_always_there
        && !FORMAT_DEPENDENCIES.contains(&dependency.name.as_str());
    is_more.then(|| {
        format!(
            "{} without its features has only formats: {} must be optional, enabled by `client`",
            package.name, dependency.name
        )
    })
}

/// Returns a message if `dependency` is `jsonschema` and enables features. The resolver features of
/// `jsonschema` open files and URLs. Its feature `macros` compiles half of the dependency tree
/// twice, for a procedural macro.
fn check_jsonschema(dependency: &Dependency) -> Option<String> {
    let is_bare = !dependency.uses_default_features && dependency.features.is_empty();
    (dependency.name == "jsonschema" && !is_bare).then(|| {
        "jsonschema is used without features: they open references of a schema, or take minutes to compile"
            .to_owned()
    })
}

/// Returns a message if `dependency` is `haft-macros` and its version is not exact. The code that
/// `#[tool]` generates is compatible with only one version of the core.
fn check_macros_version(dependency: &Dependency) -> Option<String> {
    (dependency.name == "haft-macros" && !dependency.req.starts_with('=')).then(|| {
        format!(
            "haft-macros is required in exactly one version: `={}`",
            dependency.req.trim_start_matches('^')
        )
    })
}
