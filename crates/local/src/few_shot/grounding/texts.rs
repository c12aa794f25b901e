//! Detection of texts that the model composed.

use haft_core::schema::Property;
use serde_json::{Map, Value};

use super::{KnownFacts, KnownWords, Parameter, has_word_of, spaced_words};
use crate::few_shot::calls::argument_text;

/// Words in the names of parameters for a remark of the user.
const NOTE_WORDS: [&str; 7] = ["comment", "comments", "memo", "note", "notes", "remark", "remarks"];

impl KnownFacts {
    /// Returns `true` if `value` is a note that repeats at least two other `arguments`, and if the
    /// conversation does not contain its text.
    pub(super) fn is_repeating_note(
        &self,
        property: &Property<'_>,
        value: &Value,
        arguments: &Map<String, Value>,
    ) -> bool {
        let is_note = has_word_of(property.name, &NOTE_WORDS);
        let Some(note) = value.as_str().filter(|_| is_note).map(|note| note.trim().to_lowercase()) else {
            return false;
        };
        let words = KnownWords::new(&note.replace(',', ""));
        let is_repeated = |(name, other): &(&String, &Value)| {
            let text = argument_text(other).filter(|_| *name != property.name);
            text.is_some_and(|text| words.has_words(&text.to_lowercase()))
        };
        arguments.iter().filter(is_repeated).count() > 1 && !self.words.has_text(&note)
    }

    /// Returns `true` if `text` is a title or the source of a translation, and if the conversation,
    /// which may be English, has no word of it: "Hello" for "Translate this". The model may compose
    /// other texts.
    pub(super) fn is_invented_text(&self, parameter: Parameter<'_>, text: &str) -> bool {
        let name = spaced_words(parameter.name);
        let properties = parameter.root.get("properties").and_then(Value::as_object);
        let has_language =
            || properties.into_iter().flatten().any(|(name, _)| name.to_lowercase().contains("lang"));
        let is_stated = name == "title" || name.ends_with(" title") || name == "text" && has_language();
        is_stated && self.words.may_be_english() && self.words.share(&text.to_lowercase()) == 0.0
    }
}
