//! The variables of a chain as messages.

use langchain_rust::{
    prompt::PromptArgs,
    schemas::{ImageContent, Message as ForeignMessage},
};
use serde_json::Value;

use haft_core::{Message, Transcript};

use super::{HISTORY, IMAGES};
use crate::message::{MessageError, conversation, from_langchain};

/// The reason why variables are not the input of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("the variable `{0}` is missing")]
    Missing(String),
    #[error("the variable `{variable}` is malformed: {source}")]
    Malformed { variable: &'static str, source: serde_json::Error },
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// Returns the user message: the variable `key`, and the images in `images`.
pub(crate) fn message(inputs: &PromptArgs, key: &str) -> Result<Message, InputError> {
    let input = inputs.get(key).ok_or_else(|| InputError::Missing(key.to_owned()))?;
    let text = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
    let mut message = ForeignMessage::new_human_message(text);
    if let Some(images) = inputs.get(IMAGES).filter(|images| !images.is_null()) {
        message = message.with_images(read_images(images)?);
    }
    let mut messages = from_langchain([message])?;
    Ok(messages.remove(0))
}

/// Reads one image or a list of images. An image is a URL or an object.
fn read_images(images: &Value) -> Result<Vec<ImageContent>, InputError> {
    let list = images.as_array().map_or(std::slice::from_ref(images), Vec::as_slice);
    let read = |image: &Value| match image {
        Value::String(url) => Ok(ImageContent::from(url)),
        other => serde_json::from_value(other.clone()),
    };
    let images: Result<_, _> = list.iter().map(read).collect();
    images.map_err(|source| InputError::Malformed { variable: IMAGES, source })
}

/// Returns the earlier messages in the variable `chat_history`. Empty if it is missing.
pub(crate) fn history(inputs: &PromptArgs) -> Result<Transcript, InputError> {
    let Some(history) = inputs.get(HISTORY).filter(|history| !history.is_null()) else {
        return Ok(Transcript::new());
    };
    let messages = ForeignMessage::messages_from_value(history)
        .map_err(|source| InputError::Malformed { variable: HISTORY, source })?;
    Ok(conversation(messages)?)
}
