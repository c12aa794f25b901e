//! Compares the public API with the latest release, by the rules of semantic versioning.
//!
//! A release is a git tag such as `v1.2.3`. Without a release tag, nothing is compared. A removed
//! or changed line is a breaking change. Added lines are not reported, although some additions
//! break users, such as a trait method without a default or a new variant of an exhaustive enum.

use super::snapshot::missing_lines;
use crate::failure::Failure;
use crate::process::command_in_root;
use crate::workspace::Package;

/// Describes the public items of `package` that were removed or changed since the latest release.
/// `api` is the current list of public items, and `file` is the path of their snapshot.
///
/// Returns `None` if no item was removed or changed, or if the version number permits breaking
/// changes. Also returns `None` if there is nothing to compare: there is no release, the release
/// does not contain `file`, or the version is a pre-release.
pub(super) fn find_removed_items(
    package: &Package,
    file: &str,
    api: &str,
) -> Result<Option<String>, Failure> {
    let tags = git(&["tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD"])?;
    let Some((tag, released)) =
        tags.lines().find_map(|tag| Some((tag, parse_version(tag.strip_prefix('v')?)?)))
    else {
        return Ok(None);
    };
    let Some(current) = parse_version(&package.version) else { return Ok(None) };
    if !is_compatible(released, current) {
        return Ok(None);
    }
    // The snapshot is missing if the crate was added after the release.
    let Ok(old) = git(&["show", &format!("{tag}:{file}")]) else { return Ok(None) };
    let gone = missing_lines(&old, api);
    Ok((!gone.is_empty()).then(|| {
        let (name, version) = (&package.name, &package.version);
        format!("{name} {version} must be compatible with {tag}, and lacks:\n-{}\n", gone.join("\n-"))
    }))
}

type Version = (u64, u64, u64);

/// Parses a version such as `1.2.3`. Returns `None` for any other text, including pre-releases such
/// as `1.0.0-rc.1`, which are not compared.
pub(super) fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}

/// Returns `true` if `old` and `new` are compatible by cargo's rules: they are equal up to and
/// including the first number that is not 0.
pub(super) fn is_compatible(old: Version, new: Version) -> bool {
    let leading = |version: Version| match version {
        (0, 0, patch) => (0, 0, patch),
        (0, minor, _) => (0, minor, 0),
        (major, ..) => (major, 0, 0),
    };
    leading(old) == leading(new)
}

fn git(arguments: &[&str]) -> Result<String, Failure> {
    let output = command_in_root("git")
        .args(arguments)
        .output()
        .map_err(|error| Failure::message(format!("cannot start `git`: {error}")))?;
    if !output.status.success() {
        return Err(Failure::message(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
