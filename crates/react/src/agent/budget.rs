//! The limits of a run, shared with the nested runs that its tools start.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_core::{
    agent::{Limit, RunLimits},
    tool::RunContext,
    usage::{Usage, UsageMeter},
};

use crate::run::{NestedUsage, Run, denial, reached_usage_limit};

/// The budget of a run: its limits, shared with its nested runs. A nested run is the run of an
/// agent used as a tool, or any other run that a tool starts with the context of its call.
///
/// A nested run takes each model request and each call from the budgets of all enclosing runs
/// before it is made. If one of these budgets is used up, the nested run fails with the limit of
/// that run. Parallel nested runs together never exceed the request limit.
#[derive(Clone, Debug)]
pub(crate) struct RunBudget(Arc<BudgetInner>);

#[derive(Debug)]
struct BudgetInner {
    /// The usage of nested runs that is not part of the usage of the run yet.
    meter: UsageMeter,
    account: Mutex<Account>,
    outer: Option<Outer>,
}

/// The limits of a run and their use.
#[derive(Debug)]
struct Account {
    limits: RunLimits,
    /// The numbers of the run itself when its current calls began.
    requests: u32,
    tool_calls: u32,
    usage: Usage,
    /// The requests of nested runs without a reported usage.
    nested_in_flight: u32,
    nested_calls: u32,
    /// The calls of the run itself to tools with a maximum number of calls, by tool name, with
    /// those of the current batch.
    limited_calls: BTreeMap<String, u32>,
    /// The calls inside of calls to tools with a maximum number of calls, by tool name.
    nested_limited_calls: BTreeMap<String, u32>,
    /// The limit that has forbidden calls of a nested run.
    forbidding: Option<Limit>,
}

/// The link of a nested run to the run that encloses it.
#[derive(Debug)]
struct Outer {
    /// `None` if the enclosing driver has a meter only.
    budget: Option<RunBudget>,
    meter: Option<UsageMeter>,
    progress: Mutex<Progress>,
}

/// The progress of a nested run, as known to the enclosing runs.
#[derive(Debug)]
struct Progress {
    /// The usage of the nested run that the enclosing runs contain already.
    reported: Usage,
    /// `true` while the nested run has taken a request and not reported its usage.
    has_request: bool,
}

impl RunBudget {
    /// Creates the budget of `run`. `context` is the context of the run as received from its
    /// caller. If it is the context of a tool call, the run is nested in the run of this call.
    #[must_use]
    pub(crate) fn attach(context: &RunContext, run: &Run) -> Self {
        let (budget, meter) = (context.state.get::<Self>().cloned(), context.usage.clone());
        let outer = (budget.is_some() || meter.is_some()).then(|| Outer {
            budget,
            meter: meter.clone(),
            progress: Mutex::new(Progress { reported: run.usage(), has_request: false }),
        });
        let meter = meter.as_ref().map(UsageMeter::part).unwrap_or_default();
        Self(Arc::new(BudgetInner { meter, account: Mutex::new(Account::of(run)), outer }))
    }

    /// Returns `context` with this budget, for the calls of the run.
    #[must_use]
    pub(crate) fn in_context(&self, context: RunContext) -> RunContext {
        let state = context.state.with_value(self.clone());
        RunContext { state, usage: Some(self.0.meter.clone()), ..context }
    }

    /// Updates the limits and the numbers of `run`, before its calls are executed.
    pub(crate) fn begin_calls(&self, run: &Run) {
        *self.account() = Account::of(run);
    }

    /// Takes the use of the nested runs, after the calls were executed or dropped. A request
    /// without a reported usage, for example of a dropped run, counts as a request.
    pub(crate) fn take_use(&self) -> NestedUsage {
        let usage = self.take_nested_usage();
        let mut account = self.account();
        NestedUsage {
            usage,
            requests: std::mem::take(&mut account.nested_in_flight),
            calls: std::mem::take(&mut account.nested_calls),
            limited_calls: std::mem::take(&mut account.nested_limited_calls),
            limit: account.forbidding.take(),
        }
    }

    fn take_nested_usage(&self) -> Usage {
        let nested = self.0.meter.take();
        if let Some(outer) = &self.0.outer {
            // The meter is a part of the meter of the enclosing run, which contains this usage.
            outer.progress().reported += nested;
        }
        nested
    }

    /// Reports the new usage of `run` to the enclosing runs, and releases a
    /// [taken](Self::take_request) request. Does nothing if the run is not nested.
    pub(crate) fn report(&self, run: &Run) {
        self.report_up_to(run.usage());
    }

