//! Rounds of input: a server responds to a call with requests for input, and the call is sent again
//! with the responses (MCP 2026-07-28, "Multi Round-Trip Requests").

use std::collections::{BTreeMap, BTreeSet};

use haft_core::ToolError;
use rmcp::model::{ErrorData, InputResponses};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::elicitation::{Elicitation, ElicitationResponse};

/// The maximum number of rounds in a call.
const MAX_ROUNDS: u32 = 10;
/// The code of the error `URLElicitationRequiredError` (MCP 2025-11-25, "Elicitation").
const URL_ELICITATION_REQUIRED: i32 = -32042;

/// The elicitations in a response to a call, and their responses. It is saved with a suspended
/// call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InputRound {
    /// The elicitations without a response, by key.
    open: BTreeMap<String, Elicitation>,
    /// The responses, by key.
    responses: BTreeMap<String, Value>,
    /// The state that the server expects with the responses. It is not interpreted.
    state: Option<String>,
    /// The number of this round. The first round has the number 1.
    number: u32,
    /// `true` if the elicitations are from an error of revision 2025-11-25. The call is then sent
    /// again without the responses.
    is_error: bool,
}

/// The fields of a result with the type `input_required`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    request_state: Option<String>,
}

#[derive(Deserialize)]
struct InputRequest {
    method: String,
    #[serde(default)]
    params: Value,
}

/// The data of the error `URLElicitationRequiredError`.
#[derive(Deserialize)]
struct UrlElicitations {
    elicitations: Vec<Value>,
}

impl InputRound {
    /// Parses `result`, a result with the type `input_required`. `previous` is the number of the
    /// round before it, or 0.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault if `result` is invalid, if it requests anything besides
    /// an elicitation or the list of roots, or if there were too many rounds.
    pub(crate) fn parse(result: &Value, previous: u32) -> Result<Self, String> {
        if previous >= MAX_ROUNDS {
            return Err(format!("the server requests input more than {MAX_ROUNDS} times"));
        }
        let InputRequired { input_requests, request_state: state } = InputRequired::deserialize(result)
            .map_err(|error| format!("invalid result of the type `input_required`: {error}"))?;
        if input_requests.is_empty() && state.is_none() {
            return Err("a result of the type `input_required` without requests and state".to_owned());
        }
        Ok(Self { state, ..Self::from_requests(input_requests, previous)? })
    }

    /// Parses `requests`, the open requests of a task, without those in `answered`. `previous` is
    /// the number of the round before it, or 0. Returns `None` if no request is left.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`parse`](Self::parse).
    pub(crate) fn from_task(
        requests: &Value,
        previous: u32,
        answered: &BTreeSet<String>,
    ) -> Result<Option<Self>, String> {
        let requests = Option::<BTreeMap<String, InputRequest>>::deserialize(requests)
            .map_err(|error| format!("invalid `inputRequests`: {error}"))?;
        let mut requests = requests.unwrap_or_default();
        requests.retain(|key, _| !answered.contains(key));
        if requests.is_empty() {
            return Ok(None);
        }
        if previous >= MAX_ROUNDS {
            return Err(format!("the server requests input more than {MAX_ROUNDS} times"));
        }
        Self::from_requests(requests, previous).map(Some)
    }

    fn from_requests(requests: BTreeMap<String, InputRequest>, previous: u32) -> Result<Self, String> {
        let (mut open, mut responses) = (BTreeMap::new(), BTreeMap::new());
        for (key, InputRequest { method, params }) in requests {
            match &*method {
                "elicitation/create" => {
                    let elicitation = Elicitation::parse(&params)
                        .map_err(|reason| format!("invalid elicitation {key:?}: {reason}"))?;
                    open.insert(key, elicitation);
                }
                "roots/list" => drop(responses.insert(key, json!({"roots": []}))),
                _ => return Err(format!("the server requests {method:?}, which is not supported")),
            }
        }
        Ok(Self { open, responses, state: None, number: previous + 1, is_error: false })
    }

    /// Parses `error` if it requires visits of web pages. Returns `None` if it is another error, or
    /// if there were too many rounds.
    pub(crate) fn from_error(error: &ErrorData, previous: u32) -> Option<Self> {
        if error.code.0 != URL_ELICITATION_REQUIRED || previous >= MAX_ROUNDS {
            return None;
        }
        let UrlElicitations { elicitations } = UrlElicitations::deserialize(error.data.as_ref()?).ok()?;
        let parsed = elicitations.iter().enumerate().map(|(index, params)| {
            Elicitation::parse(params).map(|elicitation| (format!("{index:04}"), elicitation))
        });
        let open = parsed.collect::<Result<BTreeMap<_, _>, _>>().ok().filter(|open| !open.is_empty())?;
        Some(Self { open, responses: BTreeMap::new(), state: None, number: previous + 1, is_error: true })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns `true` if the result has a state and no requests.
    pub(crate) fn has_no_requests(&self) -> bool {
        self.open.is_empty() && self.responses.is_empty()
    }

    /// Returns the next elicitation without a response.
    pub(crate) fn next_elicitation(&self) -> Option<&Elicitation> {
        self.open.values().next()
    }

    /// Records `response` to the [next elicitation](Self::next_elicitation).
    ///
    /// # Errors
    ///
    /// Fails if the content of the response is invalid, or if the user does not open a page that
    /// the server requires.
    pub(crate) fn respond(&mut self, response: ElicitationResponse) -> Result<(), ToolError> {
        let Some((key, elicitation)) = self.open.pop_first() else { return Ok(()) };
        let result = elicitation.encode(response).map_err(invalid_content)?;
        if self.is_error && result["action"] != "accept" {
            let message = elicitation.message;
            return Err(ToolError::Denied(format!("the user did not open the page: {message}")));
        }
        self.responses.insert(key, result);
        Ok(())
    }

    /// Returns the responses, by key.
    pub(crate) fn into_responses(self) -> InputResponses {
        self.responses
    }

    /// Adds the responses and the state to the parameters of a request.
    pub(crate) fn add_to(&self, responses: &mut Option<InputResponses>, state: &mut Option<String>) {
        if !self.is_error && !self.responses.is_empty() {
            *responses = Some(self.responses.clone());
        }
        state.clone_from(&self.state);
    }
}

/// Creates the error for the content of a response that violates the schema of its elicitation.
pub(crate) fn invalid_content(reason: String) -> ToolError {
    ToolError::Failed { message: format!("invalid content for the elicitation: {reason}"), source: None }
}

#[cfg(test)]
mod tests;
