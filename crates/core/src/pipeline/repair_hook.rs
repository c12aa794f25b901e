use std::{borrow::Cow, panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    CallDetails, Pipeline, arguments,
    deadline::{self, WaitError},
    find,
};
use crate::{
    call::{ResumedCall, ToolCall, ToolError},
    limits,
    panic_log::log_panic_text,
    pipeline::ToolList,
    schema::Repair,
    tool::{ToolContext, ToolDefinition},
};

/// A hook of the host program that repairs the arguments of a call, for example by a request to a
/// model.
///
/// The pipeline calls the hook if the arguments are malformed or violate the input schema, and its
/// own [repairs](crate::schema::RepairPolicy) do not make them valid. The returned arguments are
/// validated again. If they are valid, the call runs with them, and the result lists a
/// [`RepairKind::Replaced`](crate::schema::RepairKind::Replaced). In all other cases, the call
/// fails with the original error: if the hook returns `None` or invalid arguments, panics, or takes
/// longer than [`limits::HOOK_TIMEOUT`] or the timeout of the call. All hooks share one time limit,
/// measured from the start of the call.
///
/// Arguments of more than [`limits::ARGUMENT_BYTES`], and calls to unknown tools, are not repaired.
/// If a repaired call is suspended, it resumes with the same arguments, and the hook is not called
/// again.
///
/// # Examples
///
/// ```
/// use haft_core::{Pipeline, ToolCall, Toolset, export::async_trait, tool};
/// use haft_core::pipeline::{InvalidCall, RepairHook};
/// use serde_json::{Value, json};
///
/// #[tool]
/// fn double(n: i64) -> i64 {
///     2 * n
/// }
///
/// /// Reads number words.
/// struct NumberWords;
///
/// #[async_trait]
/// impl RepairHook for NumberWords {
///     async fn repair(&self, call: &InvalidCall<'_>) -> Option<Value> {
///         call.call.arguments.contains("twenty-one").then(|| json!({"n": 21}))
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let pipeline = Pipeline::new().with_repair_hook(NumberWords);
/// let tools = Toolset::new().with_tool(Double).with_pipeline(pipeline);
/// let result = tools.run(&ToolCall::new("call_1", "double", r#"{"n": "twenty-one"}"#)).await;
/// assert_eq!(result.model_text(), "42");
/// assert_eq!(result.repairs[0].to_string(), "/: the host program replaced the arguments");
/// # });
/// ```
#[async_trait]
pub trait RepairHook: Send + Sync {
    /// Returns valid arguments for `call`, or `None` if the hook cannot repair them.
    async fn repair(&self, call: &InvalidCall<'_>) -> Option<Value>;
}

#[async_trait]
impl<H: RepairHook + ?Sized> RepairHook for Arc<H> {
    async fn repair(&self, call: &InvalidCall<'_>) -> Option<Value> {
        (**self).repair(call).await
    }
}

/// A call with malformed or invalid arguments, as passed to a [`RepairHook`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InvalidCall<'a> {
    /// The call with its arguments as received.
    pub call: &'a ToolCall,
    /// The definition of the tool, with the input schema.
    pub definition: &'a ToolDefinition,
    /// The error that describes the problems of the arguments.
    pub error: &'a ToolError,
    /// The context of the call.
    pub context: &'a ToolContext,
}

impl Pipeline {
    /// Returns the arguments of `call` after repair and validation, and the repairs, without
    /// running the call. Unlike [`parse_arguments`](Self::parse_arguments), also calls the [repair
    /// hooks](RepairHook).
    ///
    /// Use it if a check must read the arguments before the call runs. Set
    /// [`BatchCall::is_repaired`](super::BatchCall::is_repaired) for such a call, so that no hook
    /// changes the arguments after the check.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Pipeline, ToolCall, ToolContext, tool, toolset::ToolList};
    /// use serde_json::json;
    ///
    /// #[tool]
    /// fn double(n: i64) -> i64 {
    ///     2 * n
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let tools = ToolList::new("math", [Double]);
    /// let call = ToolCall::new("call_1", "double", r#"{"n": "21"}"#);
    /// let cx = ToolContext::default();
    /// let (arguments, repairs) = Pipeline::new().repair_arguments(&tools, &call, &cx).await?;
    /// assert_eq!((arguments, repairs.len()), (json!({"n": 21}), 1));
    /// # Ok::<(), haft_core::ToolError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with the error that [`call`](Self::call) would report for an unknown tool or invalid
    /// arguments.
    pub async fn repair_arguments(
        &self,
        tools: &ToolList,
        call: &ToolCall,
        cx: &ToolContext,
    ) -> Result<(Value, Vec<Repair>), ToolError> {
        let (tool, own) = find::find_tool(tools, &call.name)?;
        let (definition, pipeline) = (super::definition_or_panic_error(&**tool)?, self.for_tool(own));
        let mut details = CallDetails::default();
        let arguments = match pipeline.parse_call(definition, call, &mut details) {
            Err(error) if pipeline.can_replace_arguments(call, cx, &details) => {
                pipeline.replace_arguments(call, definition, error, cx, Instant::now(), &mut details).await?
            }
            parsed => parsed?.into_owned(),
        };
        Ok((arguments, details.repairs))
    }

