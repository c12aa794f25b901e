use std::{fs, time::Duration};

use tokio::time::{Instant, sleep};

/// How many living processes have a word in their command line.
pub(crate) fn alive(marker: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    command_lines.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}

/// Waits until they are gone; says how many are left after five seconds.
pub(crate) async fn left_after_five_seconds(marker: &str) -> usize {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match alive(marker) {
            0 => return 0,
            left if Instant::now() > deadline => return left,
            _ => sleep(Duration::from_millis(20)).await,
        }
    }
}
