//! Methods of [`Run`] for the [entries](crate::extension::Entries) of extensions: named values that
//! are saved with the run.

use super::Run;
use crate::extension::SavedEntries;

impl Run {
    /// Returns the saved [entries](crate::extension::Entries) of all extensions, by extension name.
    pub fn extension_entries(&self) -> &SavedEntries {
        &self.head.entries
    }

    /// Replaces the saved entries of all extensions with `entries`. Intended for drivers: hooks and
    /// tools change entries through [`Entries`](crate::extension::Entries).
    pub fn set_extension_entries(&mut self, entries: SavedEntries) {
        self.head.entries = entries;
    }
}
