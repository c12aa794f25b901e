use std::{
    fmt, mem,
    sync::{Arc, PoisonError, RwLock},
};

use haft_schema::exact_integer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use super::{Decision, PendingCall, PendingKind};

/// The later calls that a remembered decision covers. See [`Decision::for_tool`] and
/// [`Decision::for_arguments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RememberFor {
    /// All calls of the tool.
    Tool,
    /// The calls of the tool with equal arguments.
    Arguments,
}

/// A remembered approval or denial. It covers later calls of one tool for one principal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRule {
    /// The id of the principal of the run. `None` covers only runs without a principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// The fingerprint of the tool's definition. A tool with a changed definition is not covered.
    pub definition: String,
    /// The arguments of the covered calls, after parsing and repair. `None` covers all arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// The reason of a remembered denial, which is sent to the model. `None` is an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<String>,
}

impl ApprovalRule {
    /// Returns the rule that `decision` about `pending` creates, for runs of `principal`.
    ///
    /// Returns `None` if the decision is not remembered, or if the call does not wait for an
    /// approval that the policy of its tool requires.
    pub fn new(principal: Option<&str>, pending: &PendingCall, decision: &Decision) -> Option<Self> {
        let PendingKind::Approval { arguments: shown } = &pending.pending.kind else { return None };
        let (remember, changed, denial) = match decision {
            Decision::Approved { arguments, remember } => ((*remember)?, arguments.as_ref(), None),
            Decision::Denied { reason, remember } => ((*remember)?, None, Some(reason.clone())),
            _ => return None,
        };
        Some(Self {
            principal: principal.map(str::to_owned),
            tool: pending.call.name.clone(),
            definition: pending.pending.definition.clone()?,
            arguments: (remember == RememberFor::Arguments).then(|| changed.unwrap_or(shown).clone()),
            denial,
        })
    }

    /// Returns the decision about a call that this rule covers.
    pub fn decision(&self) -> Decision {
        self.denial.as_ref().map_or_else(Decision::approved, Decision::denied)
    }

    /// Adds this rule to `rules`. A rule about the same calls is replaced.
    pub fn add_to(self, rules: &mut Vec<Self>) {
        let is_same = |it: &Self| {
            let arguments = match (&it.arguments, &self.arguments) {
                (Some(a), Some(b)) => is_equal(a, b),
                (a, b) => a.is_none() && b.is_none(),
            };
            (&it.principal, &it.tool, &it.definition) == (&self.principal, &self.tool, &self.definition)
                && arguments
        };
        match rules.iter_mut().find(|it| is_same(it)) {
            Some(rule) => *rule = self,
            None => rules.push(self),
        }
    }

    /// Returns the rule in `rules` that covers a call of `principal` to the tool named `tool`. A
    /// rule about the arguments of the call has priority over a rule about all calls of the tool.
    ///
    /// Keys of objects have no order, and numbers are compared by value: `1` and `1.0` are equal.
    /// `definition` returns the fingerprint of the tool, and is called only if a rule has the name
    /// of the tool.
    pub fn find<'r>(
        rules: &'r [Self],
        principal: Option<&str>,
        tool: &str,
        definition: impl FnOnce() -> Option<String>,
        arguments: &Value,
    ) -> Option<&'r Self> {
        let named = |it: &&Self| it.tool == tool && it.principal.as_deref() == principal;
        let named: Vec<_> = rules.iter().filter(named).collect();
        let definition = if named.is_empty() { None } else { definition() }?;
        let mut rules = named.into_iter().filter(|it| it.definition == definition);
        let exact = |it: &&Self| it.arguments.as_ref().is_some_and(|own| is_equal(own, arguments));
        rules.clone().find(exact).or_else(|| rules.find(|it| it.arguments.is_none()))
    }
}

/// The remembered decisions of one or more runs, as a handle. Clones share their rules.
///
/// A run remembers the decisions that are made with [`Decision::for_tool`] or
/// [`Decision::for_arguments`], and saves them in its own state. To use them in later runs, pass
/// the same `Approvals` to each run with `RunInput::with_approvals`, and store them as JSON. A rule
/// applies only to runs of the principal for whom the decision was made.
///
/// # Examples
///
/// ```
/// use haft_message::call::Approvals;
///
/// let approvals = Approvals::new();
/// // Run an agent with a clone, and resume it with `Decision::approved().for_tool()`.
/// let stored = serde_json::to_string(&approvals)?;
/// let later: Approvals = serde_json::from_str(&stored)?;
/// assert!(later.rules().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Approvals(Arc<RwLock<Vec<ApprovalRule>>>);

impl Approvals {
    /// Creates a handle without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a copy of the rules.
    pub fn rules(&self) -> Vec<ApprovalRule> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds `rules`. Each rule replaces an earlier rule about the same calls.
    pub fn extend(&self, rules: impl IntoIterator<Item = ApprovalRule>) {
        let mut own = self.0.write().unwrap_or_else(PoisonError::into_inner);
        rules.into_iter().for_each(|rule| rule.add_to(&mut own));
    }

    /// Removes and returns all rules, for example when a user withdraws the approvals.
    pub fn take(&self) -> Vec<ApprovalRule> {
        mem::take(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the remembered decision about a call, as described at [`ApprovalRule::find`].
    pub fn decision(
        &self,
        principal: Option<&str>,
        tool: &str,
        definition: impl FnOnce() -> Option<String>,
        arguments: &Value,
    ) -> Option<Decision> {
        let rules = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ApprovalRule::find(&rules, principal, tool, definition, arguments).map(ApprovalRule::decision)
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("rules", &self.rules().len()).finish()
    }
}

impl Serialize for Approvals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rules().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Approvals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|rules| Self(Arc::new(RwLock::new(rules))))
    }
}

/// Compares JSON values. Keys have no order, and numbers are compared by value.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => integer(a).map_or(a == b, |a| integer(b) == Some(a)),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Returns the value of an integer, also if it is [written as a float](exact_integer) such as
/// `1.0`.
fn integer(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| number.as_f64().and_then(exact_integer).map(i128::from))
}
