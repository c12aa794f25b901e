//! Comparison of optional booleans with the conversation.

use haft_core::{Schema, ToolCall, schema::Property};
use serde_json::Value;

use super::KnownFacts;
use super::parameter_names::{description_of, has_word_of, spaced_words};

/// The minimum length of a word that distinguishes a boolean parameter.
const MIN_FLAG_WORD_LENGTH: usize = 4;
/// The minimum length of a word of the name of a flag that the user states: `mop`.
const MIN_NAME_WORD_LENGTH: usize = 3;
/// Words in the names of flags that prevent or permit damage.
const SAFETY_FLAGS: [&str; 8] =
    ["confirm", "dry", "force", "notify", "overwrite", "preview", "send", "simulate"];
/// Words that many boolean parameters have.
const FLAG_WORDS: [&str; 12] = [
    "also", "enable", "false", "include", "only", "return", "set", "should", "show", "true", "whether",
    "with",
];
/// Words for business days.
const BUSINESS_DAYS: [&str; 6] =
    ["weekday", "weekdays", "workday", "workdays", "working day", "working days"];
/// Short names of flags that are frequent words of a request.
const QUANTIFIERS: [&str; 4] = ["all", "any", "new", "now"];
/// Verbs before the noun in the names of flags, such as `has_gym`.
const AUXILIARIES: [&str; 5] = ["are", "can", "does", "has", "use"];
/// Words in the names of flags that switch something on or off.
const SWITCHES: [&str; 6] = ["active", "enable", "enabled", "on", "power", "state"];
/// Verbs that set such a flag.
const SWITCH_VERBS: [&str; 4] = ["activate", "deactivate", "disable", "enable"];
/// Words in the names of flags for something that recurs.
const REPEATING_WORDS: [&str; 5] = ["recur", "recurring", "repeat", "repeating", "repeats"];
/// Words for something that recurs.
const REPETITIONS: [&str; 6] = ["annually", "daily", "every", "monthly", "weekly", "yearly"];

impl KnownFacts {
    /// Returns `true` if the conversation contains a word of the name or the description of
    /// `property`, an optional boolean. `names` are the name of the tool and the names of its other
    /// parameters. The words of the tool do not count, and those of other parameters do not count
    /// in the description. A flag for safety and a flag without distinctive words always count as
    /// mentioned, and so do all flags after a question in another language or with a negation. If
    /// `has_named_flag` is `true`, the negation belongs to a flag in the conversation.
    pub(super) fn mentions_flag(
        &self,
        names: [&str; 2],
        property: &Property<'_>,
        has_named_flag: bool,
    ) -> bool {
        let [tool, others] = names;
        let tool = &spaced_words(tool);
        let (name, description) = (spaced_words(property.name), description_of(property.schema));
        let others = spaced_words(others);
        if self.is_exempt_flag(&name) || self.words.has_negation() && !has_named_flag {
            return true;
        }
        let is_of_other = |word: &&str| others.split(' ').any(|other| other == *word);
        let of_description = distinctive_words(&description, tool).filter(|word| !is_of_other(word));
        let mut distinctive = distinctive_words(&name, tool).chain(of_description).peekable();
        distinctive.peek().is_none() || self.has_any(distinctive) || self.names_flag(&name, tool)
    }

    /// Returns `true` if the conversation contains no word of the name of `property`, an optional
    /// boolean of `tool`. A word of its description may then be about something else: "all log
    /// files" and `include_hidden`, "Include hidden files". Flags that always count as mentioned
    /// are excluded.
    pub(in crate::few_shot) fn lacks_name_of_flag(&self, tool: &str, property: &Property<'_>) -> bool {
        let name = spaced_words(property.name);
        let tool = spaced_words(tool);
        let mut distinctive = distinctive_words(&name, &tool).peekable();
        !self.is_exempt_flag(&name)
            && !self.words.has_negation()
            && distinctive.peek().is_some()
            && !self.has_any(distinctive)
    }

    /// Returns `true` if the conversation contains `name`, the name of a flag of `tool`, also if it
    /// is short, or a word for it: `mop` in "and mop too", `business_days_only` for "working days",
    /// and `power` for "turn it off".
    fn names_flag(&self, name: &str, tool: &str) -> bool {
        let question_has = |words: &[&str]| words.iter().any(|word| self.question_words.has_words(word));
        let is_distinctive = |word: &&str| {
            word.len() >= MIN_NAME_WORD_LENGTH
                && !FLAG_WORDS.contains(word)
                && !AUXILIARIES.contains(word)
                && !tool.contains(*word)
        };
        let distinctive = name.split(' ').filter(is_distinctive).collect::<Vec<_>>().join(" ");
        let is_stated = !QUANTIFIERS.contains(&distinctive.as_str()) && self.words.has_words(&distinctive);
        let is_business_day = name.contains("business day") && question_has(&BUSINESS_DAYS);
        let switches = question_has(&SWITCH_VERBS)
            || question_has(&["switch", "turn", "turned"]) && question_has(&["off", "on"]);
        let is_switch = has_word_of(name, &SWITCHES) && switches;
        let repeats = has_word_of(name, &REPEATING_WORDS) && question_has(&REPETITIONS);
        is_stated || is_business_day || is_switch || repeats
    }

    /// Returns `true` if the conversation contains one of `words`.
    fn has_any<'w>(&self, mut words: impl Iterator<Item = &'w str>) -> bool {
        words.any(|word| self.words.share(word) > 0.0)
    }

    /// Returns `true` if the conversation contains a word of the name of an optional boolean in
    /// `call` with the value `false`: a negation then belongs to this flag.
    pub(super) fn has_named_flag(&self, call: &ToolCall, schema: &Schema) -> bool {
        let arguments = call.arguments.value_or_string();
        let tool = spaced_words(&call.name);
        let is_named = |property: &Property<'_>| {
            let name = spaced_words(property.name);
            let is_off = arguments.get(property.name) == Some(&Value::Bool(false));
            is_off && self.has_any(distinctive_words(&name, &tool))
        };
        schema.properties().any(|property| !property.is_required && is_named(&property))
    }

    /// Returns `true` if the flag `name` always counts as mentioned: it is a flag for safety, or
    /// the conversation is not English.
    fn is_exempt_flag(&self, name: &str) -> bool {
        let is_safety_flag = SAFETY_FLAGS.iter().any(|flag| name.contains(flag));
        is_safety_flag || !self.words.is_english()
    }
}

/// Returns the words of the lower-case `text` that distinguish a flag from other flags of `tool`.
pub(super) fn distinctive_words<'a>(text: &'a str, tool: &'a str) -> impl Iterator<Item = &'a str> {
    let is_distinctive = |word: &&str| word.len() >= MIN_FLAG_WORD_LENGTH && !FLAG_WORDS.contains(word);
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(is_distinctive)
        .filter(|word| !tool.contains(*word))
}
