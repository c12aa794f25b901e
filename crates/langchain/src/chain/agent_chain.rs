use std::{fmt, pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures::{SinkExt as _, Stream, StreamExt as _, TryStreamExt as _, channel::mpsc::Sender};
use langchain_rust::{
    chain::{Chain, ChainError, ChainEventStream},
    language_models::{GenerateResult, LLMEvent},
    prompt::PromptArgs,
    schemas::{BaseMemory, StreamData},
};
use tokio::sync::Mutex;

use haft_core::{
    Agent, RunEvent, RunInput, RunOutput,
    agent::{AgentError, AgentErrorKind, RunAnswer},
    text::ErrorChain,
    tool::RunContext,
};

use super::{INPUT, history, inputs::InputError, message};
use crate::{append_to_memory, channel_stream::channel_stream, llm::token_usage, read_memory};

/// A haft agent as a LangChain chain.
///
/// # Input
///
/// The variable `input` is the user message, with the images in `images`. The variable
/// `chat_history` has the earlier messages, as in LangChain's agents. A [memory](Self::with_memory)
/// replaces it.
///
/// # Output
///
/// The result is the text of the answer with the tokens of the run. A reached limit, a failed
/// request or a cancelled run is [`ChainError::AgentError`], not a text. An agent with
/// `LimitAction::Answer` gives an answer at its limit. A run that is suspended,
/// for example until a call is approved, is an error too, because a chain cannot be resumed.
///
/// A stream has the text that the model writes, also before calls and in replies that the agent
/// rejects. The last event of [`call_stream`](Chain::call_stream) has the answer.
///
/// # Examples
///
/// ```no_run
/// use haft_langchain::{HaftChain, langchain_rust::{chain::{Chain, ChainError}, memory::SimpleMemory, prompt_args}};
///
/// # async fn example(agent: impl haft_core::Agent + 'static) -> Result<(), ChainError> {
/// let chain = HaftChain::new(agent).with_memory(SimpleMemory::new().into());
/// println!("{}", chain.invoke(prompt_args! {"input" => "What is 17 plus 25?"}).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HaftChain {
    agent: Arc<dyn Agent>,
    input_key: String,
    output_key: String,
    memory: Option<Arc<Mutex<dyn BaseMemory>>>,
    context: RunContext,
}

impl HaftChain {
    /// Wraps `agent`.
    pub fn new(agent: impl Agent + 'static) -> Self {
        Self {
            agent: Arc::new(agent),
            input_key: INPUT.to_owned(),
            output_key: "output".to_owned(),
            memory: None,
            context: RunContext::default(),
        }
    }

    /// Sets the variable for the user message. Default: `input`.
    #[must_use]
    pub fn with_input_key(mut self, key: impl Into<String>) -> Self {
        self.input_key = key.into();
        self
    }

    /// Sets the name of the output in [`execute`](Chain::execute). Default: `output`.
    #[must_use]
    pub fn with_output_key(mut self, key: impl Into<String>) -> Self {
        self.output_key = key.into();
        self
    }

