//! Correction of arguments that a small model computed from the conversation.
//!
//! A small model confuses units, signs, dates, times and the values of an enumeration. The phrases
//! of the conversation have known [values](super::values). An argument that differs from all of
//! them is replaced by the value in the question, or the model chooses among several values. An
//! argument that may be the result of a computation is not changed.

mod codes;
mod flags;
mod moments;
mod names;
mod numbers;
mod omitted;
mod stated;
mod units;
mod zones;

use std::sync::LazyLock;

use haft_core::{Schema, ToolCall, model::ChatRequest, schema::Property};
use jiff::civil::Date;
use regex::Regex;
use serde_json::{Map, Value, json};

pub(super) use self::codes::missing_code;
use self::moments::TextArgument;
use super::dialogue::last_question;
use super::grounding::{
    KnownWords, enumeration, has_word_of, is_code, is_composed, is_opposite, spaced_json, spaced_words,
    text_of,
};
use super::quotes::quotations;
use super::values::{MAX_TEXT_BYTES, TextValues, parse_date, pattern};

/// The maximum number of values among which the model chooses.
const MAX_CANDIDATES: usize = 8;
/// The minimum length of the part of an identifier that is replaced by the identifier.
const MIN_IDENTIFIER_LENGTH: usize = 4;
/// The minimum length of the values of an enumeration that are compared with the question.
const MIN_VALUE_LENGTH: usize = 3;
/// The minimum number of digits of a telephone number.
const MIN_PHONE_DIGITS: usize = 7;
/// The minimum number of letters of a name whose case is corrected. Shorter texts may be codes.
const MIN_NAME_LETTERS: usize = 4;
/// Words after `by` in a title that are no artists.
const NO_ARTISTS: [&str; 7] = ["Her", "Him", "It", "Me", "Them", "Us", "You"];
/// The minimum number of letters that two spellings of a name have in common.
const MIN_SAME_LETTERS: usize = 3;

/// The values in the conversation, with which arguments are compared.
pub(super) struct ArgumentCorrector {
    today: Option<Date>,
    question: String,
    /// The text of the conversation.
    text: String,
    question_values: TextValues,
    conversation: TextValues,
    /// `false` if the conversation is longer than the text in which values are searched. Arguments
    /// are then not corrected.
    is_complete: bool,
}

/// The correction of a call.
#[derive(Debug)]
pub(super) enum Correction {
    /// The call with the corrected arguments.
    Call(ToolCall),
    /// The schema of the arguments, in which the wrong arguments are limited to the values of the
    /// question.
    Schema(Schema),
}

/// A call under correction.
#[derive(Clone, Copy)]
struct CallInProgress<'a> {
    /// The name of the tool.
    tool: &'a str,
    /// The arguments, with the corrections up to now.
    arguments: &'a Map<String, Value>,
}

/// The values with which an argument is compared.
struct Sources<'a> {
    /// The values in the need for the call.
    need: &'a TextValues,
    /// The values in the last question.
    question: &'a TextValues,
    /// The values in the whole conversation. They are known, but they replace no argument.
    conversation: &'a TextValues,
}

impl<'a> Sources<'a> {
    fn all(&self) -> [&'a TextValues; 3] {
        [self.need, self.question, self.conversation]
    }

    /// Returns the values that may replace an argument.
    fn replacing(&self) -> [&'a TextValues; 2] {
        [self.need, self.question]
    }
}

impl ArgumentCorrector {
    pub(super) fn new(request: &ChatRequest) -> Self {
        let messages: Vec<_> = request.all_messages().collect();
        let texts: Vec<_> = messages.iter().map(|message| text_of(message)).collect();
        let conversation = texts.join("\n");
        let question =
            last_question(&messages).and_then(|index| texts.get(index)).cloned().unwrap_or_default();
        let today = texts.iter().rev().find_map(|text| TextValues::today(text));
        Self {
            today,
            question_values: TextValues::new(&question, today),
            question,
            is_complete: conversation.len() <= MAX_TEXT_BYTES,
            conversation: TextValues::new(&conversation, today),
            text: conversation,
        }
    }

