use std::{fs, process};

/// Returns the peak memory of this process in MiB. `None` if the system does not report it.
pub fn peak_memory() -> Option<f64> {
    peak_memory_of(process::id())
}

/// Returns the peak memory of the process with this id in MiB. `None` if the system does not report
/// it.
pub fn peak_memory_of(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}
