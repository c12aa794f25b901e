use std::{error::Error, fmt, sync::Arc};

use futures::{
    SinkExt as _,
    channel::mpsc::Sender,
    stream::{BoxStream, StreamExt as _},
};
use langchain_rust::{
    chain::{Chain, ChainError},
    language_models::{GenerateResult, LLMEvent},
    prompt::PromptArgs,
    schemas::{self as foreign, BaseMemory},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput, Transcript,
    agent::{AgentError, AgentErrorKind, RunAnswer, RunStart, StopReason},
    model::ModelError,
    text::{ErrorChain, truncate_with_ellipsis},
    tool::RunContext,
    usage::Usage,
};

use super::{HISTORY, IMAGES, INPUT, check_iterations};
use crate::{
    HaftMemory,
    channel_stream::channel_stream,
    llm,
    message::to_langchain,
    model::{MAX_MESSAGE_BYTES, from_langchain},
};

/// A LangChain chain as a haft agent, for example an `LLMMathChain` or an `AgentExecutor`.
///
/// The text of the last new message is the variable `input`, and its images are the variable
/// `images`. The earlier messages are the variable `chat_history`.
///
/// An `AgentExecutor` and a `ConversationalChain` ignore this variable and read their own memory.
/// For a conversation, build them for each run with [`from_fn`](Self::from_fn). A memory that is
/// shared between runs mixes their conversations.
///
/// A run is one request without steps, because a chain does not report its calls. The limits of the
/// run are not applied inside of the chain. The result `Max iterations reached` of an
/// `AgentExecutor` is an error. A chain cannot be suspended.
///
/// # Examples
///
/// ```no_run
/// use haft_core::Agent;
/// use haft_langchain::{HaftLlm, LangChainAgent, langchain_rust::chain::LLMMathChain};
///
/// # async fn example(model: impl haft_core::ChatModel + 'static) -> Result<(), Box<dyn std::error::Error>> {
/// let agent = LangChainAgent::new(LLMMathChain::new(HaftLlm::new(model))).with_input_key("question");
/// println!("{}", agent.run("What is 17 to the power of 3?".into()).await?.text()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LangChainAgent {
    chain: Arc<ChainFactory>,
    input_key: String,
    variables: PromptArgs,
}

/// Returns the chain of a run with the given history.
type ChainFactory = dyn Fn(HaftMemory) -> Result<Arc<dyn Chain>, ModelError> + Send + Sync;

impl LangChainAgent {
    /// Wraps `chain`, which is used for all runs.
    pub fn new(chain: impl Into<Box<dyn Chain>>) -> Self {
        let chain: Arc<dyn Chain> = Arc::from(chain.into());
        Self::with_factory(move |_| Ok(Arc::clone(&chain)))
    }

    /// Calls `build` for the chain of each run. The memory has the earlier messages of the run. An
    /// error of `build` fails the run.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_langchain::{
    ///     HaftLlm, LangChainAgent,
    ///     langchain_rust::{
    ///         agent::{AgentExecutor, OpenAiToolAgentBuilder},
    ///         tools::{Calculator, Tool},
    ///     },
    /// };
    /// use std::sync::Arc;
    ///
    /// fn agent(llm: HaftLlm) -> LangChainAgent {
    ///     let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Calculator::new())];
    ///     LangChainAgent::from_fn(move |memory| {
    ///         let agent = OpenAiToolAgentBuilder::new().tools(&tools).build(llm.clone());
    ///         agent.map(|agent| AgentExecutor::from_agent(agent).with_memory(memory))
    ///     })
    /// }
    /// ```
    pub fn from_fn<C, E>(
        build: impl Fn(Arc<Mutex<dyn BaseMemory>>) -> Result<C, E> + Send + Sync + 'static,
    ) -> Self
    where
        C: Into<Box<dyn Chain>>,
        E: Error + 'static,
    {
        Self::with_factory(move |memory| match build(memory.into()) {
            Ok(chain) => Ok(Arc::from(chain.into())),
            Err(error) => Err(failed(&error)),
        })
    }

    fn with_factory(
        chain: impl Fn(HaftMemory) -> Result<Arc<dyn Chain>, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self { chain: Arc::new(chain), input_key: INPUT.to_owned(), variables: PromptArgs::new() }
    }

    /// Sets the variable for the text of the message. Default: `input`.
    #[must_use]
    pub fn with_input_key(mut self, key: impl Into<String>) -> Self {
        self.input_key = key.into();
        self
    }

    /// Sets a variable for all runs.
    #[must_use]
    pub fn with_variable(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.variables.insert(key.into(), value.into());
        self
    }

