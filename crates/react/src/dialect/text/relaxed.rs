//! Reads an object that is nearly JSON.

use haft_core::text::surrogates;
use serde_json::Value;
use serde_json::{Map, Number};

/// How deep values may be inside each other.
const DEPTH: usize = 64;

pub(super) type Object = Map<String, Value>;

/// An object as it was read.
pub(super) struct Read<'t> {
    pub(super) object: Object,
    /// Whether it ends by itself, so that nothing can be missing.
    pub(super) is_whole: bool,
    pub(super) behind: &'t str,
}

/// Reads an object of which the text begins with the first brace.
///
/// Single quotes, names without quotes, commas before a bracket, Python's constants, line breaks in strings and brackets that
/// are missing at the end are tolerated. A string, a number or a list of members that is cut is not: nobody knows the rest.
pub(super) fn object(text: &str) -> Option<Read<'_>> {
    let mut strict = serde_json::Deserializer::from_str(text).into_iter();
    if let Some(Ok(object)) = strict.next() {
        let behind = text.get(strict.byte_offset()..).unwrap_or_default();
        return Some(Read { object, is_whole: true, behind });
    }
    let mut reader = Reader { rest: text, is_whole: true };
    match reader.value(DEPTH)? {
        Value::Object(object) => Some(reader.read(object)),
        _ => None,
    }
}

/// Reads arguments as Python writes them in a call: `x=17, y="a"`.
pub(super) fn keywords(text: &str) -> Option<Read<'_>> {
    let mut reader = Reader { rest: text, is_whole: true };
    let object = reader.members(DEPTH, ')', &['='])?;
    let is_all =
        reader.rest.trim_matches(|letter: char| letter.is_whitespace() || "`;.".contains(letter)).is_empty();
    (!object.is_empty() && is_all).then(|| reader.read(object))
}

struct Reader<'t> {
    rest: &'t str,
    is_whole: bool,
}

impl<'t> Reader<'t> {
    fn read(self, object: Object) -> Read<'t> {
        Read { object, is_whole: self.is_whole, behind: self.rest }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        match self.peek()? {
            '{' => {
                self.next();
                self.members(depth, '}', &[':', '=']).map(Value::Object)
            }
            '[' => {
                self.next();
                self.items(depth).map(Value::Array)
            }
            quote @ ('"' | '\'') => {
                self.next();
                self.string(quote).map(Value::String)
            }
            _ => self.constant(),
        }
    }

    /// The members of an object up to its end, which may be missing behind one of them.
    fn members(&mut self, depth: usize, end: char, equals: &[char]) -> Option<Object> {
        let mut members = Map::new();
        loop {
            let name = match self.peek()? {
                next if next == end => {
                    self.next();
                    return Some(members);
                }
                quote @ ('"' | '\'') => {
                    self.next();
                    self.string(quote)?
                }
                _ => self.word().filter(|word| !word.is_empty())?.to_owned(),
            };
            if !equals.contains(&self.peek()?) {
                return None;
            }
            self.next();
            let value = self.value(depth)?;
            members.insert(name, value);
            if !self.separator(end)? {
                return Some(members);
            }
        }
    }

    fn items(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            if self.peek()? == ']' {
                self.next();
                return Some(items);
            }
            items.push(self.value(depth)?);
            if !self.separator(']')? {
                return Some(items);
            }
        }
    }

    /// Whether more may come: behind a comma or before the end, but not where the text ends.
    fn separator(&mut self, end: char) -> Option<bool> {
        match self.peek() {
            Some(',') => {
                self.next();
                Some(true)
            }
            Some(next) => (next == end).then_some(true),
            None => {
                self.is_whole = false;
                Some(false)
            }
        }
    }

    fn string(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        // A backslash that is no escape is meant as it stands, but then those that are one may be meant so as well.
        let (mut has_escape, mut has_backslash) = (false, false);
        loop {
            match self.next()? {
                end if end == quote => return (!has_escape || !has_backslash).then_some(text),
                '\\' if self.rest.starts_with(['"', '\'', '\\', '/']) => text.extend(self.next()),
                '\\' if self.rest.starts_with(['n', 't', 'r', 'b', 'f', 'u']) => {
                    has_escape = true;
                    text.push(self.escaped()?);
                }
                written => {
                    has_backslash |= written == '\\';
                    text.push(written);
                }
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        Some(match self.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            _ => {
                let unit = self.unit()?;
                if !surrogates::is_high(unit) {
                    return char::from_u32(unit.into());
                }
                self.rest = self.rest.strip_prefix("\\u")?;
                surrogates::join(unit, self.unit()?)?
            }
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let unit = surrogates::parse_unit(self.rest)?;
        self.rest = self.rest.get(4..)?;
        Some(unit)
    }

    fn constant(&mut self) -> Option<Value> {
        Some(match self.word()? {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            number => {
                let number = number.parse::<Number>().ok()?;
                // More digits may have been to come.
                (!self.rest.is_empty()).then_some(Value::Number(number))?
            }
        })
    }

    /// A run of letters, digits and what numbers have besides.
    fn word(&mut self) -> Option<&'t str> {
        let is_part = |letter: char| letter.is_alphanumeric() || "_+-.$".contains(letter);
        let length = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(word)
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
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