    /// Reports the usage of a nested run up to `total`, before the run itself has counted it.
    pub(crate) fn report_up_to(&self, total: Usage) {
        let Some(outer) = &self.0.outer else { return };
        let mut progress = outer.progress();
        let new = total.saturating_sub(progress.reported);
        progress.reported += new;
        if let Some(meter) = outer.meter.as_ref().filter(|_| new != Usage::default()) {
            meter.add(new);
        }
        // Each request that has ended is part of the usage.
        if new != Usage::default()
            && std::mem::take(&mut progress.has_request)
            && let Some(budget) = &outer.budget
        {
            budget.release_request();
        }
    }

    /// Releases a [taken](Self::take_request) request that was not sent.
    pub(crate) fn release(&self) {
        if let Some(Outer { budget: Some(budget), progress, .. }) = &self.0.outer
            && std::mem::take(&mut progress.lock().unwrap_or_else(PoisonError::into_inner).has_request)
        {
            budget.release_request();
        }
    }

    /// Takes one model request from the budgets of all enclosing runs. Does nothing if the run is
    /// not nested, or if it has taken a request already and not [reported](Self::report) it.
    ///
    /// # Errors
    ///
    /// Fails with the limit of an enclosing run that forbids the request.
    pub(crate) fn take_request(&self) -> Result<(), Limit> {
        let Some(Outer { budget: Some(budget), progress, .. }) = &self.0.outer else { return Ok(()) };
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        if !progress.has_request {
            budget.reserve_request()?;
            progress.has_request = true;
        }
        Ok(())
    }

    /// Takes `calls` tool calls from the budgets of all enclosing runs, or none of them.
    ///
    /// # Errors
    ///
    /// Fails with the limit of an enclosing run that forbids the calls. That run reaches its limit
    /// after its current calls.
    pub(crate) fn take_calls(&self, calls: u32) -> Result<(), Limit> {
        match self.outer_budget() {
            Some(budget) => budget.reserve_calls(calls),
            None => Ok(()),
        }
    }

    fn reserve_request(&self) -> Result<(), Limit> {
        let mut account = self.account();
        let nested = self.0.meter.peek();
        let made = u32::try_from(nested.requests).unwrap_or(u32::MAX);
        let requests = [account.requests, account.nested_in_flight, made].into_iter();
        let requests = requests.fold(0, u32::saturating_add);
        let usage = account.usage + nested;
        if let Some(limit) = reached_usage_limit(&account.limits, requests, &usage) {
            return Err(limit);
        }
        if let Some(outer) = self.outer_budget() {
            outer.reserve_request()?;
        }
        account.nested_in_flight += 1;
        Ok(())
    }

    fn release_request(&self) {
        let mut account = self.account();
        account.nested_in_flight = account.nested_in_flight.saturating_sub(1);
        if let Some(outer) = self.outer_budget() {
            outer.release_request();
        }
    }

    /// Takes `calls` calls inside of a call of this run, such as pushed calls, from this budget and
    /// the budgets of all enclosing runs, or none of them.
    ///
    /// # Errors
    ///
    /// Fails with the limit that forbids the calls. Its run reaches the limit after its current
    /// calls.
    pub(crate) fn reserve_calls(&self, calls: u32) -> Result<(), Limit> {
        let mut account = self.account();
        let nested = account.nested_calls.saturating_add(calls);
        let total = account.tool_calls.saturating_add(nested);
        if let Some(limit) = account.limits.tool_calls.filter(|limit| total > *limit) {
            account.forbidding = Some(Limit::ToolCalls(limit));
            return Err(Limit::ToolCalls(limit));
        }
        if let Some(outer) = self.outer_budget() {
            outer.reserve_calls(calls)?;
        }
        account.nested_calls = nested;
        Ok(())
    }

    /// Takes a call to the tool named `tool`, a call inside of a call of this run, from the
    /// [maximum number](haft_core::tool::ToolPolicy::max_calls) of calls to this tool in the run.
    ///
    /// # Errors
    ///
    /// Fails with the reason for a denial if no call is left.
    pub(crate) fn reserve_call(&self, tool: &str, maximum: u32) -> Result<(), String> {
        let mut account = self.account();
        let own = account.limited_calls.get(tool).copied().unwrap_or_default();
        let nested = account.nested_limited_calls.entry(tool.to_owned()).or_default();
        if own.saturating_add(*nested) >= maximum {
            return Err(denial(maximum));
        }
        *nested += 1;
        Ok(())
    }

    fn outer_budget(&self) -> Option<&Self> {
        self.0.outer.as_ref()?.budget.as_ref()
    }

    /// Locks the account. A nested run locks its own account before that of an enclosing run.
    fn account(&self) -> MutexGuard<'_, Account> {
        self.0.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    fn of(run: &Run) -> Self {
        Self {
            limits: run.config().limits,
            requests: run.counted_requests(),
            tool_calls: run.counted_calls(),
            usage: run.usage(),
            nested_in_flight: 0,
            nested_calls: 0,
            limited_calls: run.limited_calls(),
            nested_limited_calls: BTreeMap::new(),
            forbidding: None,
        }
    }
}

impl Outer {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
