use std::{ops::Range, sync::LazyLock};

use memchr::{memchr, memmem::Finder};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny},
};

use super::fields::object;
use super::{Choice, Completion, Loose, WireCall, WireFunction, WireMessage};

/// Reads the chunks of a stream. Each says again whose it is, and most differ from the one before by a piece of text only: what is
/// the same is not read again.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// The chunk that was read last.
    last: Vec<u8>,
    /// How much of it stands before its choices, which are what is new in it.
    head: usize,
    /// The text that is all it says, and where that stands between quotes.
    text: Option<(Said, Range<usize>)>,
}

/// What one chunk says.
pub(crate) enum Chunk {
    /// What the chunk before said, with another text.
    More(Said, String),
    Other(Completion),
}

/// Where in a reply a text goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The number of the choice.
    pub(crate) choice: i64,
    pub(crate) part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Content,
    ReasoningContent,
    Reasoning,
    /// Those of the call with this number.
    Arguments(i64),
}

/// A name to be found. To prepare a search takes longer than to search a chunk.
type Key = LazyLock<Finder<'static>>;

/// The field that is new in each chunk.
static CHOICES: Key = Key::new(|| Finder::new(br#""choices":"#));
static CONTENT: Key = Key::new(|| Finder::new(br#""content""#));
static REASONING_CONTENT: Key = Key::new(|| Finder::new(br#""reasoning_content""#));
static REASONING: Key = Key::new(|| Finder::new(br#""reasoning""#));
static ARGUMENTS: Key = Key::new(|| Finder::new(br#""arguments""#));

/// How long a chunk may be that is remembered, in bytes.
const LONGEST: usize = 64 << 10;

impl Chunks {
    /// Reads a chunk, whose bytes are afterwards what they were.
    pub(crate) fn read(&mut self, chunk: &mut [u8]) -> serde_json::Result<Chunk> {
        if let Some((said, text)) = self.more(chunk) {
            return Ok(Chunk::More(said, text));
        }
        let read = match self.choices(chunk) {
            Some(read) => read,
            None => {
                let read = Completion::read(chunk)?;
                let head = CHOICES.find(chunk).and_then(|head| chunk.get_mut(..head));
                self.head = head.map_or(0, |head| if is_whose(head) { head.len() } else { 0 });
                read
            }
        };
        self.text = read.only_text().and_then(|(said, text)| Some((said, said.part.place_in(chunk, text)?)));
        self.last.clear();
        if chunk.len() <= LONGEST {
            self.last.extend_from_slice(chunk);
        } else {
            (self.head, self.text) = (0, None);
        }
        Ok(Chunk::Other(read))
    }

    /// The text of a chunk that is the last one but for that. Where one string is put in the place of another, all that is around it
    /// means what it meant.
    fn more(&self, chunk: &[u8]) -> Option<(Said, String)> {
        let (said, at) = self.text.as_ref()?;
        let text = chunk.strip_prefix(self.last.get(..at.start)?)?.strip_suffix(self.last.get(at.end..)?)?;
        let quoted = chunk.get(at.start - 1..at.start + text.len() + 1)?;
        Some((*said, serde_json::from_slice(quoted).ok()?))
    }

    /// Reads a chunk without what the last one said as well before its choices, which is only whose they are.
    fn choices(&self, chunk: &mut [u8]) -> Option<Completion> {
        let comma = self.head.checked_sub(1)?;
        let is_same = chunk.starts_with(self.last.get(..self.head)?);
        let rest = chunk.get_mut(comma..).filter(|_| is_same)?;
        if !rest.get(1..)?.starts_with(CHOICES.needle()) {
            return None;
        }
        *rest.first_mut()? = b'{';
        let read = Completion::read_json(rest);
        *rest.first_mut()? = b',';
        read.ok()
    }
}

/// Whether the beginning of a chunk, up to the comma before its choices, says nothing but whose they are: what the reader takes from
/// there is taken once, and all else is nothing to it.
fn is_whose(head: &mut [u8]) -> bool {
    let Some(comma) = head.last_mut().filter(|last| **last == b',') else { return false };
    *comma = b'}';
    let is_whose = str::from_utf8(head).is_ok_and(|head| serde_json::from_str::<Whose>(head).is_ok());
    head.last_mut().into_iter().for_each(|last| *last = b',');
    is_whose
}

object! {
    struct Whose {
        choices: News,
        usage: News,
        x_groq: News,
        error: News,
        code: News,
        kind = "type": News,
        message: News,
        detail: News,
    }
}

/// The place of a field of a [`Completion`] that may say something else in the next chunk: it says nothing.
#[derive(Debug, Default)]
struct News;

impl<'de> Deserialize<'de> for News {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<IgnoredAny>::deserialize(deserializer)? {
            None => Ok(Self),
            Some(_) => Err(D::Error::custom("it may say something else in the next chunk")),
        }
    }
}

impl Part {
    fn key(self) -> &'static Finder<'static> {
        match self {
            Self::Content => &CONTENT,
            Self::ReasoningContent => &REASONING_CONTENT,
            Self::Reasoning => &REASONING,
            Self::Arguments(_) => &ARGUMENTS,
        }
    }

    /// Where the text of this part stands in a chunk, without its quotes; `None` where there is more than one such place.
    fn place_in(self, chunk: &[u8], text: &str) -> Option<Range<usize>> {
        let key = self.key();
        let (before, rest) = chunk.split_at_checked(key.find(chunk)?)?;
        let rest = rest.strip_prefix(key.needle())?;
        if key.find(rest).is_some() {
            return None;
        }
        let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let mut strings = serde_json::Deserializer::from_slice(value).into_iter::<String>();
        let is_it = strings.next()?.ok()? == text;
        let start = chunk.len() - value.len() + 1;
        let end = start + strings.byte_offset() - 2;
        // With a backslash a key can be written as another, and a text can seem to be a key.
        let is_escaped = memchr(b'\\', before).is_some() || memchr(b'\\', chunk.get(end..)?).is_some();
        (is_it && !is_escaped).then_some(start..end)
    }
}

impl Completion {
    /// The text that is all a chunk says, beside what it may say as often as it likes.
    fn only_text(&self) -> Option<(Said, &str)> {
        let [choice] = self.choices.as_deref()? else { return None };
        let (part, text) = choice.only_text()?;
        Some((Said { choice: choice.number(), part }, text))
    }
}

impl Choice {
    fn only_text(&self) -> Option<(Part, &str)> {
        let delta = self.delta.as_ref().filter(|_| self.finish_reason.is_blank())?;
        delta.only_text()
    }
}

impl WireMessage {
    fn only_text(&self) -> Option<(Part, &str)> {
        let Self { content, reasoning_content, reasoning, tool_calls, .. } = self;
        let others = [&self.refusal, &self.reasoning_details, &self.thinking_blocks, &self.extra_content];
        if others.iter().any(|it| !it.is_blank()) || self.function_call.is_some() || self.audio.is_some() {
            return None;
        }
        let texts = [
            (Part::Content, content),
            (Part::ReasoningContent, reasoning_content),
            (Part::Reasoning, reasoning),
        ];
        let mut filled = texts.into_iter().filter(|(_, text)| !text.is_blank());
        match (filled.next(), filled.next(), tool_calls.as_slice()) {
            (Some((part, text)), None, []) => Some((part, text.as_text()?)),
            (None, None, [call]) => call.only_text(),
            _ => None,
        }
    }
}

impl WireCall {
    /// More of the arguments of a call.
    pub(crate) fn more(call: i64, arguments: String) -> Self {
        let function = WireFunction { arguments: Loose::Text(arguments), ..WireFunction::default() };
        Self { index: Loose::Number(call.into()), function: Some(function), ..Self::default() }
    }

    fn only_text(&self) -> Option<(Part, &str)> {
        let function = self.function.as_ref().filter(|it| it.name.is_blank())?;
        let is_open = self.id.is_blank() && self.extra_content.is_none();
        let number = self.index.to_number().filter(|_| is_open)?;
        Some((Part::Arguments(number), function.arguments.as_text()?))
    }
}

impl Loose {
    /// Whether it says nothing.
    fn is_blank(&self) -> bool {
        matches!(self, Self::Absent) || matches!(self, Self::Text(text) if text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that is new in a [`Completion`] belongs in [`Whose`] as well.
    #[test]
    fn a_head_with_any_other_field_is_read_each_time() {
        let fields = format!("{:?}", Completion::default());
        let fields = fields.split_whitespace().filter_map(|word| word.strip_suffix(':'));
        let others: Vec<_> = fields.filter(|it| !["id", "model", "is_mended"].contains(it)).collect();
        assert_eq!(others.len(), 8);
        for field in others {
            let name = if field == "kind" { "type" } else { field };
            let head = |value: &str| format!(r#"{{"id":"c","{name}":{value},"#).into_bytes();
            assert!(!is_whose(&mut head("1")), "{name}");
            assert!(is_whose(&mut head("null")), "{name}");
        }
        assert!(is_whose(&mut br#"{"id":"c","object":"chunk","model":"m","#.to_vec()));
        assert!(!is_whose(&mut br#"{"x":{"id":"c","#.to_vec()));
    }
}