    /// Reads the conversation from `memory` before a run, and appends the messages of a run with an
    /// answer, with calls and results. The memory is not locked during the run, so concurrent runs
    /// do not see each other's messages.
    #[must_use]
    pub fn with_memory(mut self, memory: Arc<Mutex<dyn BaseMemory>>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Sets the context of the runs, for example with a principal, host state and a cancellation
    /// token.
    #[must_use]
    pub fn with_context(mut self, context: RunContext) -> Self {
        self.context = context;
        self
    }

    /// Returns the input of a run, and the number of its earlier messages.
    async fn input(&self, inputs: &PromptArgs) -> Result<(RunInput, usize), ChainError> {
        let history = match &self.memory {
            Some(memory) => read_memory(&*memory.lock().await).await?,
            None => history(inputs).map_err(input_error)?,
        };
        let message = message(inputs, &self.input_key).map_err(input_error)?;
        let length = history.len();
        Ok((RunInput::new(message).with_history(history).with_context(self.context.clone()), length))
    }

    /// Runs the agent and sends its text.
    async fn stream_run(
        &self,
        (input, earlier): (RunInput, usize),
        sender: &mut Sender<Result<LLMEvent, ChainError>>,
    ) -> Result<GenerateResult, ChainError> {
        let mut events = self.agent.stream(input);
        while let Some(event) = events.next().await {
            match event.map_err(|error| agent_error(&error))? {
                // The receiver is gone only if this future is about to be dropped.
                RunEvent::TextDelta { text } => drop(sender.send(Ok(LLMEvent::Text(text))).await),
                RunEvent::Done { output } => return self.finish(output, earlier).await,
                _ => {}
            }
        }
        Err(agent_error(&AgentErrorKind::Incomplete.into()))
    }

    /// Saves the messages of a run after `earlier` messages, and returns its result.
    async fn finish(&self, output: RunOutput, earlier: usize) -> Result<GenerateResult, ChainError> {
        let answer =
            output.into_answer().map_err(|suspended| ChainError::AgentError(suspended.to_string()))?;
        if let Some(memory) = &self.memory {
            let new = answer.transcript.messages().get(earlier..).unwrap_or_default();
            append_to_memory(&mut *memory.lock().await, new).await?;
        }
        let RunAnswer { text, usage, .. } = answer;
        Ok(GenerateResult { generation: text, tokens: token_usage(usage), ..GenerateResult::default() })
    }
}

fn input_error(error: InputError) -> ChainError {
    match error {
        InputError::Missing(key) => ChainError::MissingInputVariable(key),
        InputError::Malformed { source, .. } => {
            ChainError::IncorrectInputVariable { source, expected_type: "messages or images".to_owned() }
        }
        InputError::Message(error) => ChainError::OtherError(error.to_string()),
    }
}

fn agent_error(error: &AgentError) -> ChainError {
    ChainError::AgentError(ErrorChain(error).to_string())
}

#[async_trait]
impl Chain for HaftChain {
    async fn call(&self, inputs: PromptArgs) -> Result<GenerateResult, ChainError> {
        let (input, earlier) = self.input(&inputs).await?;
        let output = self.agent.run(input).await.map_err(|error| agent_error(&error))?;
        self.finish(output, earlier).await
    }

    async fn stream(
        &self,
        inputs: PromptArgs,
    ) -> Result<Pin<Box<dyn Stream<Item = Result<StreamData, ChainError>> + Send>>, ChainError> {
        let (chain, input) = (self.clone(), self.input(&inputs).await?);
        let events = channel_stream(move |mut sender| async move {
            let end = chain.stream_run(input, &mut sender).await;
            let _ = sender.send(end.map(LLMEvent::Done)).await;
        });
        let items = events.map_ok(|event| match event {
            LLMEvent::Text(text) => StreamData::new(text.clone().into(), None, text),
            LLMEvent::Done(result) => StreamData::new(result.generation.into(), result.tokens, String::new()),
            _ => StreamData::new(serde_json::Value::Null, None, String::new()),
        });
        Ok(Box::pin(items))
    }

    fn call_stream<'a>(&'a self, inputs: PromptArgs) -> ChainEventStream<'a> {
        let events = channel_stream(move |mut sender| async move {
            let end = match self.input(&inputs).await {
                Ok(input) => self.stream_run(input, &mut sender).await,
                Err(error) => Err(error),
            };
            let _ = sender.send(end.map(LLMEvent::Done)).await;
        });
        Box::pin(events)
    }

    fn get_input_keys(&self) -> Vec<String> {
        vec![self.input_key.clone()]
    }

    fn get_output_keys(&self) -> Vec<String> {
        vec![self.output_key.clone()]
    }
}

impl fmt::Debug for HaftChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HaftChain")
            .field("input_key", &self.input_key)
            .field("output_key", &self.output_key)
            .field("has_memory", &self.memory.is_some())
            .finish_non_exhaustive()
    }
}
