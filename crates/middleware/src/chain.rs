//! Chains: several tools combined into a single tool.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use haft_core::{
    Pipeline, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput,
    call::{
        Decision, Decisions, Failure, FailureKind, Outcome, Pending, PendingCall, PendingKind, ResumedCall,
        ToolResponse,
    },
    limits,
    pipeline::CallOutcome,
    tool::{Annotations, IntoTools, InvalidToolName, ToolPolicy},
};

/// Combines `tools` into one tool named `name`. It calls the tools in order, and the result of each
/// tool becomes the arguments of the next tool.
///
/// The chain has the input schema of the first tool and the output schema of the last tool. Its
/// description consists of the descriptions of all tools, separated by `Then:`. To change the name
/// or the description, use [`with_definition`](haft_core::ToolExt::with_definition).
///
/// # Arguments
///
/// A result that is valid for the input schema of the next tool becomes the arguments of that tool.
/// Any other result becomes the value of the only required argument, or of the only argument if
/// none is required. If neither form is valid, a text result is parsed as JSON, and the parsed
/// value is used if it is valid. A tool without parameters is called without arguments. Results are
/// passed on without truncation.
///
/// # Calls
///
/// Each inner call runs through the [`Pipeline`], which validates its arguments and records it
/// under an id such as `call_1/2`. If a tool requires an approval, the approval shows the arguments
/// of the inner call. If an inner call is suspended, the chain is suspended too, and later resumes
/// at that call. The first failure ends the chain. The error message names the failed tool and
/// lists the tools that ran before it.
///
/// # Policy
///
/// The chain is [sequential](ToolPolicy::sequential) if any of its tools is sequential or has
/// [`touches`](ToolPolicy::touches). It is idempotent if all its tools are idempotent. It requires
/// the scopes of all its tools, and its timeout is the sum of their timeouts.
///
/// # Examples
///
/// ```
/// use haft_core::{Json, tool, Toolset};
/// use serde_json::json;
/// use haft_middleware::chain;
///
/// /// Finds the id of a user.
/// #[tool]
/// fn find_user(name: String) -> Json<u32> {
///     Json(name.len() as u32)
/// }
///
/// /// Lists the orders of a user.
/// #[tool]
/// fn list_orders(user: u32) -> String {
///     format!("the orders of {user}")
/// }
///
/// let orders = chain("orders_of", (FindUser, ListOrders))?;
/// let tools = Toolset::new().with_tool(orders);
/// assert_eq!(tools.call_blocking("orders_of", json!({"name": "Ann"})).model_text(), "the orders of 3");
///
/// /// Returns the current time.
/// #[tool]
/// fn now() -> Json<String> {
///     Json("12:00".to_owned())
/// }
///
/// let error = chain("orders_now", (Now, ListOrders)).err().map(|error| error.to_string());
/// assert_eq!(
///     error.as_deref(),
///     Some(
///         "the output of \"now\" does not fit \"list_orders\": \
///          /user: expected integer, produced string"
///     )
/// );
/// # Ok::<(), haft_middleware::ChainError>(())
/// ```
///
/// # Errors
///
/// Fails if `tools` is empty, if `name` is invalid, if a tool has a
/// [defect](ToolDefinition::defect), or if no output of a tool can ever be valid for the input
/// schema of the next tool.
///
/// Other mismatches are found only when the chain is called. For example, the next tool may require
/// a member that the output schema does not declare. The output can still contain this member,
/// unless the schema has `additionalProperties: false` or is derived from a Rust type.
pub fn chain(name: &str, tools: impl IntoTools) -> Result<Chain, ChainError> {
    let name = ToolName::new(name)?;
    let tools = tools.into_tools();
    for tool in &tools {
        if let Some(reason) = tool.definition().defect() {
            let tool = tool.definition().name().clone();
            return Err(ChainError::Defect { tool, reason: reason.to_owned() });
        }
    }
    for pair in tools.windows(2) {
        if let [before, after] = pair {
            check_schemas(before.definition(), after.definition())?;
        }
    }
    let definitions: Vec<_> = tools.iter().map(Tool::definition).collect();
    let definition = combine_definitions(name, &definitions)?;
    Ok(Chain { definition, tools: tools.into() })
}