    fn variables(&self, messages: &[foreign::Message]) -> Option<PromptArgs> {
        let (last, earlier) = messages.split_last()?;
        let mut variables = self.variables.clone();
        variables.insert(HISTORY.to_owned(), json!(earlier));
        variables.insert(self.input_key.clone(), last.content.as_str().into());
        if let Some(images) = &last.images {
            variables.insert(IMAGES.to_owned(), json!(images));
        }
        Some(variables)
    }

    async fn run_chain(&self, input: RunInput, sender: &mut Sender<Event>) -> Result<RunAnswer, AgentError> {
        let RunInput { start, context, .. } = input;
        let RunStart::New { messages, mut transcript } = start else {
            let message = "a LangChain chain is never suspended, so it cannot be resumed".to_owned();
            return Err(AgentErrorKind::InvalidInput(message).into());
        };
        transcript.extend(messages.into_iter().map(Arc::new));
        let fail = |kind: AgentErrorKind, usage| {
            AgentError::from(kind).with_transcript_and_usage(transcript.clone(), usage)
        };
        let foreign: Vec<_> = transcript.messages().iter().map(|message| to_langchain(message)).collect();
        let is_question =
            foreign.last().is_some_and(|last| last.message_type == foreign::MessageType::HumanMessage);
        let Some(variables) = self.variables(&foreign).filter(|_| is_question) else {
            let message = "the last message must be from the user".to_owned();
            return Err(fail(AgentErrorKind::InvalidInput(message), Usage::default()));
        };
        let history = transcript.messages().split_last().map(|(_, earlier)| earlier).unwrap_or_default();
        let mut memory = Transcript::new();
        memory.extend(history.iter().cloned());
        let chain =
            (self.chain)(HaftMemory::new(memory)).map_err(|error| fail(error.into(), Usage::default()))?;
        let run = call(&*chain, variables, sender);
        let Some(result) = context.cancellation.run_until_cancelled(run).await else {
            return Err(fail(AgentErrorKind::Cancelled, Usage::default()));
        };
        let result = result.map_err(|error| fail(error.into(), Usage::failed_request()))?;
        let usage = usage(&result, &context);
        // The receiver is gone only if this future is about to be dropped.
        let _ = sender.send(Ok(RunEvent::RequestFinished { usage })).await;
        let failed = |message| ModelError::Failed { message, source: None };
        check_iterations(&result).map_err(|message| fail(failed(message).into(), usage))?;
        Ok(answer(result.generation, usage, transcript))
    }
}

type Event = Result<RunEvent, AgentError>;

/// Runs `chain` and sends its text.
async fn call(
    chain: &dyn Chain,
    variables: PromptArgs,
    sender: &mut Sender<Event>,
) -> Result<GenerateResult, ModelError> {
    let _ = sender.send(Ok(RunEvent::RequestStarted { request: 1 })).await;
    let mut events = chain.call_stream(variables);
    while let Some(event) = events.next().await {
        match event {
            Ok(LLMEvent::Text(text)) => drop(sender.send(Ok(RunEvent::TextDelta { text })).await),
            Ok(LLMEvent::Done(result)) => return Ok(result),
            Ok(_) => {}
            Err(ChainError::LLMError(error)) => return Err(from_langchain(error)),
            Err(error) => return Err(failed(&error)),
        }
    }
    let reason = "the chain ended without a result".to_owned();
    Err(ModelError::Truncated { reason, partial: Box::default() })
}

/// Creates the error of a chain. The text can contain the response of a server, so it is truncated.
fn failed(error: &(dyn Error + 'static)) -> ModelError {
    let text = format!("the LangChain chain: {}", ErrorChain(error));
    ModelError::Failed {
        message: truncate_with_ellipsis(&text, MAX_MESSAGE_BYTES).into_owned(),
        source: None,
    }
}

/// Returns the usage of `result`, after adding it to the counter in `context`.
fn usage(result: &GenerateResult, context: &RunContext) -> Usage {
    let usage = llm::usage(result.tokens.as_ref()).counted_as_request();
    if let Some(meter) = &context.usage {
        meter.add(usage);
    }
    usage
}

fn answer(text: String, usage: Usage, mut transcript: Transcript) -> RunAnswer {
    transcript.push(Message::assistant(text.as_str()));
    RunAnswer {
        text,
        outputs: serde_json::Map::new(),
        value: None,
        steps: Vec::new(),
        usage,
        stop_reason: StopReason::Finished,
        agent: None,
        guardrails: Vec::new(),
        transcript,
    }
}

impl Agent for LangChainAgent {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let agent = self.clone();
        let events = channel_stream(move |mut sender| async move {
            let end = agent.run_chain(input, &mut sender).await;
            let end = end.map(|answer| RunEvent::Done { output: RunOutput::Answer(Box::new(answer)) });
            let _ = sender.send(end).await;
        });
        events.boxed()
    }
}

impl fmt::Debug for LangChainAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LangChainAgent").field("input_key", &self.input_key).finish_non_exhaustive()
    }
}
