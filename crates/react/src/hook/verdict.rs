use haft_core::agent::GuardrailReport;
use serde::{Deserialize, Serialize};

/// The verdict of a [`Hook`](super::Hook) about a `T`.
///
/// | event | `Retry` | `Block` | `End` |
/// |---|---|---|---|
/// | input, request | not possible: the run fails | the run ends; the text is the answer | the run fails |
/// | results | the model reads the text with the next request | the run ends; the text is the answer | the run fails |
/// | reply | the model reads the text and replies again | the run ends; the text is the answer | the run fails |
/// | call | the model reads the text as a failure and may try again | the model reads the text as a denial | the run fails before a call of the reply has started |
/// | result | the model reads the text as a failure and may try again | the model reads the text as a failure | the other calls are cancelled, and the run fails |
/// | answer | the model reads the text and answers again | the text is the answer | the run fails |
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict<T> {
    /// The data is used unchanged.
    #[default]
    Pass,
    /// The data is replaced.
    Replace(T),
    /// The model reads this text, and tries again.
    Retry(String),
    /// The data is withheld. The model or the user reads this text instead. A run that ends has the
    /// stop reason [`Blocked`](haft_core::agent::StopReason::Blocked).
    Block(String),
    /// The run fails with
    /// [`AgentErrorKind::Guardrail`](haft_core::agent::AgentErrorKind::Guardrail). Its report has
    /// this reason. Nothing of it is sent to the model.
    End(String),
}

impl<T> Verdict<T> {
    /// Creates the verdict [`Retry`](Self::Retry).
    pub fn retry(text: impl Into<String>) -> Self {
        Self::Retry(text.into())
    }

    /// Creates the verdict [`Block`](Self::Block).
    pub fn block(text: impl Into<String>) -> Self {
        Self::Block(text.into())
    }

    /// Creates the verdict [`End`](Self::End).
    pub fn end(reason: impl Into<String>) -> Self {
        Self::End(reason.into())
    }

    /// Returns the verdict with its replacement converted by `convert`.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Replace(data) => Verdict::Replace(convert(data)),
            Self::Retry(text) => Verdict::Retry(text),
            Self::Block(text) => Verdict::Block(text),
            Self::End(reason) => Verdict::End(reason),
        }
    }

    /// Splits the verdict into its replacement and a verdict without data.
    pub(crate) fn split(self) -> (Option<T>, Verdict<()>) {
        let mut replacement = None;
        let verdict = self.map(|data| replacement = Some(data));
        (replacement, verdict)
    }
}

/// The verdict of the hooks at one event, with their reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement<T = ()> {
    /// The verdict.
    pub verdict: Verdict<T>,
    /// The reports of the hooks, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<GuardrailReport>,
}

/// [`Pass`](Verdict::Pass) without reports.
impl<T> Default for Judgement<T> {
    fn default() -> Self {
        Verdict::Pass.into()
    }
}

impl<T> From<Verdict<T>> for Judgement<T> {
    fn from(verdict: Verdict<T>) -> Self {
        Self { verdict, reports: Vec::new() }
    }
}

impl<T> Judgement<T> {
    /// Splits the judgement into the replacement and a judgement without data.
    pub(crate) fn split(self) -> (Option<T>, Judgement) {
        let (replacement, verdict) = self.verdict.split();
        (replacement, Judgement { verdict, reports: self.reports })
    }
}