/// Several tools combined into one tool, created by [`chain`].
#[derive(Clone)]
pub struct Chain {
    definition: ToolDefinition,
    tools: Arc<[Arc<dyn Tool>]>,
}

/// The error returned by [`chain`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// The list of tools is empty.
    #[error("a chain needs at least one tool")]
    Empty,
    /// The name of the chain is invalid.
    #[error(transparent)]
    InvalidName(#[from] InvalidToolName),
    /// A tool cannot be used because its definition has a [defect](ToolDefinition::defect).
    #[error("tool \"{tool}\" cannot be used: {reason}")]
    Defect {
        /// The name of the unusable tool.
        tool: ToolName,
        /// A description of the defect.
        reason: String,
    },
    /// The output of a tool can never be valid as the arguments of the next tool.
    #[error("the output of \"{tool}\" does not fit \"{next}\": {pointer}: {reason}")]
    IncompatibleSchemas {
        /// The name of the tool that produces the output.
        tool: ToolName,
        /// The name of the tool that receives the output as its arguments.
        next: ToolName,
        /// The JSON pointer to the mismatch in the arguments of `next`, or `/` for the arguments as
        /// a whole.
        pointer: String,
        /// A description of the mismatch, such as `expected integer, produced string`.
        reason: String,
    },
}

/// The progress of a chain. It is saved with the run while the chain is suspended.
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    /// The index of the tool to call next. In a suspended chain, this is the suspended tool.
    step: usize,
    arguments: Value,
    /// The warnings of the finished inner calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[async_trait]
impl Tool for Chain {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        if let Some(pending) = pending_without_decision(cx) {
            return Ok(ToolResponse::Pending(pending.clone()));
        }
        let (mut checkpoint, mut resumed) = self.starting_point(arguments, cx)?;
        // A pipeline without a result store does not truncate the results passed between the tools.
        let pipeline = Pipeline::current(cx).map_or_else(Pipeline::unbounded, |it| it.without_store());
        while let Some(tool) = self.tools.get(checkpoint.step) {
            let mut inner = cx.for_nested_call(checkpoint.step + 1);
            if let Some(resumed) = resumed.take() {
                inner = inner.with_resumed(resumed);
            }
            let result = match pipeline.call_tool(&**tool, checkpoint.arguments.clone(), &inner).await {
                CallOutcome::Finished(result) => result,
                CallOutcome::Pending(call) => return suspend(call, &checkpoint),
            };
            checkpoint.warnings.extend(result.warnings);
            let output = match result.outcome {
                Outcome::Done(output) => output,
                Outcome::Failed(failure) => return Err(self.to_tool_error(checkpoint.step, failure)),
            };
            checkpoint.step += 1;
            match self.tools.get(checkpoint.step) {
                Some(next) => {
                    checkpoint.arguments = next_arguments(&output, next.definition().input_schema());
                }
                None => {
                    return Ok(ToolResponse::Done(ToolOutput { warnings: checkpoint.warnings, ..output }));
                }
            }
        }
        Err(ToolError::failed("a chain needs at least one tool"))
    }
}

/// Returns the pending state of the chain if the chain was resumed without a decision for its
/// suspended inner call. The chain then stays suspended. Returns `None` if the chain can run.
fn pending_without_decision(cx: &ToolContext) -> Option<&Pending> {
    let (pending, Some(Decision::Nested { decisions })) = (cx.resumed()?.pending(), cx.decision()) else {
        return None;
    };
    let PendingKind::Nested { pending: inner } = &pending.kind else { return None };
    let is_decided = decisions.keys().any(|id| inner.iter().any(|call| call.contains_call(id)));
    (!is_decided).then_some(pending)
}

/// Returns the decision with which `pending`, the suspended inner call, is resumed. If `decisions`
/// has no entry for the id of `pending`, its entries concern calls nested in `pending`, so the
/// returned decision contains all of them.
fn inner_decision(pending: &PendingCall, decisions: &Decisions) -> Decision {
    match decisions.get(&pending.call.id) {
        Some(decision) => decision.clone(),
        None => Decision::Nested { decisions: decisions.clone() },
    }
}

