use std::{
    env,
    ffi::OsStr,
    process::{Command, Stdio},
};

use crate::Case;

/// Tells a bench that it runs under callgrind.
pub(crate) const COUNT: &str = "--count";

/// What to do where instructions cannot be counted.
pub(crate) const MISSING: &str =
    "instructions are counted by valgrind, which is not installed: `apt-get install valgrind`";

/// Whether instructions can be counted here.
pub(crate) fn can_be_counted() -> bool {
    let valgrind = valgrind().arg("--version").stdout(Stdio::null()).status();
    valgrind.is_ok_and(|status| status.success())
}

/// Counts the instructions of one round, or of one of its parts, in a process of its own, so that no case changes another's.
pub(crate) fn count(case: &Case) -> Result<u64, String> {
    let this = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = valgrind()
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=haft_benches::case::counted")
        .args([this.as_os_str(), OsStr::new(COUNT), OsStr::new(case.name)])
        .output()
        .map_err(|_| MISSING.to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, number)| number.trim().parse::<u64>().ok());
    let collected = collected.filter(|number| output.status.success() && *number > 0);
    collected
        .map(|number| number / (u64::from(case.rounds) * u64::from(case.parts)))
        .ok_or_else(|| format!("valgrind did not count the instructions of \"{}\":\n{said}", case.name))
}

fn valgrind() -> Command {
    let mut valgrind = Command::new("valgrind");
    // The C library copies in another way on another processor; with these left out, in the same on most.
    valgrind.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX512F,-ERMS,-FSRM");
    valgrind
}
