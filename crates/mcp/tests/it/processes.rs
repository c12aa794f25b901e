use std::{collections::HashSet, fs, time::Duration};

use tokio::time::{Instant, sleep};

/// The processes of a server: those that have a word in their command line, and all in the same groups. Only a group
/// has those that the word does not show, such as what ends the group with its owner.
pub(crate) struct Watched {
    marker: String,
    groups: HashSet<String>,
}

impl Watched {
    pub(crate) fn new(marker: &str) -> Self {
        Self { marker: marker.to_owned(), groups: HashSet::new() }
    }

    /// How many live. The groups that are seen now are remembered.
    pub(crate) fn alive(&mut self) -> usize {
        let (own, _) = group_and_state("self").unwrap();
        let ids = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
        let living: Vec<_> = ids
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
        let marked: HashSet<_> = living.iter().filter(|(id, _)| marked(id)).cloned().collect();
        // A program that owns a server is marked too, and in the group of this one.
        self.groups.extend(marked.iter().map(|(_, group)| group.clone()).filter(|group| *group != own));
        living.iter().filter(|it| marked.contains(it) || self.groups.contains(&it.1)).count()
    }

    /// Waits until they are gone; says how many are left after five seconds.
    pub(crate) async fn left_after_five_seconds(&mut self) -> usize {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match self.alive() {
                0 => return 0,
                left if Instant::now() > deadline => return left,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

fn group_and_state(id: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.to_owned();
    Some((fields.nth(1)?.to_owned(), state))
}
