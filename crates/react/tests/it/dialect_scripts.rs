//! Scripts of a model in each dialect, for tests whose rule holds in all dialects.

use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput,
    agent::{AgentError, SuspendedRun},
    model::ModelProfile,
};
use haft_react::ReactAgent;
use haft_testing::ScriptedModel;
use serde_json::json;

/// The format in which a scripted model writes its calls and answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Script {
    Native,
    Json,
    Text,
}

pub(crate) const SCRIPTS: [Script; 3] = [Script::Native, Script::Json, Script::Text];

impl Script {
    /// Creates a model without replies, whose default dialect is the dialect of this script.
    pub(crate) fn model(self) -> ScriptedModel {
        let profile = ModelProfile::new("scripted");
        ScriptedModel::new().with_profile(ModelProfile {
            supports_native_tools: self == Self::Native,
            supports_json_schema: self != Self::Text,
            ..profile
        })
    }

    /// Adds a reply with one call to `model`. Only native calls have the id `id`.
    pub(crate) fn call(self, model: ScriptedModel, (id, tool, arguments): Call<'_>) -> ScriptedModel {
        match self {
            Self::Native => model.reply_calls([(id, tool, arguments)]),
            Self::Json => model
                .reply_text(format!(r#"{{"thought":"Go.","tool_name":"{tool}","tool_args":{arguments}}}"#)),
            Self::Text => model.reply_text(format!("Thought: Go.\nAction: {tool}\nArguments: {arguments}\n")),
        }
    }

    /// Adds the answer `text` to `model`.
    pub(crate) fn answer(self, model: ScriptedModel, text: &str) -> ScriptedModel {
        match self {
            Self::Native => model.reply_text(text),
            _ => self.call(model, ("", "finish", &json!({ "answer": text }).to_string())),
        }
    }

    /// Creates a model that makes `calls` one by one, and then answers `answer`.
    pub(crate) fn replies(self, calls: &[Call<'_>], answer: &str) -> ScriptedModel {
        let model = calls.iter().fold(self.model(), |model, call| self.call(model, *call));
        self.answer(model, answer)
    }
}

/// The id, the tool and the arguments of a call.
pub(crate) type Call<'a> = (&'a str, &'a str, &'a str);

/// Runs `agent` with [`ReactAgent::run`], or with [`ReactAgent::stream`] if `streamed` is `true`.
pub(crate) async fn run_or_stream(
    agent: &ReactAgent,
    input: impl Into<RunInput>,
    streamed: bool,
) -> Result<RunOutput, AgentError> {
    if !streamed {
        return agent.run(input).await;
    }
    let mut events = agent.stream(input);
    while let Some(event) = events.next().await {
        if let RunEvent::Done { output } = event? {
            return Ok(output);
        }
    }
    panic!("the stream has no last event")
}

/// Returns the suspended run in `output`, after a round trip through JSON.
#[track_caller]
pub(crate) fn reloaded(output: RunOutput) -> SuspendedRun {
    let suspended = output.into_answer().unwrap_err();
    serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap()
}
