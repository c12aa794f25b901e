//! What the model is made to call.

use haft_core::{ToolName, agent::AgentErrorKind, message::AssistantMessage, model::ToolChoice};

use super::{Run, Step};

impl Run {
    /// What the next request asks the model for, unless its [step](Step::tool_choice) says otherwise. A model that was made to
    /// call, and has called, decides by itself: else it would call for ever.
    pub fn tool_choice(&self) -> ToolChoice {
        match &self.head.config.tool_choice {
            ToolChoice::Required | ToolChoice::Tool(_) if self.head.has_called => ToolChoice::Auto,
            choice => choice.clone(),
        }
    }

    /// What this request asks the model for.
    pub(super) fn choose(&self, step: &Step<'_>) -> Result<ToolChoice, AgentErrorKind> {
        if self.head.must_answer() {
            return Ok(ToolChoice::Auto);
        }
        let choice = step.tool_choice.cloned().unwrap_or_else(|| self.tool_choice());
        let wanted = match &choice {
            ToolChoice::Required if step.tools.is_empty() => "a tool".to_owned(),
            ToolChoice::Tool(name) if step.tools.get(name.as_str()).is_none() => {
                format!("{:?}", name.as_str())
            }
            _ => return Ok(choice),
        };
        let available = step.tools.names().map(ToString::to_string).collect();
        Err(AgentErrorKind::ToolChoice { wanted, available })
    }

    /// What a reply lacks that the model was asked for: not every server holds it to that.
    pub(super) fn unmet(&self, reply: &AssistantMessage) -> Option<String> {
        let calls = &reply.tool_calls;
        let calls_tool = |name: &ToolName| calls.iter().any(|call| call.name == name.as_str());
        match &self.head.tool_choice {
            _ if self.head.must_answer() => None,
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
