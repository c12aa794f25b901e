//! A memory of values that are found again: bounded in time, number and bytes.

use std::{
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lru::LruCache;
use tokio::time::Instant;

/// Values by what they were made from. What is asked for least recently is forgotten first. Clones share the memory.
pub(crate) struct Kept<K, V> {
    time_to_live: Duration,
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
    memory: Arc<Mutex<Memory<K, V>>>,
}

struct Memory<K, V> {
    values: LruCache<K, Entry<V>>,
    bytes: usize,
    /// How often all were forgotten.
    cleared: u64,
}

struct Entry<V> {
    value: Arc<V>,
    began: Instant,
    bytes: usize,
}

/// When the work began that a value comes of.
#[derive(Clone, Copy)]
pub(crate) struct Began {
    at: Instant,
    /// How often all had been forgotten by then.
    cleared: u64,
}

impl<K: Hash + Eq, V> Kept<K, V> {
    pub(crate) fn new(time_to_live: Duration, entries: usize, bytes: usize) -> Self {
        let memory = Mutex::new(Memory { values: LruCache::unbounded(), bytes: 0, cleared: 0 });
        Self { time_to_live, entries, bytes, memory: Arc::new(memory) }
    }

    /// Forgets all, also what comes of work that is under way.
    pub(crate) fn clear(&self) {
        self.with_memory(|memory| {
            memory.values.clear();
            memory.bytes = 0;
            memory.cleared += 1;
        });
    }

    /// To be asked before the work begins.
    pub(crate) fn begin(&self) -> Began {
        Began { at: Instant::now(), cleared: self.with_memory(|memory| memory.cleared) }
    }

    /// A value that is not too old, and its age.
    pub(crate) fn find(&self, key: &K) -> Option<(Arc<V>, Duration)> {
        self.with_memory(|memory| {
            let entry = memory.values.get(key)?;
            let age = entry.began.elapsed();
            if age < self.time_to_live {
                return Some((Arc::clone(&entry.value), age));
            }
            memory.forget(key);
            None
        })
    }

    /// Keeps a value of so many bytes, unless it is larger by itself than all may be.
    pub(crate) fn keep(&self, key: K, bytes: usize, began: Began, value: impl FnOnce() -> V) {
        if bytes > self.bytes {
            return;
        }
        let entry = Entry { value: Arc::new(value()), began: began.at, bytes };
        self.with_memory(|memory| {
            if memory.cleared != began.cleared {
                return;
            }
            // Of two at once the one that began later counts, whichever ends first.
            if memory.values.peek(&key).is_some_and(|other| other.began > began.at) {
                return;
            }
            memory.forget(&key);
            memory.values.put(key, entry);
            memory.bytes += bytes;
            while memory.values.len() > self.entries || memory.bytes > self.bytes {
                let Some((_, oldest)) = memory.values.pop_lru() else { break };
                memory.bytes -= oldest.bytes;
            }
        });
    }

    fn with_memory<T>(&self, act: impl FnOnce(&mut Memory<K, V>) -> T) -> T {
        act(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Hash + Eq, V> Memory<K, V> {
    fn forget(&mut self, key: &K) {
        if let Some(entry) = self.values.pop(key) {
            self.bytes -= entry.bytes;
        }
    }
}

impl<K, V> Clone for Kept<K, V> {
    fn clone(&self) -> Self {
        let Self { time_to_live, entries, bytes, memory } = self;
        Self { time_to_live: *time_to_live, entries: *entries, bytes: *bytes, memory: Arc::clone(memory) }
    }
}
