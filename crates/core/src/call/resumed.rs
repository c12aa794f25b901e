use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Answer, Answers, Pending, PendingCall, PendingKind};
use crate::schema::Schema;

/// A call that waited and can go on: what it waited for, and an answer that fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Resumed {
    pending: Pending,
    answer: Answer,
}

/// Calls that go on, by their ids.
pub type ResumedCalls = BTreeMap<String, Resumed>;

/// An answer that is none to what a call waits for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongAnswer {
    /// It is of another kind.
    #[error("it waits for {wanted}, which this answer is not")]
    Kind {
        /// What would be an answer.
        wanted: &'static str,
    },
    /// A person's answer is not what was asked for.
    #[error("the answer is not what was asked for: {0}")]
    Input(String),
}

impl Pending {
    /// Holds an answer against what the call waits for.
    ///
    /// An approval is bound to the arguments that were shown: exactly those run, or the ones that the answer puts in
    /// their place, whatever the tool's schema makes of the model's text by then.
    ///
    /// # Errors
    ///
    /// Fails when the answer is of another kind, or is not of the schema that a person was asked for. A denial answers
    /// everything.
    pub fn answered(self, answer: Answer) -> Result<Resumed, WrongAnswer> {
        let answer = match (&self.kind, answer) {
            (_, answer @ Answer::Denied { .. }) => answer,
            (PendingKind::Approval { arguments }, Answer::Approved { arguments: others }) => {
                Answer::Approved { arguments: Some(others.unwrap_or_else(|| arguments.clone())) }
            }
            (PendingKind::Input { schema, .. }, Answer::Input { value }) => {
                check_input(schema, &value)?;
                Answer::Input { value }
            }
            (PendingKind::External, answer @ (Answer::Output { .. } | Answer::Failed { .. })) => answer,
            (PendingKind::Nested { pending }, Answer::Nested { answers }) => {
                check_nested(pending, &answers)?;
                Answer::Nested { answers }
            }
            (kind, _) => return Err(WrongAnswer::Kind { wanted: wanted(kind) }),
        };
        Ok(Resumed { pending: self, answer })
    }
}

impl Resumed {
    /// What the call waited for.
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// What was said to it.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The arguments that a person approved, in this answer or an earlier one.
    pub(crate) fn approved(&self) -> Option<&Value> {
        match &self.answer {
            Answer::Approved { arguments } => arguments.as_ref(),
            _ => self.pending.approved.as_ref(),
        }
    }
}

fn wanted(kind: &PendingKind) -> &'static str {
    match kind {
        PendingKind::Approval { .. } => "an approval or a denial",
        PendingKind::Input { .. } => "the input of a person or a denial",
        PendingKind::External => "an output, a failure or a denial",
        PendingKind::Nested { .. } => "answers to the calls inside it",
    }
}

/// Holds answers against the calls inside a child run, however deep they are.
fn check_nested(pending: &[PendingCall], answers: &Answers) -> Result<(), WrongAnswer> {
    for (id, answer) in answers {
        let Some(waits) = pending.iter().find(|waits| waits.covers(id)) else {
            return Err(WrongAnswer::Kind { wanted: wanted(&PendingKind::Nested { pending: Vec::new() }) });
        };
        let is_inside = waits.call.id != *id;
        let answer = answer.clone();
        let answer = if is_inside {
            Answer::Nested { answers: Answers::from([(id.clone(), answer)]) }
        } else {
            answer
        };
        waits.pending.clone().answered(answer)?;
    }
    Ok(())
}

fn check_input(schema: &Map<String, Value>, value: &Value) -> Result<(), WrongAnswer> {
    if schema.is_empty() {
        return Ok(());
    }
    let schema = Schema::new(Value::Object(schema.clone()))
        .map_err(|error| WrongAnswer::Input(format!("its schema cannot be used: {error}")))?;
    schema.validate(value).map_err(|error| WrongAnswer::Input(error.to_string()))
}

/// A resumed call as it was saved, before it is known to fit.
#[derive(Deserialize)]
struct Unchecked {
    pending: Pending,
    answer: Answer,
}

impl TryFrom<Unchecked> for Resumed {
    type Error = WrongAnswer;

    fn try_from(Unchecked { pending, answer }: Unchecked) -> Result<Self, WrongAnswer> {
        pending.answered(answer)
    }
}
