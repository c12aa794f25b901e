//! Components of LangChain and haft that several tests use.

use std::{
    collections::VecDeque,
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::{Stream, stream};
use haft_langchain::langchain_rust::{
    language_models::{
        GenerateResult, LLMError, LLMEvent, LLMEventStream, TokenUsage, llm::LLM, options::CallOptions,
    },
    schemas::{Message, StreamData, ToolCall},
    tools::{FunctionTool, Tool},
};
use serde_json::{Value, json};

/// A structured LangChain tool that adds the integers `x` and `y`.
pub(crate) fn adder() -> Arc<dyn Tool> {
    #[derive(serde::Deserialize)]
    struct Add {
        x: i64,
        y: i64,
    }
    let parameters = json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    });
    Arc::new(FunctionTool::new("adder", "Adds two integers.", parameters, |add: Add| async move {
        Ok::<_, String>(add.x + add.y)
    }))
}

/// A LangChain tool with LangChain's default schema and default `parse_input`. Its error is not
/// `Send`.
pub(crate) struct Echo;

#[async_trait]
impl Tool for Echo {
    fn name(&self) -> String {
        " Echo Text ".to_owned()
    }

    fn description(&self) -> String {
        "Returns its input.".to_owned()
    }

    async fn run(&self, input: Value) -> Result<String, Box<dyn Error>> {
        #[derive(Debug, thiserror::Error)]
        #[error("the text {text} is forbidden")]
        struct Forbidden {
            text: std::rc::Rc<str>,
        }
        match input.as_str() {
            Some("secret") => Err(Box::new(Forbidden { text: "secret".into() })),
            Some(text) => Ok(format!("<{text}>")),
            None => Err("no text".into()),
        }
    }
}

/// A LangChain tool that reads its input as plain text, never as JSON.
pub(crate) struct Shout;

#[async_trait]
impl Tool for Shout {
    fn name(&self) -> String {
        "shout".to_owned()
    }

    fn description(&self) -> String {
        "Returns its input in upper case.".to_owned()
    }

    async fn run(&self, input: Value) -> Result<String, Box<dyn Error>> {
        Ok(input.as_str().ok_or("no text")?.to_uppercase())
    }

    async fn parse_input(&self, input: &str) -> Value {
        input.into()
    }
}

/// A step of a [`FakeLlm`].
#[derive(Clone)]
pub(crate) enum Step {
    /// A result, streamed as one text.
    Result(GenerateResult),
    /// The items of `LLM::stream`, or the events of `LLM::generate_stream`.
    Items(Vec<Value>),
    /// The pieces of a text, and a result unless the stream ends without one.
    Pieces(Vec<&'static str>, Option<GenerateResult>),
    /// An error.
    Error(&'static str),
}

/// A LangChain language model with a script. It records the messages and options of each request.
#[derive(Clone, Default)]
pub(crate) struct FakeLlm {
    script: Arc<Mutex<VecDeque<Step>>>,
    pub(crate) requests: Arc<Mutex<Vec<Vec<Message>>>>,
    /// The options of this clone.
    options: CallOptions,
    pub(crate) options_log: Arc<Mutex<Vec<CallOptions>>>,
}

impl FakeLlm {
    pub(crate) fn new(script: impl IntoIterator<Item = Step>) -> Self {
        Self { script: Arc::new(Mutex::new(script.into_iter().collect())), ..Self::default() }
    }

    pub(crate) fn with_results(results: impl IntoIterator<Item = GenerateResult>) -> Self {
        Self::new(results.into_iter().map(Step::Result))
    }

    fn next(&self, messages: &[Message]) -> Step {
        self.requests.lock().unwrap().push(messages.to_vec());
        self.options_log.lock().unwrap().push(self.options.clone());
        self.script.lock().unwrap().pop_front().unwrap_or(Step::Error("the script is over"))
    }
}

/// A result with a text and usage.
pub(crate) fn text(text: &str) -> GenerateResult {
    GenerateResult {
        generation: text.to_owned(),
        tokens: Some(TokenUsage::new(10, 5)),
        ..GenerateResult::default()
    }
}

/// A result with calls: id, name, arguments.
pub(crate) fn calls<const N: usize>(calls: [(&str, &str, &str); N]) -> GenerateResult {
    let calls = calls.map(|(id, name, arguments)| ToolCall::new(id, name, arguments)).to_vec();
    text("").with_tool_calls(calls)
}

#[async_trait]
impl LLM for FakeLlm {
    async fn generate(&self, messages: &[Message]) -> Result<GenerateResult, LLMError> {
        match self.next(messages) {
            Step::Result(result) => Ok(result),
            Step::Error(text) => Err(LLMError::OtherError(text.to_owned())),
            _ => Err(LLMError::OtherError("the step is for a stream".to_owned())),
        }
    }

    async fn stream(
        &self,
        messages: &[Message],
    ) -> Result<Pin<Box<dyn Stream<Item = Result<StreamData, LLMError>> + Send>>, LLMError> {
        match self.next(messages) {
            Step::Items(items) => {
                let items = items.into_iter().map(|item| Ok(StreamData::new(item, None, "")));
                Ok(Box::pin(stream::iter(items.collect::<Vec<_>>())))
            }
            _ => Err(LLMError::OtherError("the step is not for `stream`".to_owned())),
        }
    }

    fn generate_stream<'a>(&'a self, messages: &'a [Message]) -> LLMEventStream<'a> {
        let events = match self.next(messages) {
            Step::Pieces(pieces, result) => {
                let pieces = pieces.into_iter().map(|piece| Ok(LLMEvent::Text(piece.to_owned())));
                pieces.chain(result.map(|result| Ok(LLMEvent::Done(result)))).collect()
            }
            Step::Result(result) => vec![Ok(LLMEvent::Done(result))],
            Step::Error(text) => vec![Err(LLMError::OtherError(text.to_owned()))],
            Step::Items(_) => vec![Err(LLMError::OtherError("the step is for `stream`".to_owned()))],
        };
        Box::pin(stream::iter(events))
    }

    fn add_options(&mut self, options: CallOptions) {
        self.options.merge_options(options);
    }
}
