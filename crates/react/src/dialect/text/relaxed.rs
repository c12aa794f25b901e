//! Reads an object that is nearly JSON.

use haft_core::Value;
use serde_json::{Map, Number};

/// How deep values may be inside each other.
const DEPTH: usize = 64;

/// Reads an object of which the text begins with the first brace, whatever comes behind it.
///
/// Single quotes, names without quotes, commas before a bracket, Python's constants, line breaks in strings and brackets that
/// are missing at the end are tolerated. A string without its end is not: nobody knows the rest of it.
pub(super) fn object(text: &str) -> Option<Map<String, Value>> {
    let mut strict = serde_json::Deserializer::from_str(text).into_iter();
    if let Some(Ok(object)) = strict.next() {
        return Some(object);
    }
    match (Reader { rest: text }).value(DEPTH)? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Reads arguments as Python writes them in a call: `x=17, y="a"`.
pub(super) fn keywords(text: &str) -> Option<Map<String, Value>> {
    let mut reader = Reader { rest: text };
    let object = reader.members(DEPTH, ')')?;
    (!object.is_empty() && reader.rest.trim().is_empty()).then_some(object)
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        match self.peek()? {
            '{' => {
                self.next();
                self.members(depth, '}').map(Value::Object)
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

    /// The members of an object up to its end, which may be missing.
    fn members(&mut self, depth: usize, end: char) -> Option<Map<String, Value>> {
        let mut members = Map::new();
        while let Some(next) = self.peek() {
            if next == end {
                self.next();
                break;
            }
            let name = match next {
                '"' | '\'' => {
                    self.next();
                    self.string(next)?
                }
                _ => self.word().filter(|word| !word.is_empty())?.to_owned(),
            };
            if !matches!(self.peek()?, ':' | '=') {
                return None;
            }
            self.next();
            let value = self.value(depth)?;
            members.insert(name, value);
            self.separator(end)?;
        }
        Some(members)
    }

    fn items(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        while let Some(next) = self.peek() {
            if next == ']' {
                self.next();
                break;
            }
            items.push(self.value(depth)?);
            self.separator(']')?;
        }
        Some(items)
    }

    /// A comma, or nothing before the end.
    fn separator(&mut self, end: char) -> Option<()> {
        match self.peek() {
            Some(',') => {
                self.next();
                Some(())
            }
            None => Some(()),
            Some(next) => (next == end).then_some(()),
        }
    }

    fn string(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.next()? {
                end if end == quote => return Some(text),
                '\\' => text.push(self.escaped()?),
                written => text.push(written),
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
            'u' => {
                let unit = self.unit()?;
                if !(0xD800..0xDC00).contains(&unit) {
                    return char::from_u32(unit);
                }
                self.rest = self.rest.strip_prefix("\\u")?;
                let low = self.unit()?.checked_sub(0xDC00)?;
                return char::from_u32(0x1_0000 + ((unit - 0xD800) << 10) + low);
            }
            other => other,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.rest.get(..4)?;
        self.rest = self.rest.get(4..)?;
        u32::from_str_radix(digits, 16).ok()
    }

    fn constant(&mut self) -> Option<Value> {
        Some(match self.word()? {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            number => Value::Number(number.parse::<Number>().ok()?),
        })
    }

    /// A run of letters, digits and what numbers have besides.
    fn word(&mut self) -> Option<&str> {
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
