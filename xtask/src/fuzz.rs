//! The command `cargo xtask fuzz TARGET`: runs a fuzz target with libFuzzer on the stable compiler.
//!
//! cargo-fuzz needs a nightly compiler only for sanitizers. Our targets look for panics, stack
//! overflows and endless loops in safe code, so they need no sanitizer.

mod duration;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::process::{announce, cargo_command, run as run_command, run_succeeds};
use crate::workspace::{Workspace, root};

const PACKAGE: &str = "haft-fuzz";
const FEATURE: &str = "libfuzzer";

/// The folder of the fuzzing inputs that increased the code coverage. Each target has its own
/// subfolder.
const CORPUS_FOLDER: &str = "fuzz/corpus";

/// The limits for libFuzzer: 20 seconds per input (enough on a busy machine), 1,024 MiB of memory
/// for the process, and 16 KiB per input.
const LIBFUZZER_LIMITS: [&str; 3] = ["-timeout=20", "-rss_limit_mb=1024", "-max_len=16384"];

/// The parsed arguments of `cargo xtask fuzz`.
#[derive(Debug, PartialEq, Eq)]
struct FuzzRun<'a> {
    target: &'a str,
    /// The duration of the run. `None` if the target runs until the user stops it.
    time: Option<Duration>,
    /// The options for libFuzzer, from the command line after `--`.
    options: &'a [String],
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let FuzzRun { target, time, options } = parse_arguments(arguments, &list_targets()?)?;
    install_cargo_fuzz()?;
    let folder = Workspace::load()?.target_directory.join("fuzz");
    let seeds = folder.join("seeds");
    run_command(
        cargo_command(&["run", "--locked", "--package", PACKAGE, "--example", "seeds", "--"]).arg(&seeds),
    )?;
    let corpus = root().join(CORPUS_FOLDER).join(target);
    fs::create_dir_all(&corpus)
        .map_err(|error| Failure::message(format!("cannot create {}: {error}", corpus.display())))?;
    announce(&format!(
        "building with optimisation and counters; the first build takes some minutes. The corpus is in {}",
        corpus.display()
    ));
    let mut command =
        cargo_command(&["fuzz", "run", "--sanitizer", "none", "--features", FEATURE, "--target-dir"]);
    command.arg(&folder).arg(target).args([&corpus, &seeds]);
    command.arg("--").args(LIBFUZZER_LIMITS).arg("-print_final_stats=1");
    if let Some(time) = time {
        command.arg(format!("-max_total_time={}", time.as_secs()));
    }
    run_command(command.args(options))
}

/// Lints the fuzz targets without compiling libFuzzer. If `CUSTOM_LIBFUZZER_PATH` is set, the build
/// script uses the library at this path. The library need not exist, because clippy does not link.
pub(crate) fn check() -> Result<(), Failure> {
    let arguments =
        ["clippy", "--locked", "--package", PACKAGE, "--features", FEATURE, "--", "-D", "warnings"];
    run_command(cargo_command(&arguments).env("CUSTOM_LIBFUZZER_PATH", "./libfuzzer.a"))
}

/// Returns the sorted names of the fuzz targets: the file names in `fuzz/fuzz_targets` without
/// extension.
fn list_targets() -> Result<Vec<String>, Failure> {
    let folder = root().join("fuzz/fuzz_targets");
    let unreadable = |error| Failure::message(format!("cannot read {}: {error}", folder.display()));
    let files = fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unreadable)?;
    let names = files.iter().map(fs::DirEntry::path);
    let mut names: Vec<_> =
        names.filter_map(|path| Some(Path::new(path.file_stem()?).to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn parse_arguments<'a>(arguments: &'a [String], targets: &[String]) -> Result<FuzzRun<'a>, Failure> {
    let end = arguments.iter().position(|it| it == "--");
    let (ours, options) = match end {
        Some(end) => (arguments.get(..end).unwrap_or_default(), arguments.get(end + 1..).unwrap_or_default()),
        None => (arguments, &[][..]),
    };
    let words: Vec<_> = ours.iter().map(String::as_str).collect();
    let (target, time) = match words[..] {
        [target] => (target, None),
        [target, "--for", time] | ["--for", time, target] => (target, Some(duration::parse(time)?)),
        _ => return Err(Failure::usage(format!("`fuzz` needs a target: {}", targets.join(", ")))),
    };
    if !targets.iter().any(|it| it == target) {
        let known = targets.join(", ");
        return Err(Failure::usage(format!("there is no fuzz target `{target}`; the targets are: {known}")));
    }
    Ok(FuzzRun { target, time, options })
}

fn install_cargo_fuzz() -> Result<(), Failure> {
    if run_succeeds(cargo_command(&["fuzz"]).arg("--version")) {
        return Ok(());
    }
    announce("cargo-fuzz is not installed; building it takes a minute or two");
    run_command(&mut cargo_command(&["install", "cargo-fuzz", "--locked"]))
}
