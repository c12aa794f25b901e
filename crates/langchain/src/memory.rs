use std::sync::Arc;

use async_trait::async_trait;
use langchain_rust::schemas::{self as foreign, BaseMemory, memory::MemoryError};
use tokio::sync::Mutex;

use haft_core::{Message, Transcript};

use crate::message::{MessageError, conversation, from_langchain, to_langchain};

/// A haft transcript as a LangChain memory, for the `memory` method of chains and executors.
///
/// The messages of the transcript keep their reasoning, metadata and results. A new
/// message is converted with [`from_langchain`]. `clear` starts a new transcript.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use haft_core::{Message, Transcript};
/// use haft_langchain::{HaftMemory, langchain_rust::schemas::BaseMemory};
/// use tokio::sync::Mutex;
///
/// # futures::executor::block_on(async {
/// let transcript = Transcript::from_iter([Message::user("Hello")]);
/// let memory = Arc::new(Mutex::new(HaftMemory::new(transcript)));
/// // Pass a clone to `AgentExecutor::with_memory`, which adds messages:
/// memory.lock().await.add_ai_message(&"Good morning").await?;
/// assert_eq!(memory.lock().await.transcript().messages()[1].text(), "Good morning");
/// # Ok::<(), haft_langchain::langchain_rust::schemas::memory::MemoryError>(())
/// # })?;
/// # Ok::<(), haft_langchain::langchain_rust::schemas::memory::MemoryError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct HaftMemory {
    transcript: Transcript,
}

impl HaftMemory {
    /// Creates a memory that starts with the messages of `transcript`.
    pub fn new(transcript: impl Into<Transcript>) -> Self {
        Self { transcript: transcript.into() }
    }

    /// Returns the transcript with all added messages.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }
}

#[async_trait]
impl BaseMemory for HaftMemory {
    async fn messages(&self) -> Result<Vec<foreign::Message>, MemoryError> {
        Ok(self.transcript.messages().iter().map(|message| to_langchain(message)).collect())
    }

    async fn add_message(&mut self, message: foreign::Message) -> Result<(), MemoryError> {
        let is_result = message.message_type == foreign::MessageType::ToolMessage;
        let call_id = message.id.clone().filter(|_| is_result);
        // The name of a result is in the message with its call.
        let call = call_id.and_then(|id| find_call(&self.transcript, &id));
        let index = self.transcript.len();
        let new = from_langchain(call.into_iter().chain([message]))
            .map_err(|error| memory_error(error.with_index(index)))?;
        self.transcript.extend(new.into_iter().last().map(Arc::new));
        Ok(())
    }

    async fn clear(&mut self) -> Result<(), MemoryError> {
        self.transcript = Transcript::new();
        Ok(())
    }
}

impl From<HaftMemory> for Arc<Mutex<dyn BaseMemory>> {
    fn from(memory: HaftMemory) -> Self {
        Arc::new(Mutex::new(memory))
    }
}

/// Returns the message with the last call with the id `id`.
fn find_call(transcript: &Transcript, id: &str) -> Option<foreign::Message> {
    let mut messages = transcript.messages().iter().rev();
    messages.find(|message| message.tool_calls().iter().any(|call| call.id == id)).map(|it| to_langchain(it))
}

fn memory_error(error: MessageError) -> MemoryError {
    MemoryError::Other(error.to_string())
}

/// Reads the messages of `memory` as a transcript, for example as the history of a haft agent.
///
/// Results without an earlier call are dropped, because a memory with a window, such as
/// `WindowBufferMemory`, evicts a call before its results. A memory can also end with a call
/// without a result, for example after an aborted turn. The agent for such a conversation needs
/// `ReactAgentBuilder::repair_history`.
///
/// # Errors
///
/// Fails if the memory cannot be read, or with [`MemoryError::Other`] if a message has malformed
/// calls or images.
pub async fn read_memory(memory: &dyn BaseMemory) -> Result<Transcript, MemoryError> {
    conversation(memory.messages().await?).map_err(memory_error)
}

/// Appends `messages` to `memory`, in order, with their calls and call ids. To save the last turn
/// of an agent, pass the messages of its transcript that follow the history.
///
/// # Errors
///
/// Fails with the error of the memory. The messages before the failure are in the memory.
///
/// # Examples
///
/// ```
/// use haft_core::{Message, Transcript};
/// use haft_langchain::{append_to_memory, langchain_rust::memory::SimpleMemory, read_memory};
///
/// # futures::executor::block_on(async {
/// let mut memory = SimpleMemory::new();
/// let history = read_memory(&memory).await?;
/// // The transcript of a run that continued `history`:
/// let transcript = Transcript::from_iter([Message::user("Hello"), Message::assistant("Hi")]);
/// append_to_memory(&mut memory, &transcript.messages()[history.len()..]).await?;
/// assert_eq!(read_memory(&memory).await?.messages()[1].text(), "Hi");
/// # Ok::<(), haft_langchain::langchain_rust::schemas::memory::MemoryError>(())
/// # })?;
/// # Ok::<(), haft_langchain::langchain_rust::schemas::memory::MemoryError>(())
/// ```
pub async fn append_to_memory(
    memory: &mut dyn BaseMemory,
    messages: &[Arc<Message>],
) -> Result<(), MemoryError> {
    for message in messages {
        memory.add_message(to_langchain(message)).await?;
    }
    Ok(())
}
