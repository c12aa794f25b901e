//! Several tools as one.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use haft_core::{
    Pipeline, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput,
    call::{
        Decision, Decisions, Failure, FailureKind, Outcome, Pending, PendingCall, PendingKind, Resumed,
        ToolOutcome,
    },
    pipeline::CallOutcome,
    tool::{Annotations, InvalidToolName, Policy, Tools},
};

/// Makes one tool of several: the arguments of the first are its own, the result of each is the arguments of the next, and the
/// result of the last is its own.
///
/// Each call inside goes through the pipeline, as every call does: it is validated, recorded with an id of its own (`call_1/2`), and
/// waits for its approval, with the arguments that it then has. When it waits, so does the whole, and goes on at that place. The
/// first failure ends the chain; its text says what ran before.
///
/// A result is the arguments of the next tool if it fits its schema, such as an object with its fields; else it is the value of its
/// one argument (the one that must be given, or the only one). A tool without arguments is given none.
///
/// The whole is [sequential](Policy::sequential) if one of the tools is or has
/// [`touches`](Policy::touches). It is idempotent if all are, needs the scopes of all, and
/// has the time of all together. Name and description are changed as those of any tool, by
/// [`with_definition`](haft_core::ToolExt::with_definition).
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
/// let tools = Toolset::new().with(orders);
/// assert_eq!(tools.call_blocking("orders_of", json!({"name": "Ann"})).model_text(), "the orders of 3");
///
/// /// Tells a story.
/// #[tool]
/// fn tell() -> Json<String> {
///     Json("Once upon a time".to_owned())
/// }
///
/// let error = chain("told", (Tell, ListOrders)).err().map(|error| error.to_string());
/// assert_eq!(
///     error.as_deref(),
///     Some("what \"tell\" gives does not fit \"list_orders\": /user: expected integer, produced string")
/// );
/// # Ok::<(), haft_middleware::ChainError>(())
/// ```
///
/// # Errors
///
/// Fails without tools, for a name that is none, for a tool with a [defect](ToolDefinition::defect), and where the output
/// schema of a tool says that its result never fits the next. What cannot be decided is found out when it is called: an object may have
/// members that its schema does not list, unless that closes it by `additionalProperties: false`, or was derived from a Rust type.
pub fn chain(name: &str, tools: impl Tools) -> Result<Chain, ChainError> {
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
            fits(before.definition(), after.definition())?;
        }
    }
    let definitions: Vec<_> = tools.iter().map(Tool::definition).collect();
    let definition = whole(name, &definitions)?;
    Ok(Chain { definition, tools: tools.into() })
}

/// Several tools as one, as [`chain`] makes it.
#[derive(Clone)]
pub struct Chain {
    definition: ToolDefinition,
    tools: Arc<[Arc<dyn Tool>]>,
}

/// Why tools cannot be chained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// There are none.
    #[error("a chain needs at least one tool")]
    Empty,
    /// The chain cannot be called that.
    #[error(transparent)]
    Name(#[from] InvalidToolName),
    /// A tool cannot be used.
    #[error("tool \"{tool}\" cannot be used: {reason}")]
    Defect {
        /// The tool.
        tool: ToolName,
        /// What is wrong with it.
        reason: String,
    },
    /// What a tool gives never fits the next.
    #[error("what \"{tool}\" gives does not fit \"{next}\": {pointer}: {reason}")]
    Misfit {
        /// The tool that gives it.
        tool: ToolName,
        /// The tool that is to take it.
        next: ToolName,
        /// Where in the arguments, as JSON pointer.
        pointer: String,
        /// What is asked for there, and what is given.
        reason: String,
    },
}

