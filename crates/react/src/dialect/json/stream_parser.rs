//! Streams the thought and the answer of a JSON step before the step is complete.

mod string_scanner;

use haft_core::{Schema, model::ChatEvent};

use super::{
    super::{
        FINISH, ReplyDelta, StreamParser,
        step::{ANSWER_KEY, DeltaBuffer, ThoughtSource},
    },
    JsonFormat, key,
};

pub(in super::super) use string_scanner::StringScanner;

/// The streaming parser of [`JsonReact`](super::JsonReact), for one reply.
pub(super) struct JsonStreamParser {
    strings: StringScanner,
    tool_name: String,
    deltas: DeltaBuffer,
    /// `true` if the scanner is inside the object or list of the arguments.
    is_in_arguments: bool,
    /// The received arguments that were not emitted yet, as JSON text.
    arguments: String,
    has_call: bool,
    /// The schema of the answer, or `None` if the answer is plain text.
    outputs: Option<Schema>,
}

impl JsonStreamParser {
    pub(super) fn new(outputs: Option<&Schema>) -> Self {
        Self {
            strings: StringScanner::default(),
            tool_name: String::new(),
            deltas: DeltaBuffer::default(),
            is_in_arguments: false,
            arguments: String::new(),
            has_call: false,
            outputs: outputs.cloned(),
        }
    }

    fn push_text(&mut self, text: &str) {
        for character in text.chars() {
            let decoded = self.strings.push(character).map(|(_, decoded)| decoded);
            self.push_argument(character);
            let Some(decoded) = decoded else { continue };
            let path = self.strings.path();
            let is_finish = self.tool_name == FINISH && self.outputs.is_none();
            match path {
                [top] if top == key::THOUGHT => {
                    self.deltas.push_thought(ThoughtSource::Step, decoded.encode_utf8(&mut [0; 4]));
                }
                [top] if top == key::TOOL_NAME => self.tool_name.push(decoded),
                [top, argument] if is_finish && top == key::TOOL_ARGS && argument == ANSWER_KEY => {
                    self.deltas.push_answer(decoded.encode_utf8(&mut [0; 4]));
                }
                _ => {}
            }
        }
    }

    /// Adds `character` to the text of the arguments if it is part of them. The arguments are
    /// streamed if they are an object or a list after the name of the tool.
    fn push_argument(&mut self, character: char) {
        let path = self.strings.path();
        let begins = !self.is_in_arguments
            && matches!(path, [top, _] if top == key::TOOL_ARGS)
            && matches!(character, '{' | '[')
            && !self.tool_name.is_empty();
        if begins || self.is_in_arguments {
            self.arguments.push(character);
            self.is_in_arguments = path.len() > 1;
        }
    }

    /// Removes and returns the deltas for the new text of the arguments.
    fn take_arguments(&mut self) -> Vec<ReplyDelta> {
        let arguments = std::mem::take(&mut self.arguments);
        match (self.tool_name == FINISH, &self.outputs) {
            _ if arguments.is_empty() => Vec::new(),
            (true, Some(_)) => vec![ReplyDelta::Output(arguments)],
            (true, None) => Vec::new(),
            (false, _) => {
                let started = (!std::mem::replace(&mut self.has_call, true)).then(|| {
                    ReplyDelta::CallStarted { index: 0, id: String::new(), name: self.tool_name.clone() }
                });
                started.into_iter().chain([ReplyDelta::CallArguments { index: 0, arguments }]).collect()
            }
        }
    }
}

impl StreamParser for JsonStreamParser {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        match event {
            ChatEvent::TextDelta { text } => {
                let text = self.deltas.split_thinking(text);
                self.push_text(&text);
            }
            ChatEvent::ReasoningDelta { text } => self.deltas.push_thought(ThoughtSource::Reasoning, text),
            ChatEvent::Finished(response) => {
                let text = self.deltas.finish_thinking();
                self.push_text(&text);
                self.deltas.complete::<JsonFormat>(response, self.outputs.as_ref());
            }
            _ => {}
        }
        let mut deltas = self.deltas.take();
        deltas.extend(self.take_arguments());
        deltas
    }
}
