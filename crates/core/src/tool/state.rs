use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    future::Future,
    hash::{Hash, Hasher},
    sync::{Arc, Weak},
};

use futures::future::{BoxFuture, FutureExt as _};
use tokio::sync::OnceCell;

use crate::call::BoxError;

/// The values that the host program provides to its tools, at most one per type.
///
/// Host state is not saved with a run. The host program must provide the values again when it
/// resumes the run.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use haft_core::tool::HostState;
///
/// let state = HostState::new().with_value(Arc::new(vec!["an", "index"])).with_value(7_u32);
/// assert_eq!(state.get::<u32>(), Some(&7));
/// assert_eq!(state.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct HostState(Arc<HashMap<TypeId, StateEntry>>);

#[derive(Clone)]
enum StateEntry {
    /// A value added with [`HostState::with_value`], type-erased.
    Value(Arc<dyn Any + Send + Sync>),
    /// A [`LazyValue`] added with [`HostState::with_lazy_value`], type-erased.
    Lazy(Arc<dyn Any + Send + Sync>),
}

/// A value that is initialized on first use.
struct LazyValue<T> {
    cell: OnceCell<T>,
    init: Box<dyn Fn() -> BoxFuture<'static, Result<T, BoxError>> + Send + Sync>,
}

/// The type of a value in [`HostState`]. Tools declare the types that they use with
/// [`ToolDefinition::with_state_type`](super::ToolDefinition::with_state_type).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    /// Returns the `StateType` for the Rust type `T`.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }

    /// Returns the full path of the Rust type, for error messages.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl HostState {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `value`. An earlier value of the same type is replaced.
    #[must_use]
    pub fn with_value<T: Clone + Send + Sync + 'static>(self, value: T) -> Self {
        self.with_entry::<T>(StateEntry::Value(Arc::new(value)))
    }

    /// Adds a lazy value, for example a connection, which `init` creates on first use. An earlier
    /// value of the same type is replaced.
    ///
    /// The first tool call that needs the value initializes it. All clones of this state share the
    /// value. If the initialization fails, the tool call fails, and the next call tries again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use haft_core::{ToolContext, ToolExt, tool, tool::{HostState, RunContext}};
    /// use serde_json::json;
    ///
    /// struct Database;
    ///
    /// async fn connect() -> Result<Arc<Database>, std::io::Error> {
    ///     Ok(Arc::new(Database))
    /// }
    ///
    /// /// Counts the rows.
    /// #[tool]
    /// async fn count(#[tool(state)] _database: Arc<Database>) -> u32 {
    ///     42
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let state = HostState::new().with_lazy_value(connect);
    /// let run = RunContext { state, ..RunContext::default() };
    /// let cx = ToolContext::new(run.into(), "call_1");
    /// assert_eq!(Count.invoke_with(json!({}), &cx).await.into_result().model_text(), "42");
    /// # });
    /// ```
    #[must_use]
    pub fn with_lazy_value<T, E, F, Fut>(self, init: F) -> Self
    where
        T: Clone + Send + Sync + 'static,
        E: Into<BoxError>,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let init = Box::new(move || init().map(|value| value.map_err(Into::into)).boxed());
        self.with_entry::<T>(StateEntry::Lazy(Arc::new(LazyValue { cell: OnceCell::new(), init })))
    }

    fn with_entry<T: 'static>(mut self, entry: StateEntry) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), entry);
        self
    }

    /// Returns the value of type `T`. `None` if the state has no value of this type, or if the
    /// value is [lazy](Self::with_lazy_value) and not initialized yet.
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        match self.0.get(&TypeId::of::<T>())? {
            StateEntry::Value(value) => value.downcast_ref(),
            StateEntry::Lazy(lazy) => lazy.downcast_ref::<LazyValue<T>>()?.cell.get(),
        }
    }

    /// Returns the value of type `T`, and initializes it first if it is lazy. `None` if the state
    /// has no value of this type.
    pub(crate) async fn get_or_init<T: Clone + Send + Sync + 'static>(&self) -> Option<Result<&T, BoxError>> {
        match self.0.get(&TypeId::of::<T>())? {
            StateEntry::Value(value) => value.downcast_ref().map(Ok),
            StateEntry::Lazy(lazy) => {
                let LazyValue { cell, init } = lazy.downcast_ref::<LazyValue<T>>()?;
                Some(cell.get_or_try_init(init).await)
            }
        }
    }

    /// Returns `true` if the value of type `T` is lazy.
    pub(crate) fn is_lazy<T: 'static>(&self) -> bool {
        matches!(self.0.get(&TypeId::of::<T>()), Some(StateEntry::Lazy(_)))
    }

    /// Adds the values of `others` to this state. If both states have a value of the same type, the
    /// value in this state is kept.
    #[must_use]
    pub fn with_defaults(mut self, others: &Self) -> Self {
        if self.0.is_empty() {
            return others.clone();
        }
        let missing: Vec<_> = others.0.iter().filter(|(id, _)| !self.0.contains_key(*id)).collect();
        if !missing.is_empty() {
            Arc::make_mut(&mut self.0).extend(missing.into_iter().map(|(id, value)| (*id, value.clone())));
        }
        self
    }

    /// Returns a weak reference that identifies this state. All empty states have the same
    /// reference.
    pub(crate) fn downgrade(&self) -> Weak<dyn Any + Send + Sync> {
        if self.0.is_empty() { Weak::<()>::new() } else { Arc::<HashMap<_, _>>::downgrade(&self.0) }
    }

    /// Returns the identity of the values whose types are in `types`, for use in a cache key.
    pub fn identity(&self, types: &[StateType]) -> StateIdentity {
        let identity = |required: &StateType| match self.0.get(&required.id)? {
            StateEntry::Value(value) | StateEntry::Lazy(value) => Some(Arc::downgrade(value)),
        };
        StateIdentity(types.iter().map(identity).collect())
    }

    /// Returns `true` if the state has no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the types in `types` that have no value in this state.
    pub fn missing_types<'a>(&self, types: &'a [StateType]) -> impl Iterator<Item = &'a StateType> {
        types.iter().filter(|required| !self.0.contains_key(&required.id))
    }
}

/// The identity of some values in a [`HostState`], created by [`HostState::identity`].
///
/// Two identities are equal if they refer to the same allocations. An identity does not keep the
/// values alive, but their addresses are not reused while the identity exists.
#[derive(Clone, Debug)]
pub struct StateIdentity(Vec<Option<Weak<dyn Any + Send + Sync>>>);

impl StateIdentity {
    fn addresses(&self) -> impl Iterator<Item = Option<*const ()>> {
        self.0.iter().map(|value| value.as_ref().map(|value| Weak::as_ptr(value).cast()))
    }
}

impl PartialEq for StateIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.addresses().eq(other.addresses())
    }
}

impl Eq for StateIdentity {}

impl Hash for StateIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.addresses().for_each(|address| address.hash(state));
    }
}

impl fmt::Debug for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostState({} values)", self.0.len())
    }
}
