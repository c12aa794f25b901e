//! A small cache of the most recent values.

use std::collections::VecDeque;

/// Enough entries for the kinds of callers that one toolset has at a time.
const REMEMBERED: usize = 8;

/// The most recently used values by key, latest first.
pub(super) struct Recent<K, V>(VecDeque<(K, V)>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: PartialEq, V> Recent<K, V> {
    /// Returns the value of `key`, computing it if it is missing.
    pub(super) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce(&K) -> V) -> &mut V {
        let at = self.0.iter().position(|(known, _)| *known == key);
        let entry = at.and_then(|at| self.0.remove(at)).unwrap_or_else(|| {
            let made = make(&key);
            (key, made)
        });
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front(entry);
        &mut self.0[0].1
    }
}
