//! The settings of a hand-off: its tool, its typed argument and its hooks.

use std::{fmt, future::Future, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use haft_core::{Schema, ToolError, call::BoxError, export::schemars::JsonSchema, schema::SchemaError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{agent::HandoffCondition, hook::HookContext};

type InputCheck = Arc<dyn Fn(&Value) -> Result<(), ToolError> + Send + Sync>;
type HandoffHook =
    Arc<dyn Fn(Value, HandoffContext) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// The settings of a hand-off from one agent to another: the name and description of its tool, a
/// typed argument, a hook and a condition.
///
/// [`HandoffGroup::configured`](crate::HandoffGroup::configured) takes the settings of each
/// hand-off. By default, the tool `transfer_to_NAME` has the optional argument `reason`.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, export::schemars::{self, JsonSchema}};
/// use haft_react::{HandoffGroup, ReactAgent, handoff::Handoff, router::{Route, RouteTable}};
/// use haft_testing::ScriptedModel;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Order {
///     dish: String,
///     table: u8,
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new().reply_calls([("1", "order", r#"{"dish":"soup","table":7}"#)]);
/// let waiter = ReactAgent::new(model, Toolset::new())?;
/// let kitchen = ReactAgent::new(ScriptedModel::new().reply_text("One soup, coming."), Toolset::new())?;
/// let table = RouteTable::new([Route::new("waiter", "Serves."), Route::new("kitchen", "Cooks.")]);
/// let group = HandoffGroup::configured(table, [("waiter", waiter), ("kitchen", kitchen)], |_from, to| {
///     (to == "kitchen").then(|| {
///         Handoff::new()
///             .tool_name("order")
///             .description("Orders a dish.")
///             .on_handoff_with(|order: Order, cx| async move {
///                 println!("{} orders {} for table {}", cx.from, order.dish, order.table);
///                 Ok(())
///             })
///     })
/// })?;
/// assert_eq!(group.run("A soup, please.").await?.text()?, "One soup, coming.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Handoff {
    tool_name: Option<String>,
    description: Option<String>,
    input: Option<Result<HandoffInput, SchemaError>>,
    hook: Option<HandoffHook>,
    condition: Option<HandoffCondition>,
}

/// The typed argument of a hand-off.
#[derive(Clone)]
pub(super) struct HandoffInput {
    pub(super) schema: Schema,
    /// Checks that the arguments can be deserialized.
    pub(super) check: InputCheck,
}

/// The context of a hook that runs before a hand-off.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HandoffContext {
    /// The run, its state, its usage and its transcript. Its `entries` are those of the extension
    /// named `""`.
    pub context: HookContext,
    /// The name of the agent that hands off.
    pub from: String,
    /// The name of the next agent.
    pub to: String,
}

impl Handoff {
    /// Creates the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the tool. Characters that a [`ToolName`](haft_core::ToolName) cannot
    /// contain are replaced. The name must differ from the names of the agent's other tools.
    /// Default: `transfer_to_NAME`.
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        self.tool_name = Some(name.into());
        self
    }

    /// Sets the description of the tool. The default contains the description of the route.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the type of the arguments of the tool. The schema of `T` must describe an object, and
    /// replaces the argument `reason`.
    ///
    /// The arguments are repaired and validated like those of any call: a model that calls the tool
    /// with invalid arguments receives the error, and no hand-off takes place. The message that
    /// announces the hand-off to the next agent contains the arguments.
    pub fn input<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        let check: InputCheck = Arc::new(|arguments| match T::deserialize(arguments) {
            Ok(_) => Ok(()),
            Err(error) => Err(ToolError::Retry(format!("invalid arguments: {error}"))),
        });
        let schema = Schema::from_type::<T>().and_then(Schema::into_arguments);
        self.input = Some(schema.map(|schema| HandoffInput { schema, check }));
        self
    }

    /// Sets the hook that runs before the next agent takes over, for example to load its data.
    /// Replaces an earlier hook.
    ///
    /// The hook runs after all calls of the reply, and again after a crash during it. It runs on
    /// its own tokio task, with the [hook timeout](crate::ReactAgentBuilder::hook_timeout) of the
    /// agent that hands off. A cancellation of the run aborts it.
    ///
    /// An error, a panic or a timeout ends the run with
    /// [`AgentErrorKind::HookFailed`](haft_core::agent::AgentErrorKind::HookFailed), and no
    /// hand-off is recorded. The error contains the transcript with the results of all calls, so a
    /// later run can continue the conversation with the same agent.
    pub fn on_handoff<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(HandoffContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.hook = Some(Arc::new(move |_, cx| hook(cx).boxed()));
        self
    }

    /// Sets the type of the arguments, like [`input`](Self::input), and the hook that receives
    /// them, like [`on_handoff`](Self::on_handoff).
    pub fn on_handoff_with<T, F, Fut>(self, hook: F) -> Self
    where
        T: JsonSchema + DeserializeOwned,
        F: Fn(T, HandoffContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let hook: HandoffHook = Arc::new(move |arguments, cx| match serde_json::from_value(arguments) {
            Ok(value) => hook(value, cx).boxed(),
            Err(error) => async { Err(error.into()) }.boxed(),
        });
        Self { hook: Some(hook), ..self.input::<T>() }
    }

    /// Offers the hand-off only in steps for which `condition` returns `true`. In other steps, a
    /// call to the tool fails like a call to an unknown tool.
    ///
    /// The condition runs before each model request, and once before the open calls of a resumed
    /// run. An error, a panic or a [timeout](crate::ReactAgentBuilder::hook_timeout) ends the run
    /// with [`AgentErrorKind::HookFailed`](haft_core::agent::AgentErrorKind::HookFailed).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_react::handoff::Handoff;
    ///
    /// let only_for_staff = Handoff::new()
    ///     .enabled_if(|cx| async move { Ok(cx.run.principal.as_ref().is_some_and(|it| it.scopes.contains("staff"))) });
    /// ```
    pub fn enabled_if<F, Fut>(mut self, condition: F) -> Self
    where
        F: Fn(HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<bool, BoxError>> + Send + 'static,
    {
        self.condition = Some(Arc::new(move |cx| condition(cx).boxed()));
        self
    }

    pub(super) fn custom_tool_name(&self) -> Option<&str> {
        self.tool_name.as_deref()
    }

    pub(super) fn custom_description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the typed argument. Fails if its type has no usable schema.
    pub(super) fn typed_input(&self) -> Result<Option<HandoffInput>, SchemaError> {
        self.input.clone().transpose()
    }

    pub(super) fn hook(&self) -> Option<&HandoffHook> {
        self.hook.as_ref()
    }

    pub(super) fn condition(&self) -> Option<&HandoffCondition> {
        self.condition.as_ref()
    }
}

impl fmt::Debug for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff")
            .field("tool_name", &self.tool_name)
            .field("is_typed", &self.input.is_some())
            .field("has_hook", &self.hook.is_some())
            .field("has_condition", &self.condition.is_some())
            .finish_non_exhaustive()
    }
}
