//! Semantic versioning: the public API against that of the last release.
//!
//! A release is a tag `v1.2.3`. Before the first tag there is nothing to compare with. A removed or changed line is a
//! breaking change. Added lines are not, although some are: a trait method without a default, a variant of an
//! exhaustive enum.

use super::snapshot::missing;
use crate::failure::Failure;
use crate::process::program;
use crate::workspace::Package;

/// Lists the lines of the last release that are gone, unless the version says that they may be.
pub(super) fn breaking(package: &Package, file: &str, api: &str) -> Result<Option<String>, Failure> {
    let tags = git(&["tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD"])?;
    let Some((tag, released)) = tags.lines().find_map(|tag| Some((tag, version(tag.strip_prefix('v')?)?)))
    else {
        return Ok(None);
    };
    let Some(current) = version(&package.version) else { return Ok(None) };
    if !is_compatible(released, current) {
        return Ok(None);
    }
    // A crate that is newer than the release has no snapshot there.
    let Ok(old) = git(&["show", &format!("{tag}:{file}")]) else { return Ok(None) };
    let gone = missing(&old, api);
    Ok((!gone.is_empty()).then(|| {
        let (name, version) = (&package.name, &package.version);
        format!("{name} {version} is to be compatible with {tag}, and lacks:\n-{}\n", gone.join("\n-"))
    }))
}

type Version = (u64, u64, u64);

/// Parses `1.2.3`; versions with a suffix are no releases.
pub(super) fn version(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}

/// Returns `true` if cargo takes the newer version for a requirement of the older one.
pub(super) fn is_compatible(old: Version, new: Version) -> bool {
    let leading = |version: Version| match version {
        (0, 0, patch) => (0, 0, patch),
        (0, minor, _) => (0, minor, 0),
        (major, ..) => (major, 0, 0),
    };
    leading(old) == leading(new)
}

fn git(arguments: &[&str]) -> Result<String, Failure> {
    let output = program("git")
        .args(arguments)
        .output()
        .map_err(|error| Failure::message(format!("cannot start `git`: {error}")))?;
    if !output.status.success() {
        return Err(Failure::message(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