    /// Parses and validates the arguments of a call. If they are invalid, repairs them as far as
    /// the policy of the pipeline allows.
    pub(super) fn parse_call<'a>(
        &self,
        definition: &ToolDefinition,
        call: &'a ToolCall,
        details: &mut CallDetails<'_>,
    ) -> Result<Cow<'a, Value>, ToolError> {
        let arguments = arguments::parse(&call.arguments, self.0.repair, details)?;
        arguments::repair_and_validate(definition, arguments, self.0.repair, details)
    }

    /// Returns `true` if a repair hook, or an earlier repair of a resumed call, may replace the
    /// arguments of a call.
    pub(super) fn can_replace_arguments(
        &self,
        call: &ToolCall,
        cx: &ToolContext,
        details: &CallDetails<'_>,
    ) -> bool {
        let has_source = self.runs_repair_hooks(details) || cx.resumed().is_some();
        has_source && call.arguments.len() <= details.max_argument_bytes
    }

    fn runs_repair_hooks(&self, details: &CallDetails<'_>) -> bool {
        !self.0.repair_hooks.is_empty() && !details.is_repaired
    }

    /// Returns the arguments of an invalid call as repaired by a hook, or as repaired before the
    /// call was suspended. The time limit of all hooks is measured from `started`, the start of the
    /// call.
    ///
    /// Fails with `error`, the error of the call, if no hook returns valid arguments in time, and
    /// with [`ToolError::Cancelled`] if the run is cancelled.
    pub(super) async fn replace_arguments(
        &self,
        call: &ToolCall,
        definition: &ToolDefinition,
        error: ToolError,
        cx: &ToolContext,
        started: Instant,
        details: &mut CallDetails<'_>,
    ) -> Result<Value, ToolError> {
        let invalid = InvalidCall { call, definition, error: &error, context: cx };
        let has_hooks = self.runs_repair_hooks(details);
        let replaced = self.try_repair_hooks(invalid, started, has_hooks).await?.ok_or(error)?;
        details.repairs = vec![Repair::replaced()];
        Ok(replaced)
    }

    /// Returns `None` if no hook returns valid arguments in time. If `has_hooks` is `false`, no
    /// hook is called.
    async fn try_repair_hooks(
        &self,
        invalid: InvalidCall<'_>,
        started: Instant,
        has_hooks: bool,
    ) -> Result<Option<Value>, ToolError> {
        let InvalidCall { definition, context: cx, .. } = invalid;
        let earlier = cx.resumed().map(ResumedCall::pending).and_then(|pending| pending.repaired.clone());
        if let Some(earlier) = earlier.filter(|earlier| definition.input_schema().is_valid(earlier)) {
            return Ok(Some(earlier));
        }
        let time = limits::HOOK_TIMEOUT.min(self.timeout_of(definition));
        let deadline = started.checked_add(time).into_iter().chain(cx.deadline()).min();
        for hook in self.0.repair_hooks.iter().filter(|_| has_hooks) {
            let repair = async {
                let repair = AssertUnwindSafe(async { hook.repair(&invalid).await }).catch_unwind().await;
                repair.unwrap_or_else(|panic| {
                    tracing::error!(call = invalid.call.id, "a repair hook panicked");
                    log_panic_text(&*panic);
                    None
                })
            };
            let cancellation = &cx.run_context().cancellation;
            let repaired = deadline::timeout_at(deadline, cancellation, repair).await;
            let repaired = match repaired {
                _ if cancellation.is_cancelled() => return Err(ToolError::Cancelled),
                Ok(Some(repaired)) => repaired,
                Ok(None) | Err(WaitError::NoTimer) => continue,
                Err(WaitError::Elapsed | WaitError::Cancelled) => break,
            };
            let mut own_repairs = CallDetails::default();
            let repaired = arguments::repair_and_validate(
                definition,
                Cow::Owned(repaired),
                self.0.repair,
                &mut own_repairs,
            );
            if let Ok(repaired) = repaired {
                return Ok(Some(repaired.into_owned()));
            }
        }
        Ok(None)
    }
}

/// The hooks of a pipeline.
pub(super) type RepairHooks = Vec<Arc<dyn RepairHook>>;