/// Where a chain is.
#[derive(Serialize, Deserialize)]
struct Place {
    /// The tool that is called next, from 0.
    step: usize,
    arguments: Value,
    /// What there was to say until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[async_trait]
impl Tool for Chain {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        if let Some(pending) = unanswered(cx) {
            return Ok(ToolOutcome::Pending(pending.clone()));
        }
        let (mut place, mut resumed) = self.begin(arguments, cx)?;
        // What one gives the next is whole.
        let pipeline = Pipeline::current(cx).map_or_else(Pipeline::unbounded, |it| it.without_store());
        while let Some(tool) = self.tools.get(place.step) {
            let mut inner = cx.nested(place.step + 1);
            if let Some(resumed) = resumed.take() {
                inner = inner.with_resumed(resumed);
            }
            let result = match pipeline.call_tool(&**tool, place.arguments.clone(), &inner).await {
                CallOutcome::Finished(result) => result,
                CallOutcome::Pending(waits) => return park(waits, &place),
            };
            place.warnings.extend(result.warnings);
            let output = match result.outcome {
                Outcome::Done(output) => output,
                Outcome::Failed(failure) => return Err(self.failure(place.step, failure)),
            };
            place.step += 1;
            match self.tools.get(place.step) {
                Some(next) => place.arguments = arguments_of(&output, next.definition().input_schema()),
                None => return Ok(ToolOutcome::Done(ToolOutput { warnings: place.warnings, ..output })),
            }
        }
        Err(ToolError::failed("a chain needs at least one tool"))
    }
}

/// What is waited for still, if nothing was said to it.
fn unanswered(cx: &ToolContext) -> Option<&Pending> {
    let (pending, Some(Decision::Nested { decisions })) = (cx.resumed()?.pending(), cx.decision()) else {
        return None;
    };
    let PendingKind::Nested { pending: inner } = &pending.kind else { return None };
    let is_answered = decisions.keys().any(|id| inner.iter().any(|waits| waits.covers(id)));
    (!is_answered).then_some(pending)
}

/// The answer to the call that waits, or those to calls inside it.
fn answer_of(waits: &PendingCall, decisions: &Decisions) -> Decision {
    match decisions.get(&waits.call.id) {
        Some(answer) => answer.clone(),
        None => Decision::Nested { decisions: decisions.clone() },
    }
}

fn park(waits: PendingCall, place: &Place) -> Result<ToolOutcome, ToolError> {
    let state = serde_json::to_value(place).map_err(ToolError::failed)?;
    let nested = PendingKind::Nested { pending: vec![waits] };
    Ok(ToolOutcome::Pending(Pending::new(nested).with_state(state)))
}

impl Chain {
    /// Where the call begins: with the first tool, or with the one that waited and what was said to it.
    fn begin(&self, arguments: Value, cx: &ToolContext) -> Result<(Place, Option<Resumed>), ToolError> {
        let (Some(waited), Some(Decision::Nested { decisions })) = (cx.resumed(), cx.decision()) else {
            return Ok((Place { step: 0, arguments, warnings: Vec::new() }, None));
        };
        let PendingKind::Nested { pending } = &waited.pending().kind else {
            return Err(ToolError::failed("the chain was answered what it did not ask"));
        };
        let [waits] = pending.as_slice() else {
            return Err(ToolError::failed("the chain waits for one call at a time"));
        };
        let place = Place::deserialize(&waited.pending().state).map_err(|error| ToolError::Failed {
            message: "where the chain waited cannot be read".to_owned(),
            source: Some(error.into()),
        })?;
        // A program of another day may have another chain of that name.
        if self.tools.get(place.step).is_none_or(|tool| *tool.definition().name() != *waits.call.name) {
            return Err(ToolError::failed("the chain waited at a tool that it no longer has there"));
        }
        let resumed =
            waits.pending.clone().decided(answer_of(waits, decisions)).map_err(ToolError::failed)?;
        Ok((place, Some(resumed)))
    }

