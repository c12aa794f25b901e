//! The packages of the workspace, as reported by `cargo metadata`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::process;

/// Returns the path of the root folder of the repository.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// The packages and the target folder of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) readme: Option<PathBuf>,
    pub(crate) rust_version: Option<String>,
    pub(crate) manifest_path: PathBuf,
    /// The registries to which the package may be published. `None` permits every registry. An
    /// empty list means that the package is never published.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

/// A cargo target of a package, such as a library, a program or a test.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// The kinds of the target, such as `lib`, `bin`, `test` or `proc-macro`.
    pub(crate) kind: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) req: String,
    /// The kind of the dependency. `None` for a dependency in `[dependencies]`.
    pub(crate) kind: Option<Kind>,
    pub(crate) features: Vec<String>,
    pub(crate) uses_default_features: bool,
    pub(crate) optional: bool,
}

/// The kind of a dependency in `[build-dependencies]` or `[dev-dependencies]`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Build,
    Dev,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self, Failure> {
        let output = process::cargo_command(&["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|error| Failure::message(format!("cannot start `cargo metadata`: {error}")))?;
        if !output.status.success() {
            return Err(Failure::message(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| {
            Failure::message(format!("cannot parse the output of `cargo metadata`: {error}"))
        })
    }

    /// Returns the package that contains the program `name`. Returns `None` if no package has such
    /// a program.
    pub(crate) fn package_of_program(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.programs().any(|program| program == name))
    }

    /// Returns the packages that are published to a crate registry.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_published())
    }
}

impl Package {
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns the names of the package's programs, in the order of `cargo metadata`.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        let programs = self.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "bin"));
        programs.map(|target| target.name.as_str())
    }

    /// Returns the folder of the package as a path from the root of the repository, for example
    /// `crates/core`.
    pub(crate) fn folder(&self) -> String {
        let folder = self.manifest_path.parent().unwrap_or(&self.manifest_path);
        folder.strip_prefix(root()).unwrap_or(folder).to_string_lossy().into_owned()
    }
}
