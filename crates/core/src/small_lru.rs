//! A small LRU cache.

use std::collections::VecDeque;

/// An LRU cache of at most `N` values. The most recently used value is at the front.
///
/// The default of eight suffices for snapshots: the callers of a toolset need few different
/// snapshots, for example one for each set of available host state.
pub(crate) struct SmallLru<K, V, const N: usize = 8>(VecDeque<(K, V)>);

impl<K, V, const N: usize> Default for SmallLru<K, V, N> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: PartialEq, V, const N: usize> SmallLru<K, V, N> {
    /// Returns the value of `key`. If the cache does not contain `key`, computes the value with
    /// `compute` and inserts it.
    pub(crate) fn get_or_insert_with(&mut self, key: K, compute: impl FnOnce(&K) -> V) -> &mut V {
        let index = self.0.iter().position(|(known, _)| *known == key);
        let entry = index.and_then(|index| self.0.remove(index)).unwrap_or_else(|| {
            let value = compute(&key);
            (key, value)
        });
        self.0.truncate(N - 1);
        self.0.push_front(entry);
        &mut self.0[0].1
    }
}
