use std::{
    env,
    ffi::OsStr,
    process::{Command, Stdio},
};

use crate::Case;

/// The command line argument that makes a bench execute one case under callgrind.
pub(crate) const COUNT_FLAG: &str = "--count";

/// The message to print if valgrind is not installed.
pub(crate) const VALGRIND_MISSING: &str =
    "instructions are not counted: install valgrind (`apt-get install valgrind`)";

/// Returns `true` if valgrind is installed.
pub(crate) fn can_be_counted() -> bool {
    let valgrind = valgrind().arg("--version").stdout(Stdio::null()).status();
    valgrind.is_ok_and(|status| status.success())
}

/// Counts the instructions of `case` in a separate process. Returns the number of instructions per
/// round, or per part if a round has parts.
pub(crate) fn count(case: &Case) -> Result<u64, String> {
    let this = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = valgrind()
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=haft_benches::case::run_counted")
        .args([this.as_os_str(), OsStr::new(COUNT_FLAG), OsStr::new(case.name)])
        .output()
        .map_err(|_| VALGRIND_MISSING.to_owned())?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let collected = stderr.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, number)| number.trim().parse::<u64>().ok());
    let collected = collected.filter(|number| output.status.success() && *number > 0);
    collected
        .map(|number| number / (u64::from(case.rounds) * u64::from(case.parts)))
        .ok_or_else(|| format!("valgrind did not count the instructions of \"{}\":\n{stderr}", case.name))
}

fn valgrind() -> Command {
    let mut valgrind = Command::new("valgrind");
    // glibc selects its functions for copying memory by the features of the processor. If these
    // features are disabled, most processors use the same functions, so their counts are
    // comparable.
    valgrind.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX512F,-ERMS,-FSRM");
    valgrind
}
