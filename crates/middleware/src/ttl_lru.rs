//! A bounded LRU cache with a time to live, used by the result cache and the reply cache.

use std::{
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lru::LruCache;
use tokio::time::Instant;

/// An LRU cache with limits on the age, the number and the total size of its entries. Clones share
/// the entries.
pub(crate) struct TtlLru<K, V> {
    time_to_live: Duration,
    max_entries: usize,
    max_bytes: usize,
    shared: Arc<Mutex<Shared<K, V>>>,
}

struct Shared<K, V> {
    entries: LruCache<K, Entry<V>>,
    /// The total size of all entries, in bytes.
    bytes: usize,
    /// The number of calls to [`TtlLru::clear`] so far. A value with a ticket from an earlier
    /// generation is not inserted.
    generation: u64,
    /// The number most recently returned by [`TtlLru::next_owner`].
    owners: u64,
}

struct Entry<V> {
    value: Arc<V>,
    /// The time when the computation of the value started. The age of the entry is counted from
    /// this time.
    started: Instant,
    bytes: usize,
}

/// A ticket for the insertion of a value: the start time of its computation, and the generation of
/// the cache at this time.
#[derive(Clone, Copy)]
pub(crate) struct InsertTicket {
    started: Instant,
    generation: u64,
}

impl<K: Hash + Eq, V> TtlLru<K, V> {
    pub(crate) fn new(time_to_live: Duration, max_entries: usize, max_bytes: usize) -> Self {
        let shared = Shared { entries: LruCache::unbounded(), bytes: 0, generation: 0, owners: 0 };
        Self { time_to_live, max_entries, max_bytes, shared: Arc::new(Mutex::new(shared)) }
    }

    pub(crate) fn with_max_entries(self, max_entries: usize) -> Self {
        Self { max_entries, ..self }
    }

    pub(crate) fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Returns a unique number for a tool or a model. The number is part of the cache key, so two
    /// tools or models never share entries.
    pub(crate) fn next_owner(&self) -> u64 {
        self.with_shared(|shared| {
            shared.owners += 1;
            shared.owners
        })
    }

    /// Removes all entries and invalidates all tickets, so that values whose computation is in
    /// progress are not inserted later.
    pub(crate) fn clear(&self) {
        self.with_shared(|shared| {
            shared.entries.clear();
            shared.bytes = 0;
            shared.generation += 1;
        });
    }

    /// Creates the ticket for a value. Call this method before the computation of the value starts.
    pub(crate) fn issue_ticket(&self) -> InsertTicket {
        InsertTicket { started: Instant::now(), generation: self.with_shared(|shared| shared.generation) }
    }

    /// Returns the value for `key`, and the time since the start of its computation. `None` if the
    /// cache has no value for `key`, or if the value has expired.
    pub(crate) fn get(&self, key: &K) -> Option<(Arc<V>, Duration)> {
        self.with_shared(|shared| {
            let entry = shared.entries.get(key)?;
            let age = entry.started.elapsed();
            if age < self.time_to_live {
                return Some((Arc::clone(&entry.value), age));
            }
            shared.remove(key);
            None
        })
    }

    /// Calls `value` and inserts its output, which has a size of `bytes`. Evicts the least recently
    /// used entries until the number and the total size of all entries are within their limits.
    ///
    /// If `bytes` alone exceeds the limit, `value` is not called. The output is discarded if
    /// `ticket` is invalid, or if the computation of the existing value for `key` started later.
    pub(crate) fn insert_if_current(
        &self,
        key: K,
        bytes: usize,
        ticket: InsertTicket,
        value: impl FnOnce() -> V,
    ) {
        if bytes > self.max_bytes {
            return;
        }
        let entry = Entry { value: Arc::new(value()), started: ticket.started, bytes };
        self.with_shared(|shared| {
            if shared.generation != ticket.generation {
                return;
            }
            // The computation of the existing value started later, so the existing value is more
            // recent.
            if shared.entries.peek(&key).is_some_and(|existing| existing.started > ticket.started) {
                return;
            }
            shared.remove(&key);
            shared.entries.put(key, entry);
            shared.bytes += bytes;
            while shared.entries.len() > self.max_entries || shared.bytes > self.max_bytes {
                let Some((_, oldest)) = shared.entries.pop_lru() else { break };
                shared.bytes -= oldest.bytes;
            }
        });
    }

    fn with_shared<T>(&self, act: impl FnOnce(&mut Shared<K, V>) -> T) -> T {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Hash + Eq, V> Shared<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.pop(key) {
            self.bytes -= entry.bytes;
        }
    }
}

impl<K, V> Clone for TtlLru<K, V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), ..*self }
    }
}

impl<K, V> fmt::Debug for TtlLru<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtlLru")
            .field("time_to_live", &self.time_to_live)
            .field("max_entries", &self.max_entries)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}
