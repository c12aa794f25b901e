//! Memoization of data computed from an immutable value, such as its encoding for a provider.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

/// The maximum number of types with a stored value. For any further type, each call computes the
/// value again.
const MAX_TYPES: usize = 8;

/// A cache of data computed from an immutable value, with at most one entry per Rust type.
///
/// A model adapter stores its encoding of a tool list, a message or a schema in a memo. An
/// unchanged value is then encoded once, and not for each model request. Each computed type has its
/// own entry, so adapters do not evict the entries of other adapters. The first eight types are
/// stored; values of further types are computed at each call.
///
/// A memo is a field of the immutable value. It does not affect comparisons of this value, because
/// all memos are equal. It is never serialized.
///
/// # Examples
///
/// ```
/// use haft_schema::memo::TypeMemo;
///
/// let memo = TypeMemo::default();
/// let length = memo.get_or_insert_with(|| "tools".len());
/// assert_eq!(*length, 5);
/// assert_eq!(*memo.get_or_insert_with(|| -> usize { unreachable!() }), 5);
/// ```
#[derive(Clone, Default)]
pub struct TypeMemo(OnceLock<Arc<Entry>>);

struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    next: TypeMemo,
}

impl TypeMemo {
    /// Returns the stored value of type `T`, or computes it with `compute` and stores it.
    ///
    /// Concurrent first calls may each compute the value. Later calls return the value that was
    /// stored first.
    pub fn get_or_insert_with<T: Send + Sync + 'static>(&self, compute: impl FnOnce() -> T) -> Arc<T> {
        let mut slot = self;
        for _ in 0..MAX_TYPES {
            let Some(entry) = slot.0.get() else {
                let value = Arc::new(compute());
                let entry = Entry { value: value.clone(), next: Self::default() };
                // `set` fails if another thread stored its entry first. The only cost is one
                // superfluous computation.
                let _ = slot.0.set(Arc::new(entry));
                return value;
            };
            if let Ok(value) = Arc::clone(&entry.value).downcast::<T>() {
                return value;
            }
            slot = &entry.next;
        }
        Arc::new(compute())
    }
}

impl fmt::Debug for TypeMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "computed" } else { "empty" })
    }
}

/// Two memos are always equal, because their values can be computed again.
impl PartialEq for TypeMemo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TypeMemo {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_own_entry() {
        let memo = TypeMemo::default();
        memo.get_or_insert_with(|| 1_u8);
        memo.get_or_insert_with(|| "text".to_owned());
        assert_eq!(*memo.get_or_insert_with(|| 2_u8), 1);
        assert_eq!(*memo.get_or_insert_with(|| "other".to_owned()), "text");
    }

    #[test]
    fn types_beyond_the_bound_are_computed_each_time() {
        let memo = TypeMemo::default();
        memo.get_or_insert_with(|| [0_u8; 0]);
        memo.get_or_insert_with(|| [0_u8; 1]);
        memo.get_or_insert_with(|| [0_u8; 2]);
        memo.get_or_insert_with(|| [0_u8; 3]);
        memo.get_or_insert_with(|| [0_u8; 4]);
        memo.get_or_insert_with(|| [0_u8; 5]);
        memo.get_or_insert_with(|| [0_u8; 6]);
        memo.get_or_insert_with(|| [0_u8; 7]);
        assert_eq!(*memo.get_or_insert_with(|| 1_u8), 1);
        assert_eq!(*memo.get_or_insert_with(|| 2_u8), 2);
        assert_eq!(*memo.get_or_insert_with(|| [9_u8; 7]), [0; 7]);
    }
}