    /// What came of the whole when a tool failed.
    fn failure(&self, step: usize, Failure { kind, message }: Failure) -> ToolError {
        let names = self.tools.iter().map(|tool| tool.definition().name().as_str());
        let (ran, failed): (Vec<_>, Option<&str>) =
            (names.clone().take(step).collect(), names.clone().nth(step));
        let message = format!("{}: {message}", failed.unwrap_or_default());
        if ran.is_empty() {
            return ToolError::Inner(Failure { kind, message });
        }
        let is_repeatable = self.tools.iter().take(step).all(|tool| tool.definition().policy().idempotent);
        let kind = match kind {
            // These were not the model's arguments, and something did run.
            FailureKind::InvalidArguments => FailureKind::Failed,
            // Another try would do again what was done.
            FailureKind::Retry if !is_repeatable => FailureKind::Failed,
            kind => kind,
        };
        let message = format!("{message} (before it ran: {})", ran.join(", "));
        ToolError::Inner(Failure { kind, message })
    }
}

/// What the next tool is called with.
fn arguments_of(output: &ToolOutput, schema: &Schema) -> Value {
    let value = output.to_value();
    if schema.is_valid(&value) {
        return value;
    }
    let one = |name: &str| Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
    let wrapped = sole(schema).map(one);
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
    // It does not fit as it is: the pipeline repairs it, or says what is wrong.
    wrapped.filter(|_| !value.is_object()).unwrap_or(value)
}

/// The argument that a value is for which is not all of them.
fn sole(schema: &Schema) -> Option<&str> {
    let only = |required: bool| {
        let mut names = schema.properties().filter(|it| it.required || !required).map(|it| it.name);
        names.next().filter(|_| names.next().is_none())
    };
    match schema.properties().any(|it| it.required) {
        true => only(true),
        false => only(false),
    }
}

fn fits(before: &ToolDefinition, after: &ToolDefinition) -> Result<(), ChainError> {
    let (Some(given), asked) = (before.output_schema(), after.input_schema()) else { return Ok(()) };
    let Some(as_all) = given.incompatibility(asked, None).filter(|_| asked.properties().next().is_some())
    else {
        return Ok(());
    };
    let as_one = sole(asked).map(|name| given.incompatibility(asked, Some(name)));
    let misfit = match as_one {
        Some(None) => return Ok(()),
        // What is no object can only be the one argument.
        Some(Some(as_one)) if as_all.pointer.is_empty() => as_one,
        _ => as_all,
    };
    let (tool, next) = (before.name().clone(), after.name().clone());
    let pointer = if misfit.pointer.is_empty() { "/".to_owned() } else { misfit.pointer };
    Err(ChainError::Misfit { tool, next, pointer, reason: misfit.reason })
}

/// What the whole is, of what its parts are.
fn whole(name: ToolName, parts: &[&ToolDefinition]) -> Result<ToolDefinition, ChainError> {
    let ([first, ..], [.., last]) = (parts, parts) else { return Err(ChainError::Empty) };
    let policies = || parts.iter().map(|part| part.policy());
    let scopes: BTreeSet<_> = policies().flat_map(|policy| &policy.required_scopes).cloned().collect();
    let policy = Policy {
        timeout: policies().fold(Duration::ZERO, |sum, policy| sum.saturating_add(policy.timeout)),
        // Each part asks for its own, and shows the arguments that it then has.
        requires_approval: false,
        required_scopes: scopes.into_iter().collect(),
        // The resources of the later parts are unknown when the whole is scheduled.
        sequential: policies().any(|policy| policy.sequential || policy.touches.is_some()),
        touches: None,
        idempotent: policies().all(|policy| policy.idempotent),
        retries: policies().map(|policy| policy.retries).min().unwrap_or_default(),
        ..last.policy().clone()
    };
    let policy = Policy { redacted: first.policy().redacted.clone(), ..policy };
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
    for state in parts.iter().flat_map(|part| part.state()) {
        if !states.contains(state) {
            states.push(*state);
        }
    }
    Ok(states.into_iter().fold(definition, ToolDefinition::with_state))
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain").field("tool", self.definition.name()).finish_non_exhaustive()
    }
}
