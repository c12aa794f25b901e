#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::example::{ExampleError, generate_nth_example};
use haft_core::{
    ChatModel, Message, Tool, ToolCall,
    message::{AssistantMessage, MessageBody},
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile, ResponseFormat, ToolChoice},
    usage::Usage,
};

/// A model that calls every tool once, with arguments generated from the tool's schema, and then
/// answers.
///
/// Use it as a smoke test for the tools of a program. It needs no network and no real model. The
/// arguments are generated [examples](super::generate_example): they are valid but meaningless.
/// Since an agent executes the calls, provide a test environment for tools with side effects, or
/// select the tools to call with [`with_only_tools`](Self::with_only_tools).
///
/// The first reply calls every tool that was not yet called in the conversation. With
/// [`ToolChoice::Required`] or `parallel_tool_calls: false`, each reply contains only one call.
/// After all tools have been called, the model answers. With [`ToolChoice::None`], it answers
/// immediately. Two tool choices prevent the answer: with `ToolChoice::Required`, the model repeats
/// the call of the last permitted tool, and with [`ToolChoice::Tool`], it calls the named tool in
/// every reply.
///
/// The answer depends on the [`ResponseFormat`] of the request. It is an example of the schema for
/// `JsonSchema`, and `{}` for `JsonObject`. For `Text`, it is the text set with
/// [`with_answer`](Self::with_answer), by default a JSON object with tool names as keys and results
/// as values.
///
/// # Examples
///
/// ```
/// use haft_core::{ChatModel, Message, model::ChatRequest, tool, Toolset, toolset::ListContext};
/// use haft_testing::TestModel;
///
/// /// Finds pages.
/// #[tool]
/// fn search(query: String, #[tool(default = 5)] limit: u32) -> String {
///     format!("{limit} of {query}")
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let tools = Toolset::new().with_tool(Search).list(&ListContext::default()).await;
/// let request = ChatRequest::new([Message::user("Try all tools.")]).with_tools(tools);
/// let reply = TestModel::new().chat(&request).await?;
/// assert_eq!(reply.message.tool_calls[0].arguments, r#"{"query":"a"}"#);
/// # Ok::<(), haft_core::model::ModelError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestModel {
    profile: ModelProfile,
    only_tools: Option<BTreeSet<String>>,
    answer: Option<String>,
}

/// The error text for a request with [`ToolChoice::Required`] that has no tool to call.
const NO_TOOL: &str = "a tool call is required, but the request has no tool that may be called; if \
    `with_only_tools` is set, add the name of a tool, such as the output tool of an agent";

/// The source of the [`ModelError::Failed`] that a [`TestModel`] returns if it cannot generate
/// arguments for a tool. Valid arguments may still exist, because the search is not exhaustive.
#[derive(Debug, thiserror::Error)]
#[error("tool \"{tool}\" cannot be called: {reason}")]
struct ArgumentsError {
    tool: String,
    reason: ExampleError,
}

impl Default for TestModel {
    fn default() -> Self {
        Self { profile: ModelProfile::new("test"), only_tools: None, answer: None }
    }
}

impl TestModel {
    /// Creates a model that calls all tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the profile of the model. The default profile has the name `test` and supports native
    /// tools and JSON schemas.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Restricts the calls to the tools in `names`. A request with [`ToolChoice::Tool`] overrides
    /// the restriction.
    ///
    /// With [`ToolChoice::Required`], the reply is an error if the request has none of the tools in
    /// `names`. An agent with structured outputs requires a call of its output tool for the answer,
    /// so include the name of this tool: `finish` in `haft-react`.
    #[must_use]
    pub fn with_only_tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.only_tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the text of the final answer to requests with the format [`ResponseFormat::Text`]. By
    /// default, the answer is a JSON object with tool names as keys and call results as values.
    #[must_use]
    pub fn with_answer(mut self, text: impl Into<String>) -> Self {
        self.answer = Some(text.into());
        self
    }

    /// Returns the tool calls of the reply to `request`. Empty if the reply is the final answer.
    fn next_calls(&self, request: &ChatRequest) -> Result<Vec<ToolCall>, ModelError> {
        let earlier: Vec<_> = request.messages.iter().flat_map(|message| message.tool_calls()).collect();
        let is_new = |name: &str| !earlier.iter().any(|call| call.name == name);
        let is_wanted = |name: &str| self.only_tools.as_ref().is_none_or(|only| only.contains(name));
        let tools = request.tools.tools().iter();
        let named = |tool: &dyn Tool| tool.definition().name().as_str().to_owned();
        let chosen: Vec<_> = match &request.tool_choice {
            ToolChoice::None => Vec::new(),
            ToolChoice::Tool(name) => tools.filter(|tool| tool.definition().name() == name).take(1).collect(),
            // If all tools were called, call the last tool again. It is usually the output tool of
            // an agent.
            ToolChoice::Required => {
                let mut wanted = tools.filter(|tool| is_wanted(&named(tool)));
                let last = wanted.clone().next_back();
                let next = wanted.find(|tool| is_new(&named(tool))).or(last);
                vec![next.ok_or_else(|| ModelError::Unsupported(NO_TOOL.to_owned()))?]
            }
            ToolChoice::Auto => {
                let limit = if request.settings.parallel_tool_calls == Some(false) { 1 } else { usize::MAX };
                tools.filter(|tool| is_new(&named(tool)) && is_wanted(&named(tool))).take(limit).collect()
            }
        };
        let first = earlier.len() + 1;
        let call = |(number, tool): (usize, &std::sync::Arc<dyn Tool>)| {
            let definition = tool.definition();
            let arguments = generate_nth_example(definition.input_schema(), 0)
                .map_err(|reason| ModelError::failed(ArgumentsError { tool: named(tool), reason }))?;
            Ok(ToolCall::new(format!("test_{number}"), named(tool), arguments.to_string()))
        };
        (first..).zip(chosen).map(call).collect()
    }

    fn answer_text(&self, request: &ChatRequest) -> Result<String, ExampleError> {
        match &request.response_format {
            ResponseFormat::JsonSchema { schema, .. } => {
                // Generate a different example in each reply. In a dialect that encodes calls as
                // JSON, the schema has an alternative for each tool, so successive replies call
                // different tools.
                let replies =
                    request.messages.iter().filter(|it| matches!(it.body(), MessageBody::Assistant(_)));
                generate_nth_example(schema, replies.count()).map(|value| value.to_string())
            }
            ResponseFormat::JsonObject => Ok("{}".to_owned()),
            ResponseFormat::Text => Ok(self.answer.clone().unwrap_or_else(|| results_json(request))),
        }
    }
}

/// Returns a JSON object that maps the name of each called tool to the result of its last call.
fn results_json(request: &ChatRequest) -> String {
    let result = |message: &Message| match message.body() {
        MessageBody::Tool(result) => Some((result.name.clone(), Value::from(&*result.model_text()))),
        _ => None,
    };
    let results: Map<_, _> = request.messages.iter().filter_map(|message| result(message)).collect();
    Value::Object(results).to_string()
}

#[async_trait]
impl ChatModel for TestModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let calls = self.next_calls(request)?;
        let message = if calls.is_empty() {
            AssistantMessage::from(self.answer_text(request).map_err(ModelError::failed)?)
        } else {
            AssistantMessage { tool_calls: calls, ..AssistantMessage::default() }
        };
        Ok(ChatResponse { usage: Usage::one_request(0, 0), ..ChatResponse::new(message) })
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}
