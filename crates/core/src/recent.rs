//! A memory of a few answers.

use std::collections::VecDeque;

/// How many answers are remembered: enough for the kinds of callers that one toolset has at a time.
const REMEMBERED: usize = 8;

/// The latest answers by what they were made of, latest first.
pub(crate) struct Recent<K, V>(VecDeque<(K, V)>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: PartialEq, V> Recent<K, V> {
    /// The answer for `key`, made if it is not remembered.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce(&K) -> V) -> &mut V {
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