/// Suspends the chain until there is a decision for the inner call `call`. `checkpoint` is saved as
/// the continuation of the chain.
fn suspend(call: PendingCall, checkpoint: &Checkpoint) -> Result<ToolResponse, ToolError> {
    let continuation = serde_json::to_value(checkpoint).map_err(ToolError::failed)?;
    let nested = PendingKind::Nested { pending: vec![call] };
    Ok(ToolResponse::Pending(Pending::new(nested).with_continuation(continuation)))
}

impl Chain {
    /// Returns the checkpoint at which the chain starts or continues. For a resumed chain, also
    /// returns the pending state and the decision of the suspended inner call.
    fn starting_point(
        &self,
        arguments: Value,
        cx: &ToolContext,
    ) -> Result<(Checkpoint, Option<ResumedCall>), ToolError> {
        let (Some(suspended), Some(Decision::Nested { decisions })) = (cx.resumed(), cx.decision()) else {
            return Ok((Checkpoint { step: 0, arguments, warnings: Vec::new() }, None));
        };
        let PendingKind::Nested { pending } = &suspended.pending().kind else {
            return Err(ToolError::failed("the chain is not waiting for this decision"));
        };
        let [inner] = pending.as_slice() else {
            return Err(ToolError::failed("the chain waits for one call at a time"));
        };
        let checkpoint = Checkpoint::deserialize(&suspended.pending().continuation).map_err(|error| {
            ToolError::Failed {
                message: "cannot read the saved state of the chain".to_owned(),
                source: Some(error.into()),
            }
        })?;
        // An older version of the host program, in which the chain had other tools, may have
        // suspended the chain.
        if self.tools.get(checkpoint.step).is_none_or(|tool| *tool.definition().name() != *inner.call.name) {
            return Err(ToolError::failed("the chain has changed since it was suspended"));
        }
        let resumed =
            inner.pending.clone().resume(inner_decision(inner, decisions)).map_err(ToolError::failed)?;
        Ok((checkpoint, Some(resumed)))
    }

    /// Converts the failure of the tool at index `step` into the failure of the chain. The message
    /// names this tool and the tools that ran before it.
    fn to_tool_error(&self, step: usize, Failure { kind, message }: Failure) -> ToolError {
        let names = self.tools.iter().map(|tool| tool.definition().name().as_str());
        let (ran, failed): (Vec<_>, Option<&str>) =
            (names.clone().take(step).collect(), names.clone().nth(step));
        let message = format!("{}: {message}", failed.unwrap_or_default());
        if ran.is_empty() {
            return ToolError::Inner(Failure { kind, message });
        }
        let is_repeatable = self.tools.iter().take(step).all(|tool| tool.definition().policy().idempotent);
        let kind = match kind {
            // The invalid arguments are the output of a tool, so the model cannot correct them.
            FailureKind::InvalidArguments => FailureKind::Failed,
            // A retry of the chain would repeat successful inner calls, and not all of them are
            // idempotent.
            FailureKind::Retry if !is_repeatable => FailureKind::Failed,
            kind => kind,
        };
        let message = format!("{message} (before it ran: {})", ran.join(", "));
        ToolError::Inner(Failure { kind, message })
    }
}

/// Converts the output of a tool into the arguments of the next tool. `schema` is the input schema
/// of the next tool.
fn next_arguments(output: &ToolOutput, schema: &Schema) -> Value {
    let value = output.to_value();
    if schema.is_valid(&value) {
        return value;
    }
    let wrap = |name: &str| Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
    let wrapped = single_argument(schema).map(wrap);
    if let Some(wrapped) = wrapped.as_ref().filter(|wrapped| schema.is_valid(wrapped)) {
        return wrapped.clone();
    }
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(parsed) = parsed.filter(|parsed| schema.is_valid(parsed)) {
        return parsed;
    }
    if schema.properties().next().is_none() {
        return json!({});
    }
    // No conversion gives valid arguments. The pipeline repairs or rejects the arguments returned
    // here.
    wrapped.filter(|_| !value.is_object()).unwrap_or(value)
}

/// Returns the name of the argument that can receive a whole result as its value: the only required
/// argument, or the only argument if none is required. Returns `None` if `schema` has no such
/// argument.
fn single_argument(schema: &Schema) -> Option<&str> {
    let only = |required: bool| {
        let mut names = schema.properties().filter(|it| it.is_required || !required).map(|it| it.name);
        names.next().filter(|_| names.next().is_none())
    };
    match schema.properties().any(|it| it.is_required) {
        true => only(true),
        false => only(false),
    }
}