    /// Returns the last question of the user. Empty if there is none.
    pub(super) fn question(&self) -> &str {
        &self.question
    }

    /// Returns the date that the conversation gives for today.
    pub(super) fn today(&self) -> Option<Date> {
        self.today
    }

    /// Returns the correction of `call`, which satisfies `need`. `schema` is the input schema of
    /// the tool. Returns `None` if the arguments need no correction.
    pub(super) fn correct(&self, need: &str, call: &ToolCall, schema: &Schema) -> Option<Correction> {
        if !self.is_complete {
            return None;
        }
        let need_values = TextValues::new(need, self.today);
        let sources =
            Sources { need: &need_values, question: &self.question_values, conversation: &self.conversation };
        let arguments = call.arguments.value_or_string();
        let arguments = arguments.as_object()?;
        let mut corrected = arguments.clone();
        let mut narrowed = Vec::new();
        for property in schema.properties() {
            if !arguments.contains_key(property.name) {
                continue;
            }
            let mut candidates = self.candidates(
                schema,
                &property,
                CallInProgress { tool: &call.name, arguments: &corrected },
                need,
                &sources,
            );
            candidates.retain(|candidate| is_valid(schema, arguments, property.name, candidate));
            match candidates.as_slice() {
                [] => narrowed.extend(code_schema(schema, &property, &corrected, &self.question)),
                // The question has one date or time, and two arguments: one of them is invented.
                [only] if is_invented_copy(schema, &property, only, &corrected) => {
                    corrected.remove(property.name);
                }
                [only] => {
                    corrected.insert(property.name.to_owned(), only.clone());
                }
                _ if candidates.len() <= MAX_CANDIDATES => {
                    narrowed.push((property.name, json!({ "enum": candidates })));
                }
                _ => {}
            }
        }
        if let Some((from, to)) = units::units_of_conversion(schema, &corrected, need, &self.question) {
            corrected.extend([from, to]);
        }
        omitted::add_omitted(schema, &mut corrected, need, &need_values);
        flags::set_described_flags(schema, &mut corrected, &call.name, need);
        flags::set_arrival_flags(schema, &mut corrected, need);
        stated::set_duration_of_range(schema, &mut corrected, &need_values);
        stated::set_single_person(schema, &mut corrected, &self.question, &self.question_values);
        stated::add_named_items(schema, &mut corrected, need);
        split_artist(schema, &mut corrected, &self.question);
        remove_artist(&mut corrected);
        let question = self.question.to_lowercase();
        numbers::remove_other_limit(schema, &mut corrected, &question, &self.question_values);
        numbers::remove_number_of_later_part(schema, &mut corrected, need, &self.question);
        let is_one_way = question.contains("one-way") || question.contains("one way");
        if is_one_way && !question.contains("return") && !question.contains("back") {
            remove_return_date(schema, &mut corrected);
        }
        if narrowed.is_empty() {
            let corrected = Value::Object(corrected);
            let is_changed = corrected.as_object() != Some(arguments) && schema.is_valid(&corrected);
            let call = || ToolCall::new(call.id.clone(), call.name.clone(), spaced_json(&corrected));
            return is_changed.then(call).map(Correction::Call);
        }
        let mut narrowed_schema = schema.as_value().clone();
        let properties = narrowed_schema.get_mut("properties")?.as_object_mut()?;
        let changed = corrected.iter().filter(|(name, value)| arguments.get(*name) != Some(value));
        let changed = changed.map(|(name, value)| (name.as_str(), json!({ "enum": [value] })));
        for (name, permitted) in changed.collect::<Vec<_>>().into_iter().chain(narrowed) {
            properties.insert(name.to_owned(), permitted);
        }
        Schema::new(narrowed_schema).ok().map(Correction::Schema)
    }

