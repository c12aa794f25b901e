//! Streams the thought, the answer and the call of a JSON step before the step is complete.

use std::mem;

use haft_core::Schema;

use super::{StringScanner, keys};
use crate::{
    FINISH, ReplyDelta,
    step::{ANSWER_KEY, DeltaBuffer, StepScanner, ThoughtSource},
};

/// The scanner of a streamed [`JsonReact`](super::JsonReact) step.
#[derive(Default)]
pub(crate) struct JsonScanner {
    strings: StringScanner,
    tool_name: String,
    /// `true` if the scanner is inside the object or list of the arguments.
    is_in_arguments: bool,
    has_call: bool,
}

impl StepScanner for JsonScanner {
    fn push(&mut self, text: &str, _is_end: bool, outputs: Option<&Schema>, deltas: &mut DeltaBuffer) {
        let mut arguments = String::new();
        for character in text.chars() {
            let decoded = self.strings.push(character).map(|(_, decoded)| decoded);
            if self.is_argument(character) {
                arguments.push(character);
            }
            if let Some(decoded) = decoded {
                self.push_decoded(decoded, outputs.is_some(), deltas);
            }
        }
        if !arguments.is_empty() {
            self.push_arguments(arguments, outputs.is_some(), deltas);
        }
    }
}

impl JsonScanner {
    /// Adds `decoded`, a character of the current string value.
    fn push_decoded(&mut self, decoded: char, has_outputs: bool, deltas: &mut DeltaBuffer) {
        match self.strings.path() {
            [top] if top == keys::THOUGHT => {
                deltas.push_thought(ThoughtSource::Step, decoded.encode_utf8(&mut [0; 4]));
            }
            [top] if top == keys::TOOL_NAME => self.tool_name.push(decoded),
            [top, argument]
                if top == keys::TOOL_ARGS
                    && argument == ANSWER_KEY
                    && self.tool_name == FINISH
                    && !has_outputs =>
            {
                deltas.push_answer(decoded.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
    }

    /// Returns `true` if `character` is part of the arguments. They are streamed if they are an
    /// object or a list after the name of the tool.
    fn is_argument(&mut self, character: char) -> bool {
        let path = self.strings.path();
        let begins = !self.is_in_arguments
            && matches!(path, [top, _] if top == keys::TOOL_ARGS)
            && matches!(character, '{' | '[')
            && !self.tool_name.is_empty();
        let is_argument = begins || self.is_in_arguments;
        self.is_in_arguments = is_argument && path.len() > 1;
        is_argument
    }

    /// Adds `arguments`, new text of the arguments. The arguments of [`FINISH`] are the structured
    /// answer.
    fn push_arguments(&mut self, arguments: String, has_outputs: bool, deltas: &mut DeltaBuffer) {
        if self.tool_name == FINISH {
            if has_outputs {
                deltas.push_delta(ReplyDelta::Output(arguments));
            }
            return;
        }
        if !mem::replace(&mut self.has_call, true) {
            let name = self.tool_name.clone();
            deltas.push_delta(ReplyDelta::CallStarted { index: 0, id: String::new(), name });
        }
        deltas.push_delta(ReplyDelta::CallArguments { index: 0, arguments });
    }
}
