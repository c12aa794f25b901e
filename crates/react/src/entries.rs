//! Entries: JSON values that extensions save with a run.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The saved entries of all extensions in a run. The outer key is the name of the extension, the
/// inner key is the name of the entry.
pub type SavedEntries = BTreeMap<String, Map<String, Value>>;

/// A handle for the entries of one [`Extension`](crate::Extension): named JSON values, saved with
/// the run. Cheap to clone; clones share the entries.
///
/// A hook finds the entries of its extension in
/// [`HookContext::entries`](crate::hook::HookContext::entries). A tool takes `Entries` as state and
/// selects an extension with [`for_extension`](Self::for_extension). Changes are saved after each
/// call result and with the next effect. All entries are saved with each step, so keep them small.
///
/// # Examples
///
/// ```
/// use haft_react::entries::Entries;
///
/// let entries = Entries::default().for_extension("budget");
/// entries.set("spent", &3)?;
/// entries.update("spent", |spent: &mut u32| *spent += 2)?;
/// assert_eq!(entries.get("spent")?, Some(5));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Entries {
    extension: Arc<str>,
    shared: Arc<SharedEntries>,
}

#[derive(Default)]
struct SharedEntries {
    /// Locked during each change, so that only one change is made at a time. A driver never waits
    /// for this lock.
    change_lock: Mutex<()>,
    data: Mutex<EntryData>,
}

#[derive(Default)]
struct EntryData {
    saved: SavedEntries,
    is_changed: bool,
}

impl Entries {
    /// Creates a handle from the [saved entries](crate::Run::entries) of a run.
    pub(crate) fn new(saved: SavedEntries) -> Self {
        let data = Mutex::new(EntryData { saved, is_changed: false });
        Self { shared: Arc::new(SharedEntries { data, ..SharedEntries::default() }), ..Self::default() }
    }

    /// Returns a handle for the entries of the extension named `extension`.
    #[must_use]
    pub fn for_extension(&self, extension: &str) -> Self {
        Self { extension: extension.into(), shared: Arc::clone(&self.shared) }
    }

    /// Returns the value of the entry `name`, or `None` if the entry is not set.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be deserialized as a `T`.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> serde_json::Result<Option<T>> {
        self.value(name).map(serde_json::from_value).transpose()
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.data().saved.get(&*self.extension)?.get(name).cloned()
    }

    /// Sets the value of the entry `name`.
    ///
    /// # Errors
    ///
    /// Fails if `value` cannot be serialized as JSON.
    pub fn set<T: Serialize>(&self, name: &str, value: &T) -> serde_json::Result<()> {
        let value = serde_json::to_value(value)?;
        let _change = lock(&self.shared.change_lock);
        self.data().set(&self.extension, name, value);
        Ok(())
    }

    /// Calls `change` with the value of the entry `name`, stores the changed value, and returns the
    /// result of `change`. If the entry is not set, `change` receives the default value of `T`.
    ///
    /// The update is atomic: parallel updates do not overwrite each other. If `change` panics, the
    /// entry keeps its value. `change` can read entries. It must not set, update or remove an
    /// entry, because a nested change deadlocks.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be deserialized as a `T`, or if the new value cannot be
    /// serialized.
    pub fn update<T, R>(&self, name: &str, change: impl FnOnce(&mut T) -> R) -> serde_json::Result<R>
    where
        T: Default + Serialize + DeserializeOwned,
    {
        let _change = lock(&self.shared.change_lock);
        let mut value = self.get::<T>(name)?.unwrap_or_default();
        let output = change(&mut value);
        let value = serde_json::to_value(value)?;
        self.data().set(&self.extension, name, value);
        Ok(output)
    }

    /// Removes the entry `name`. Returns `true` if the entry was set.
    pub fn remove(&self, name: &str) -> bool {
        let _change = lock(&self.shared.change_lock);
        let mut shared = self.data();
        let Some(entries) = shared.saved.get_mut(&*self.extension) else { return false };
        let is_removed = entries.remove(name).is_some();
        if entries.is_empty() {
            shared.saved.remove(&*self.extension);
        }
        shared.is_changed |= is_removed;
        is_removed
    }

    /// Returns the entries of all extensions, or `None` if no entry was changed since the previous
    /// call to this method.
    pub(crate) fn take_if_changed(&self) -> Option<SavedEntries> {
        let mut shared = self.data();
        std::mem::take(&mut shared.is_changed).then(|| shared.saved.clone())
    }

    fn data(&self) -> MutexGuard<'_, EntryData> {
        lock(&self.shared.data)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EntryData {
    fn set(&mut self, extension: &str, name: &str, value: Value) {
        self.saved.entry(extension.to_owned()).or_default().insert(name.to_owned(), value);
        self.is_changed = true;
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("extension", &self.extension).finish_non_exhaustive()
    }
}
