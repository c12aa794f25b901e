//! A lenient parser for the arguments of calls: JSON objects and Python keyword arguments.
//!
//! The [pipeline](crate::Pipeline) uses it for arguments that are not valid JSON, and
//! `haft-dialect` uses it for calls that a model writes as text. The same text is thus the same call,
//! whether or not the server parsed the call.

use haft_schema::{parse_leading_json, parse_number};
use haft_text::surrogates;
use serde_json::{Map, Value};

/// The maximum nesting depth of a value.
const MAX_NESTING_DEPTH: usize = 64;

/// A JSON object.
pub type JsonObject = Map<String, Value>;

/// A parsed object, and the text that follows it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParsedObject<'t> {
    /// The members of the object.
    pub object: JsonObject,
    /// `true` if all closing brackets were found. Otherwise the object may be truncated.
    pub is_complete: bool,
    /// The text after the object.
    pub rest: &'t str,
}

/// Parses `text`, which must be one complete object, with the same leniency as
/// [`parse_leading_object`]. Returns `None` if it is not, or if a closing bracket is missing.
///
/// # Examples
///
/// ```
/// use haft_core::lenient_json::parse_object;
///
/// let arguments = parse_object("{'city': 'Oslo', 'metric': True,}").unwrap();
/// assert_eq!((&arguments["city"], &arguments["metric"]), (&"Oslo".into(), &true.into()));
/// assert!(parse_object("{'city': 'Oslo'").is_none());
/// ```
pub fn parse_object(text: &str) -> Option<JsonObject> {
    let parsed = parse_leading_object(text.trim_start())?;
    (parsed.is_complete && parsed.rest.trim().is_empty()).then_some(parsed.object)
}

/// Parses the JSON object at the start of `text`.
///
/// Accepts single quotes, keys without quotes, trailing commas, Python's constants, line breaks in
/// strings, and missing closing brackets at the end. Returns `None` if the object is invalid, or if
/// a string, number or member is truncated, because the missing part could change the meaning.
pub fn parse_leading_object(text: &str) -> Option<ParsedObject<'_>> {
    if text.trim_start().starts_with('{')
        && let Some((Value::Object(object), end)) = parse_leading_json(text)
    {
        return Some(ParsedObject { object, is_complete: true, rest: text.get(end..).unwrap_or_default() });
    }
    let mut parser = LenientParser { rest: text, is_complete: true };
    match parser.parse_value(MAX_NESTING_DEPTH)? {
        Value::Object(object) => Some(parser.into_parsed(object)),
        _ => None,
    }
}

/// Parses the JSON object or array at the start of `text`, with the same leniency as
/// [`parse_leading_object`]. Returns the value and the text after it. Returns `None` if the value
/// is invalid or if a closing bracket is missing.
pub fn parse_leading_value(text: &str) -> Option<(Value, &str)> {
    let mut parser = LenientParser { rest: text, is_complete: true };
    let value = parser.parse_value(MAX_NESTING_DEPTH)?;
    parser.is_complete.then_some((value, parser.rest))
}

/// Parses `text` as a JSON object or array, with the same leniency as [`parse_leading_object`].
/// Missing closing brackets at the end are added, and additional closing brackets are ignored.
/// Returns `None` if other text follows.
pub fn parse_unbalanced_value(text: &str) -> Option<Value> {
    let mut parser = LenientParser { rest: text, is_complete: true };
    let value = parser.parse_value(MAX_NESTING_DEPTH)?;
    let is_bracket = |letter: char| letter.is_whitespace() || "}]".contains(letter);
    parser.rest.trim_start_matches(is_bracket).is_empty().then_some(value)
}

/// Parses Python keyword arguments up to and including the closing `)`, such as `x=17, y="a")`.
/// Returns the arguments and the text after the bracket. The arguments may be empty. Returns `None`
/// if an argument has no name or if the closing bracket is missing.
pub fn parse_closed_keyword_arguments(text: &str) -> Option<(JsonObject, &str)> {
    let mut parser = LenientParser { rest: text, is_complete: true };
    let object = parser.parse_members(MAX_NESTING_DEPTH, ')', &['='])?;
    parser.is_complete.then_some((object, parser.rest))
}

/// Parses Python keyword arguments, such as `x=17, y="a"`, with an optional `)` after them. Returns
/// `None` if there are none, or if more text follows, except whitespace, backticks, `;` and `.`.
pub fn parse_keyword_arguments(text: &str) -> Option<ParsedObject<'_>> {
    let mut parser = LenientParser { rest: text, is_complete: true };
    let object = parser.parse_members(MAX_NESTING_DEPTH, ')', &['='])?;
    let is_all = parser
        .rest
        .trim_matches(|character: char| character.is_whitespace() || "`;.".contains(character))
        .is_empty();
    (!object.is_empty() && is_all).then(|| parser.into_parsed(object))
}

