use std::{collections::HashSet, fs, time::Duration};

use tokio::time::{Instant, sleep};

/// A counter of the processes of a server, based on `/proc`.
///
/// A process belongs to the server if its command line contains `marker`, or if it is in the
/// process group of a process with the marker. The second rule is for the watchdog, which has no
/// marker.
pub(crate) struct ServerProcesses {
    marker: String,
    groups: HashSet<String>,
}

impl ServerProcesses {
    pub(crate) fn new(marker: &str) -> Self {
        Self { marker: marker.to_owned(), groups: HashSet::new() }
    }

    /// Returns the number of running processes of the server, and stores their process groups.
    /// Later calls use these groups to count processes without the marker, even after all processes
    /// with the marker have exited.
    pub(crate) fn count(&mut self) -> usize {
        let (own, _) = group_and_state("self").unwrap();
        let ids = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
        let running: Vec<_> = ids
            .filter_map(|id| {
                let id = id.to_str()?.to_owned();
                let (group, state) = group_and_state(&id)?;
                (state != "Z").then_some((id, group))
            })
            .collect();
        let marked = |id: &str| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&self.marker)
        };
        let marked: HashSet<_> = running.iter().filter(|(id, _)| marked(id)).cloned().collect();
        // The owner of the server also has the marker, but runs in the process group of this test.
        // The processes of this group must not be counted.
        self.groups.extend(marked.iter().map(|(_, group)| group.clone()).filter(|group| *group != own));
        running.iter().filter(|it| marked.contains(it) || self.groups.contains(&it.1)).count()
    }

    /// Waits up to five seconds for all processes to exit. Returns the number of processes that are
    /// still running.
    pub(crate) async fn remaining(&mut self) -> usize {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match self.count() {
                0 => return 0,
                remaining if Instant::now() > deadline => return remaining,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

fn group_and_state(id: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the process name in parentheses, which may contain spaces.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.to_owned();
    Some((fields.nth(1)?.to_owned(), state))
}
