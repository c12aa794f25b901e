use std::{fmt, sync::Arc};

use futures::{
    SinkExt as _,
    channel::mpsc::Sender,
    stream::{BoxStream, StreamExt as _},
};
use langchain_rust::{
    chain::Chain,
    language_models::{GenerateResult, LLMEvent},
    prompt::PromptArgs,
    schemas as foreign,
};
use serde_json::{Value, json};

use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput, Transcript,
    agent::{AgentError, AgentErrorKind, RunAnswer, RunStart, StopReason},
    model::ModelError,
    text::ErrorChain,
    tool::RunContext,
    usage::Usage,
};

use super::{HISTORY, IMAGES, INPUT, check_iterations};
use crate::{channel_stream::channel_stream, message::to_langchain};

/// A LangChain chain as a haft agent, for example an `AgentExecutor` or a `RouterChain`.
///
/// The text of the last new message is the variable `input`, and its images are the variable
/// `images`. The earlier messages are the variable `chat_history`. A chain with its own memory
/// keeps its own conversation as well: use one of the two.
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
    chain: Arc<dyn Chain>,
    input_key: String,
    variables: PromptArgs,
}

impl LangChainAgent {
    /// Wraps `chain`.
    pub fn new(chain: impl Into<Box<dyn Chain>>) -> Self {
        let chain = Arc::from(chain.into());
        Self { chain, input_key: INPUT.to_owned(), variables: PromptArgs::new() }
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
        let run = self.call(variables, sender);
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

    /// Runs the chain and sends its text.
    async fn call(
        &self,
        variables: PromptArgs,
        sender: &mut Sender<Event>,
    ) -> Result<GenerateResult, ModelError> {
        let _ = sender.send(Ok(RunEvent::RequestStarted { request: 1 })).await;
        let mut events = self.chain.call_stream(variables);
        while let Some(event) = events.next().await {
            match event {
                Ok(LLMEvent::Text(text)) => drop(sender.send(Ok(RunEvent::TextDelta { text })).await),
                Ok(LLMEvent::Done(result)) => return Ok(result),
                Ok(_) => {}
                Err(error) => {
                    let message = format!("the LangChain chain: {}", ErrorChain(&error));
                    return Err(ModelError::Failed { message, source: Some(error.into()) });
                }
            }
        }
        let reason = "the chain ended without a result".to_owned();
        Err(ModelError::Truncated { reason, partial: Box::default() })
    }
}

type Event = Result<RunEvent, AgentError>;

/// Returns the usage of `result`, after adding it to the counter in `context`.
fn usage(result: &GenerateResult, context: &RunContext) -> Usage {
    let tokens = result.tokens.as_ref();
    let usage = tokens.map_or_else(Usage::default, |tokens| {
        Usage::one_request(tokens.prompt_tokens.into(), tokens.completion_tokens.into())
    });
    let usage = usage.counted_as_request();
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
