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

/// Values of the host program for its tools: at most one of each type.
///
/// State is not saved: a resumed run gets it again.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use haft_core::tool::State;
///
/// let state = State::new().with(Arc::new(vec!["an", "index"])).with(7_u32);
/// assert_eq!(state.get::<u32>(), Some(&7));
/// assert_eq!(state.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct State(Arc<HashMap<TypeId, Value>>);

#[derive(Clone)]
enum Value {
    /// A value of the type.
    Given(Arc<dyn Any + Send + Sync>),
    /// A [`Making`] of the type.
    Made(Arc<dyn Any + Send + Sync>),
}

/// A value that is made when it is needed.
struct Making<T> {
    made: OnceCell<T>,
    make: Box<dyn Fn() -> BoxFuture<'static, Result<T, BoxError>> + Send + Sync>,
}

/// A type that a tool asks its [`State`] for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    /// Names the type `T`.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }

    /// The type's path, for messages.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl State {
    /// Makes a state without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; one of the same type is replaced.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(self, value: T) -> Self {
        self.with_value::<T>(Value::Given(Arc::new(value)))
    }

    /// Adds a value that is made when a tool first needs it, such as a connection; one of the same type is replaced.
    ///
    /// It is made once for this state and its clones. When that fails, the call that needed it fails, and the next tries
    /// again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use haft_core::{tool, tool::{RunContext, State}, ToolContext, ToolExt};
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
    /// let state = State::new().with_init(connect);
    /// let run = RunContext { state, ..RunContext::default() };
    /// let cx = ToolContext::new(run.into(), "call_1");
    /// assert_eq!(Count.invoke_with(json!({}), &cx).await.into_result().model_text(), "42");
    /// # });
    /// ```
    #[must_use]
    pub fn with_init<T, E, F, Fut>(self, make: F) -> Self
    where
        T: Clone + Send + Sync + 'static,
        E: Into<BoxError>,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let make = Box::new(move || make().map(|made| made.map_err(Into::into)).boxed());
        self.with_value::<T>(Value::Made(Arc::new(Making { made: OnceCell::new(), make })))
    }

    fn with_value<T: 'static>(mut self, value: Value) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), value);
        self
    }

    /// The value of a type. One that is [made](Self::with_init) when it is needed is not there before.
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        match self.0.get(&TypeId::of::<T>())? {
            Value::Given(value) => value.downcast_ref(),
            Value::Made(making) => making.downcast_ref::<Making<T>>()?.made.get(),
        }
    }

    /// The value of a type, which is made if need be.
    pub(crate) async fn ready<T: Clone + Send + Sync + 'static>(&self) -> Option<Result<&T, BoxError>> {
        match self.0.get(&TypeId::of::<T>())? {
            Value::Given(value) => value.downcast_ref().map(Ok),
            Value::Made(making) => {
                let Making { made, make } = making.downcast_ref::<Making<T>>()?;
                Some(made.get_or_try_init(make).await)
            }
        }
    }

    /// Whether there is a way to make a value of this type.
    pub(crate) fn can_make<T: 'static>(&self) -> bool {
        matches!(self.0.get(&TypeId::of::<T>()), Some(Value::Made(_)))
    }

    /// These values, and those of `others` whose types have none here.
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

    /// Whether it is the same values, not only equal ones.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }

    /// What tells the values of these types from equal ones, and keeps none of them alive.
    /// The identity of the values of these types, for cache keys.
    pub fn identity(&self, types: &[StateType]) -> StateIdentity {
        let identity = |wanted: &StateType| match self.0.get(&wanted.id)? {
            Value::Given(value) | Value::Made(value) => Some(Arc::downgrade(value)),
        };
        StateIdentity(types.iter().map(identity).collect())
    }

    /// Returns `true` if the host provides no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of `types` that have no value here.
    pub fn missing<'a>(&self, types: &'a [StateType]) -> impl Iterator<Item = &'a StateType> {
        types.iter().filter(|wanted| !self.0.contains_key(&wanted.id))
    }
}

/// Which values a [`State`] holds of some types. As long as it lives, no other values have it.
#[derive(Clone, Debug)]
pub struct StateIdentity(Vec<Option<Weak<dyn Any + Send + Sync>>>);

impl StateIdentity {
    fn places(&self) -> impl Iterator<Item = Option<*const ()>> {
        self.0.iter().map(|value| value.as_ref().map(|value| Weak::as_ptr(value).cast()))
    }
}

impl PartialEq for StateIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.places().eq(other.places())
    }
}

impl Eq for StateIdentity {}

impl Hash for StateIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.places().for_each(|place| place.hash(state));
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({} values)", self.0.len())
    }
}