    /// Returns `call` with the arguments in the question that it lacks. `call` must be the only
    /// call for the question: no part of the question belongs to another call. `schema` is the
    /// input schema of the tool. Returns `None` if nothing is added.
    pub(super) fn completed(&self, call: &ToolCall, schema: &Schema) -> Option<ToolCall> {
        let arguments = call.arguments.value_or_string();
        let arguments = arguments.as_object().filter(|_| self.is_complete)?;
        let mut completed = arguments.clone();
        omitted::add_omitted(schema, &mut completed, &self.question, &self.question_values);
        let completed = Value::Object(completed);
        let is_changed = completed.as_object() != Some(arguments) && schema.is_valid(&completed);
        is_changed.then(|| ToolCall::new(call.id.clone(), call.name.clone(), spaced_json(&completed)))
    }

    /// Returns the values that `property` should have instead of its value in `call`. Returns no
    /// values if the argument may be right.
    fn candidates(
        &self,
        schema: &Schema,
        property: &Property<'_>,
        call: CallInProgress<'_>,
        need: &str,
        sources: &Sources<'_>,
    ) -> Vec<Value> {
        let value = call.arguments.get(property.name).unwrap_or(&Value::Null);
        match value {
            Value::String(text) => {
                let names = enumeration(schema.as_value(), property.schema);
                if !names.is_empty() {
                    let unit = || numbers::stated_unit(property, text, &names, call.arguments, need, sources);
                    let is_used = |known: &Value| {
                        call.arguments.iter().any(|(name, used)| name != property.name && used == known)
                    };
                    let mentioned = self.mentioned_name(text, &names, need);
                    let mentioned = mentioned.or_else(|| self.named_code(property, text, &names, need));
                    let replacement = mentioned.filter(|known| !is_used(known)).or_else(unit);
                    return replacement.into_iter().collect();
                }
                let argument = TextArgument { text, name: property.name, description: description(property) };
                let moments = argument
                    .month_candidates(sources)
                    .or_else(|| argument.date_candidates(sources))
                    .or_else(|| argument.time_candidates(sources));
                moments.map_or_else(
                    || self.other_text(property, text, need, call).into_iter().collect(),
                    |moments| moments.unused(property.name, call.arguments),
                )
            }
            Value::Number(number) => {
                let number = number.as_f64().and_then(|number| {
                    numbers::candidate(property, number, call.arguments, [need, &self.question], sources)
                });
                number.map(to_json).into_iter().collect()
            }
            Value::Bool(flag) => flags::stated_flag(property, need)
                .filter(|stated| stated != flag)
                .map(Value::Bool)
                .into_iter()
                .collect(),
            Value::Array(items) => {
                let listed = self.listed_items(property, items, need);
                listed.or_else(|| codes::absolute_paths(items, &self.question)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the list after the name of `property` in the need or the question, if `items` are
    /// words of the question outside this list. Other items may be codes, or the results of a
    /// lookup.
    fn listed_items(&self, property: &Property<'_>, items: &[Value], need: &str) -> Option<Value> {
        let listed = |text: &str| names::labelled_items(property, text);
        let listed = listed(need).or_else(|| listed(&self.question))?;
        let words = KnownWords::new(&self.question);
        let is_of_question =
            |item: &Value| item.as_str().is_some_and(|item| words.has_words(&item.to_lowercase()));
        let is_wrong = items.iter().all(|item| is_of_question(item) && !listed.contains(item));
        is_wrong.then_some(Value::Array(listed))
    }

    /// Returns the text that `property` should have instead of `text`, which is neither a date
    /// nor a time.
    fn other_text(
        &self,
        property: &Property<'_>,
        text: &str,
        need: &str,
        call: CallInProgress<'_>,
    ) -> Option<Value> {
        let arguments = call.arguments;
        if let Some(quotation) = names::quoted_text(text, need, &self.question, arguments) {
            return Some(quotation);
        }
        if is_composed(property.name) {
            return None;
        }
        let own_name = || names::name_in_need(property, text, need, &self.question, call);
        names::first_listed(property, text, &self.question)
            .or_else(|| names::name_of_language(property, text, &self.question))
            .or_else(|| names::place_of_departure(property, text, &self.question, arguments))
            .or_else(|| zones::zone_of_place(property, text, &self.text, arguments))
            .or_else(|| codes::designation(text, &self.question))
            .or_else(|| codes::absolute_path(text, &self.question))
            .or_else(|| self.respelled(text))
            .or_else(|| self.capitalized(text))
            .or_else(|| self.whole_identifier(text))
            .or_else(|| self.whole_phone_number(property, text, arguments))
            .or_else(|| property.is_required.then(own_name).flatten())
    }

    /// Returns `text` with the names as the user wrote them: `Lisbon` for `Lisboa`. Returns `None`
    /// if nothing changes.
    fn respelled(&self, text: &str) -> Option<Value> {
        let is_name =
            |word: &&str| word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphabetic);
        // The first word of a sentence may be no name.
        let sentences = self.question.split(['.', '?', '!', '\n', ':']);
        let known: Vec<_> = sentences
            .flat_map(|sentence| sentence.trim_start().split(|letter: char| !letter.is_alphabetic()).skip(1))
            .filter(is_name)
            .collect();
        let conversation = self.text.to_lowercase();
        let respell = |word: &str| {
            let is_unknown = is_name(&word) && !conversation.contains(&word.to_lowercase());
            let mut similar = known.iter().filter(|known| is_unknown && differs_at_end(word, known));
            let first = similar.next().filter(|first| similar.all(|other| other == *first));
            (*first.unwrap_or(&word)).to_owned()
        };
        let changed = text.split(' ').map(respell).collect::<Vec<_>>().join(" ");
        (changed != text).then(|| json!(changed))
    }

    /// Returns the identifier in the question that contains `text`: `rs4988235` for `4988235`.
    /// Returns `None` if `text` is there as a word, or in several identifiers.
    fn whole_identifier(&self, text: &str) -> Option<Value> {
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
        let words = self.question.split(|letter: char| !is_part(letter));
        let mut containing: Vec<_> = words.filter(|word| word.contains(text)).collect();
        containing.dedup();
        let is_number =
            text.len() >= MIN_IDENTIFIER_LENGTH && text.contains(|letter: char| letter.is_ascii_digit());
        let has_both = |word: &str| {
            word.contains(|letter: char| letter.is_ascii_digit()) && word.contains(char::is_alphabetic)
        };
        match containing.as_slice() {
            [only] if *only != text && has_both(only) && is_number => Some(json!(only)),
            _ => None,
        }
    }

    /// Returns the telephone number in the question that ends with the digits of `text`: `+1 555
    /// 010 0134` for `555 010 0134`, and without spaces if `text` has none. Returns `None` if
    /// `text` has a `+`, if another of `arguments` has the country code, or if the description of
    /// `property` asks for digits.
    fn whole_phone_number(
        &self,
        property: &Property<'_>,
        text: &str,
        arguments: &Map<String, Value>,
    ) -> Option<Value> {
        static INTERNATIONAL: LazyLock<Regex> = LazyLock::new(|| pattern(r"\+\d[\d ().-]{5,20}\d"));
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let own = digits(text);
        let is_number = text.chars().all(|letter| letter.is_ascii_digit() || " ().-".contains(letter));
        let description = description(property).to_lowercase();
        let has_code = arguments.keys().any(|name| spaced_words(name).contains("country"));
        let is_local = has_code || ["digits", "without"].iter().any(|word| description.contains(word));
        if own.len() < MIN_PHONE_DIGITS || !is_number || is_local {
            return None;
        }
        let mut numbers = INTERNATIONAL.find_iter(&self.question).map(|found| found.as_str());
        let number = numbers.find(|number| digits(number).ends_with(&own))?;
        let is_compact = text.chars().all(|letter| letter.is_ascii_digit());
        Some(if is_compact { json!(format!("+{}", digits(number))) } else { json!(number) })
    }

    /// Returns `text` in the case of the question: `Tottenham Hotspur` for `tottenham hotspur`.
    /// Returns `None` if it is there in this case, or several times.
    fn capitalized(&self, text: &str) -> Option<Value> {
        let lower = self.question.to_lowercase();
        if text.is_empty() || text != text.to_lowercase() || lower.len() != self.question.len() {
            return None;
        }
        let mut found = lower.match_indices(text);
        let (Some((at, _)), None) = (found.next(), found.next()) else { return None };
        let (before, written) = (self.question.get(..at)?, self.question.get(at..at + text.len())?);
        let after = self.question.get(at + text.len()..)?;
        let is_word = !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
        // The first word of a sentence is capitalized, too.
        let begins_sentence = before.trim_end().ends_with(['.', '?', '!', ':']) || before.trim().is_empty();
        let is_long = text.chars().count() >= MIN_NAME_LETTERS;
        (written != text && is_word && is_long && !begins_sentence).then(|| json!(written))
    }

    /// Returns the only value of the enumeration `names` that the need or the question mentions, if
    /// `text` is its first value and is not mentioned. A small model prefers the first value.
    fn mentioned_name(&self, text: &str, names: &[&Value], need: &str) -> Option<Value> {
        let names: Vec<_> = names.iter().filter_map(|name| name.as_str()).collect();
        let is_short = |name: &&str| name.chars().count() < MIN_VALUE_LENGTH;
        if names.first() != Some(&text) || names.iter().any(is_short) {
            return None;
        }
        let is_in_question = KnownWords::new(&self.question).mentions(&text.to_lowercase());
        for source in [need, self.question.as_str()] {
            let words = KnownWords::new(source);
            let is_mentioned = |name: &str| words.mentions(&name.to_lowercase());
            if is_mentioned(text) || words.has_negation() {
                return None;
            }
            let mut mentioned = names.iter().filter(|name| is_mentioned(name));
            match (mentioned.next(), mentioned.next()) {
                // `unpaid` may be right for "invoices that still have to be paid".
                (Some(only), None) if is_opposite(text, only) => return None,
                // "I'd like to return an item. It arrived damaged" has only a word of `wrong_item`.
                (Some(only), None)
                    if is_in_question && !words.has_words(&only.to_lowercase().replace('_', " ")) =>
                {
                    return None;
                }
                (Some(only), None) => return Some(json!(only)),
                (Some(_), Some(_)) => return None,
                (None, _) => {}
            }
        }
        None
    }

    /// Returns the only code among `names`, the values of the enumeration `property`, that the need
    /// or the question has next to a word of the name of `property`: `AAA` for "level AAA". Returns
    /// `None` if `text` is there.
    fn named_code(&self, property: &Property<'_>, text: &str, names: &[&Value], need: &str) -> Option<Value> {
        let label = spaced_words(property.name);
        let is_label = |word: &str| label.split(' ').any(|part| part == word.to_lowercase());
        let is_code = |name: &&str| name.len() > 1 && !name.contains(|letter: char| letter.is_lowercase());
        for source in [need, self.question.as_str()] {
            let is_end = |letter: char| !(letter.is_alphanumeric() || "-_+".contains(letter));
            let words: Vec<_> = source.split(is_end).filter(|word| !word.is_empty()).collect();
            if words.iter().any(|word| word.eq_ignore_ascii_case(text))
                || KnownWords::new(source).has_negation()
            {
                return None;
            }
            let is_labelled = |name: &&str| {
                words.windows(2).any(|pair| {
                    pair[1] == *name && is_label(pair[0]) || pair[0] == *name && is_label(pair[1])
                })
            };
            let codes = names.iter().filter_map(|name| name.as_str()).filter(is_code);
            let mut codes = codes.filter(is_labelled);
            match (codes.next(), codes.next()) {
                (Some(only), None) => return Some(json!(only)),
                (Some(_), Some(_)) => return None,
                (None, _) => {}
            }
        }
        None
    }
}

/// Returns the name of `property` and a schema for its code or full name, if the argument is not a
/// code, or is an abbreviation and `question` does not contain it. Returns `None` for an optional
/// code of another kind than [`is_code`]: it would be removed, because the conversation does not
/// contain it.
fn code_schema<'p>(
    schema: &Schema,
    property: &Property<'p>,
    arguments: &Map<String, Value>,
    question: &str,
) -> Option<(&'p str, Value)> {
    let text = arguments.get(property.name)?.as_str()?;
    let is_kept = property.is_required || is_code(property.name);
    let is_free = enumeration(schema.as_value(), property.schema).is_empty();
    let missing = missing_code(property, text).or_else(|| codes::missing_full_name(property, text, question));
    let pattern = missing.filter(|_| is_kept && is_free)?;
    Some((property.name, json!({ "type": "string", "pattern": pattern })))
}

/// Returns `true` if `word` and `known` have the same length, and if only the last one or two
/// letters differ.
fn differs_at_end(word: &str, known: &str) -> bool {
    let same = word.chars().zip(known.chars()).take_while(|(one, other)| one == other).count();
    let length = word.chars().count();
    length == known.chars().count() && same >= MIN_SAME_LETTERS && (length - 2..length).contains(&same)
}

fn description<'a>(property: &Property<'a>) -> &'a str {
    property.schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Converts `number` to an integer if it has no fraction.
fn to_json(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

/// Returns `true` if `schema` permits `arguments` with the value `candidate` for `name`.
fn is_valid(schema: &Schema, arguments: &Map<String, Value>, name: &str, candidate: &Value) -> bool {
    let mut changed = arguments.clone();
    changed.insert(name.to_owned(), candidate.clone());
    schema.is_valid(&Value::Object(changed))
}

/// Returns `true` if `property` is optional and has a text without an enumeration, and if another
/// argument has `value`.
fn is_invented_copy(
    schema: &Schema,
    property: &Property<'_>,
    value: &Value,
    arguments: &Map<String, Value>,
) -> bool {
    let is_text = value.is_string() && enumeration(schema.as_value(), property.schema).is_empty();
    let mut others = arguments.iter().filter(|(name, _)| *name != property.name);
    !property.is_required && is_text && others.any(|(_, known)| known == value)
}

/// Removes the optional date of the return of a one-way trip.
fn remove_return_date(schema: &Schema, arguments: &mut Map<String, Value>) {
    for property in schema.properties().filter(|property| !property.is_required) {
        let is_date =
            |value: &Value| value.as_str().is_some_and(|text| text.is_empty() || parse_date(text).is_some());
        if property.name.starts_with("return") && arguments.get(property.name).is_some_and(is_date) {
            arguments.remove(property.name);
        }
    }
}

/// Splits a title with an artist, if `schema` has an optional artist that is missing: `Yesterday by
/// The Beatles`. The title must be in `question`, without quotation marks. A title such as `Death
/// by Chocolate` is split, too.
fn split_artist(schema: &Schema, arguments: &mut Map<String, Value>, question: &str) {
    const ARTIST: &str = "artist";
    let has_artist = schema.properties().any(|property| property.name == ARTIST);
    if !has_artist || arguments.contains_key(ARTIST) {
        return;
    }
    let title = ["song", "title", "track"].into_iter().find_map(|name| arguments.get(name)?.as_str());
    let title = title.filter(|title| question.contains(title) && !quotations(question).contains(title));
    let artist = title.and_then(|title| title.rsplit_once(" by ")).filter(|(title, artist)| {
        // "Stand by Me" and "Side by Side" are titles.
        let is_pronoun = NO_ARTISTS.contains(artist);
        artist.starts_with(char::is_uppercase) && !is_pronoun && !title.ends_with(artist)
    });
    if let Some((_, artist)) = artist {
        let candidate = json!(artist);
        if is_valid(schema, arguments, ARTIST, &candidate) {
            arguments.insert(ARTIST.to_owned(), candidate);
        }
    }
}

/// Removes the artist from a title, if it is an argument of its own: `Yesterday by The Beatles`
/// becomes `Yesterday`.
fn remove_artist(arguments: &mut Map<String, Value>) {
    let texts: Vec<_> = arguments.values().filter_map(Value::as_str).map(str::to_owned).collect();
    for name in ["song", "title", "track"] {
        let Some(Value::String(title)) = arguments.get_mut(name) else { continue };
        let shortened =
            texts.iter().find_map(|artist| title.strip_suffix(artist.as_str())?.strip_suffix(" by "));
        if let Some(short) = shortened.filter(|short| !short.is_empty()) {
            *title = short.to_owned();
        }
    }
}

#[cfg(test)]
mod tests;
