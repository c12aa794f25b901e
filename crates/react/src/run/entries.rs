//! The saved entries of extensions.

use super::Run;
use crate::extension::SavedEntries;

impl Run {
    /// The saved [entries](crate::extension::Entries) of extensions, by the name of the extension.
    pub fn entries(&self) -> &SavedEntries {
        &self.head.entries
    }

    /// Replaces the saved entries of all extensions. For drivers: hooks and tools change them
    /// through [`Entries`](crate::extension::Entries).
    pub fn set_entries(&mut self, entries: SavedEntries) {
        self.head.entries = entries;
    }
}