/// Fails if the output of the tool `before` can never become the arguments of the tool `after`.
fn check_schemas(before: &ToolDefinition, after: &ToolDefinition) -> Result<(), ChainError> {
    let (Some(output), input) = (before.output_schema(), after.input_schema()) else { return Ok(()) };
    let Some(as_object) =
        output.find_incompatibility(input, None).filter(|_| input.properties().next().is_some())
    else {
        return Ok(());
    };
    let as_argument = single_argument(input).map(|name| output.find_incompatibility(input, Some(name)));
    let misfit = match as_argument {
        Some(None) => return Ok(()),
        // An output that is not an object can only be the value of the single argument, so the
        // mismatch with this argument is reported.
        Some(Some(as_argument)) if as_object.pointer.is_empty() => as_argument,
        _ => as_object,
    };
    let (tool, next) = (before.name().clone(), after.name().clone());
    let pointer = if misfit.pointer.is_empty() { "/".to_owned() } else { misfit.pointer };
    Err(ChainError::IncompatibleSchemas { tool, next, pointer, reason: misfit.reason })
}

/// Combines `parts`, the definitions of the tools, into the definition of the chain.
fn combine_definitions(name: ToolName, parts: &[&ToolDefinition]) -> Result<ToolDefinition, ChainError> {
    let ([first, ..], [.., last]) = (parts, parts) else { return Err(ChainError::Empty) };
    let policies = || parts.iter().map(|part| part.policy());
    let scopes: BTreeSet<_> = policies().flat_map(|policy| &policy.required_scopes).cloned().collect();
    let policy = ToolPolicy {
        // The pipeline applies its default timeout to each tool. The sum must not be shorter.
        timeout: Some(policies().fold(Duration::ZERO, |sum, policy| {
            sum.saturating_add(policy.timeout.unwrap_or(limits::CALL_TIMEOUT))
        })),
        // Each tool requests its own approval when it is called, with its actual arguments.
        requires_approval: false,
        required_scopes: scopes.into_iter().collect(),
        // The resources that later tools touch depend on their arguments, so they are unknown when
        // the chain starts. The chain is then sequential, so that no other call of the batch runs
        // at the same time.
        sequential: policies().any(|policy| policy.sequential || policy.touches.is_some()),
        touches: None,
        idempotent: policies().all(|policy| policy.idempotent),
        max_calls: None,
        failure_hook: None,
        retries: policies().map(|policy| policy.retries).min().unwrap_or_default(),
        ..last.policy().clone()
    };
    let policy = ToolPolicy { redacted: first.policy().redacted.clone(), ..policy };
    let all = |hint: fn(&Annotations) -> Option<bool>| {
        parts.iter().map(|part| hint(part.annotations())).try_fold(true, |all, it| Some(all && it?))
    };
    let any = |hint: fn(&Annotations) -> Option<bool>| {
        let mut hints = parts.iter().map(|part| hint(part.annotations()));
        hints
            .clone()
            .any(|it| it == Some(true))
            .then_some(true)
            .or_else(|| hints.all(|it| it.is_some()).then_some(false))
    };
    let annotations = Annotations {
        read_only: all(|it| it.read_only),
        destructive: any(|it| it.destructive),
        idempotent: all(|it| it.idempotent),
        open_world: any(|it| it.open_world),
    };
    let descriptions: Vec<_> =
        parts.iter().map(|part| part.description().trim()).filter(|text| !text.is_empty()).collect();
    let mut definition = ToolDefinition::new(name, first.input_schema().clone())
        .with_description(descriptions.join(" Then: "))
        .with_policy(policy)
        .with_annotations(annotations);
    if let Some(schema) = last.output_schema() {
        definition = definition.with_output_schema(schema.clone());
    }
    let mut states = Vec::new();
    for state in parts.iter().flat_map(|part| part.state_types()) {
        if !states.contains(state) {
            states.push(*state);
        }
    }
    Ok(states.into_iter().fold(definition, ToolDefinition::with_state_type))
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain").field("tool", self.definition.name()).finish_non_exhaustive()
    }
}
