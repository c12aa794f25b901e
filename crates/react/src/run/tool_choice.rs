//! The tool choice of model requests.

use haft_core::{ToolName, agent::AgentErrorKind, message::AssistantMessage, model::ToolChoice};

use super::{
    Run, Step,
    state::{RequestPurpose, SentRequest},
};

impl Run {
    /// Returns the tool choice of the next request, unless [`Step::tool_choice`] overrides it.
    /// Requests in which the model must answer, such as the final request after a limit, ignore the
    /// tool choice.
    ///
    /// After the model has made the required call, the tool choice is [`ToolChoice::Auto`].
    pub fn tool_choice(&self) -> ToolChoice {
        self.head.config.tool_choice.clone()
    }

    /// Returns the tool choice for a request with this `purpose`. Fails if the chosen tool is not
    /// available in `step`, or if a call is required and `step` has no tools.
    pub(super) fn effective_tool_choice(
        &self,
        purpose: RequestPurpose,
        step: &Step<'_>,
    ) -> Result<ToolChoice, AgentErrorKind> {
        if purpose.must_answer() {
            return Ok(ToolChoice::Auto);
        }
        let choice = step.tool_choice.cloned().unwrap_or_else(|| self.tool_choice());
        let required = match &choice {
            ToolChoice::Required if step.tools.is_empty() => "a tool".to_owned(),
            ToolChoice::Tool(name) if step.tools.get(name.as_str()).is_none() => {
                format!("{:?}", name.as_str())
            }
            _ => return Ok(choice),
        };
        let available = step.tools.names().map(ToString::to_string).collect();
        Err(AgentErrorKind::UnavailableToolChoice { required, available })
    }

    /// Returns an error text for the model if `reply` ignores the tool choice of `request`. `None`
    /// if `reply` follows it. The check is needed because some servers do not enforce
    /// `tool_choice`.
    pub(super) fn tool_choice_problem(request: &SentRequest, reply: &AssistantMessage) -> Option<String> {
        let calls = &reply.tool_calls;
        let calls_tool = |name: &ToolName| calls.iter().any(|call| call.name == name.as_str());
        match &request.tool_choice {
            _ if request.purpose.must_answer() => None,
            ToolChoice::None if !calls.is_empty() => Some("No calls can be made now: answer.".to_owned()),
            ToolChoice::Required if calls.is_empty() => {
                Some("Call a tool first: answer when you know what it returns.".to_owned())
            }
            ToolChoice::Tool(name) if !calls_tool(name) => {
                Some(format!("Call \"{name}\" first: go on when you know what it returns."))
            }
            _ => None,
        }
    }
}