struct LenientParser<'t> {
    rest: &'t str,
    is_complete: bool,
}

impl<'t> LenientParser<'t> {
    fn into_parsed(self, object: JsonObject) -> ParsedObject<'t> {
        ParsedObject { object, is_complete: self.is_complete, rest: self.rest }
    }

    fn parse_value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        match self.peek_token_start()? {
            '{' => {
                self.next();
                self.parse_members(depth, '}', &[':', '=']).map(Value::Object)
            }
            '[' => {
                self.next();
                self.parse_items(depth).map(Value::Array)
            }
            quote @ ('"' | '\'') => {
                self.next();
                self.parse_string(quote).map(Value::String)
            }
            _ => self.parse_literal(),
        }
    }

    /// Parses the members of an object up to the closing bracket `end`. After a complete member,
    /// the text may also end without `end`. `equals` contains the characters that are accepted
    /// between a key and its value.
    fn parse_members(&mut self, depth: usize, end: char, equals: &[char]) -> Option<JsonObject> {
        let mut members = Map::new();
        loop {
            let name = match self.peek_token_start()? {
                next if next == end => {
                    self.next();
                    return Some(members);
                }
                quote @ ('"' | '\'') => {
                    self.next();
                    self.parse_string(quote)?
                }
                _ => Some(self.take_word()).filter(|word| !word.is_empty())?.to_owned(),
            };
            if !equals.contains(&self.peek_token_start()?) {
                return None;
            }
            self.next();
            let value = self.parse_value(depth)?;
            members.insert(name, value);
            if !self.parse_separator(end)? {
                return Some(members);
            }
        }
    }

    fn parse_items(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            if self.peek_token_start()? == ']' {
                self.next();
                return Some(items);
            }
            items.push(self.parse_value(depth)?);
            if !self.parse_separator(']')? {
                return Some(items);
            }
        }
    }

    /// Checks the character after a member or item, and consumes a comma. Returns `Some(true)` if
    /// another member or `end` can follow, `Some(false)` at the end of the text, and `None` for any
    /// other character.
    fn parse_separator(&mut self, end: char) -> Option<bool> {
        match self.peek_token_start() {
            Some(',') => {
                self.next();
                Some(true)
            }
            Some(next) => (next == end).then_some(true),
            None => {
                self.is_complete = false;
                Some(false)
            }
        }
    }

    fn parse_string(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        // An invalid escape such as `\d` is read as a literal backslash. If the same string also
        // has a valid escape such as `\n`, that backslash could be literal too (`C:\new\docs`), so
        // the string is rejected.
        let (mut has_escape, mut has_backslash) = (false, false);
        loop {
            match self.next()? {
                end if end == quote => return (!has_escape || !has_backslash).then_some(text),
                '\\' if self.rest.starts_with(['"', '\'', '\\', '/']) => text.extend(self.next()),
                '\\' if self.rest.starts_with(['n', 't', 'r', 'b', 'f', 'u']) => {
                    has_escape = true;
                    text.push(self.parse_escape()?);
                }
                character => {
                    has_backslash |= character == '\\';
                    text.push(character);
                }
            }
        }
    }

    fn parse_escape(&mut self) -> Option<char> {
        Some(match self.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            _ => {
                let unit = self.parse_utf16_unit()?;
                if !surrogates::is_high(unit) {
                    return char::from_u32(unit.into());
                }
                self.rest = self.rest.strip_prefix("\\u")?;
                surrogates::decode_pair(unit, self.parse_utf16_unit()?)?
            }
        })
    }

    fn parse_utf16_unit(&mut self) -> Option<u16> {
        let unit = surrogates::parse_unit(self.rest)?;
        self.rest = self.rest.get(4..)?;
        Some(unit)
    }

    fn parse_literal(&mut self) -> Option<Value> {
        Some(match self.take_word() {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            number => {
                // A number at the end of the text is rejected, because it may be truncated.
                parse_number(number).filter(|_| !self.rest.is_empty())?
            }
        })
    }

    /// Consumes and returns the word at the current position. A word consists of letters, digits,
    /// and the characters `_+-.$`. The result is empty if there is no word.
    fn take_word(&mut self) -> &'t str {
        let is_word_character = |character: char| character.is_alphanumeric() || "_+-.$".contains(character);
        let rest = self.rest.trim_start_matches(is_word_character);
        let word = self.rest.strip_suffix(rest).unwrap_or_default();
        self.rest = rest;
        word
    }

    /// Skips whitespace. Returns the next character without consuming it, or `None` at the end of
    /// the text.
    fn peek_token_start(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }
}
