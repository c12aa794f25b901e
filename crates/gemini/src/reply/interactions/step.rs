use haft_core::{
    content::{BinaryData, Content},
    message::Citation,
    model::ModelError,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::reply::part_log::{PartLog, SentId};

/// A step of a reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireStep {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Box<RawValue>>,
    pub(super) signature: Option<String>,
    pub(super) content: Option<Vec<Value>>,
    pub(super) summary: Option<Vec<Value>>,
    pub(super) error: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Output,
    Thought,
    Call,
    /// A call or a result of a hosted tool, or an unknown step.
    Hosted,
    /// A step of the request, which some replies repeat.
    Input,
}

impl StepKind {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "model_output" => Self::Output,
            "thought" => Self::Thought,
            "function_call" => Self::Call,
            "user_input" | "function_result" => Self::Input,
            _ => Self::Hosted,
        }
    }
}

/// A step whose events are received.
#[derive(Debug)]
pub(super) struct OpenStep {
    pub(super) index: Option<i64>,
    pub(super) kind: StepKind,
    /// The content of a step of output, in order.
    content: Vec<StepContent>,
    /// The start of the first text. `None` before the first text.
    pub(super) text_start: Option<usize>,
    /// The range of a thought in the reasoning of the reply.
    pub(super) thought: Option<(usize, usize)>,
    pub(super) signature: Option<String>,
    /// The position of a call in the reply.
    pub(super) call: Option<usize>,
    /// The arguments in the first event of a call.
    pub(super) first_arguments: String,
    pub(super) has_arguments: bool,
    /// A step of a hosted tool, with its deltas.
    pub(super) json: Value,
    pub(super) is_finished: bool,
}

#[derive(Debug)]
enum StepContent {
    /// A range of the text of the reply.
    Text(usize, usize),
    Media,
}

impl OpenStep {
    pub(super) fn new(index: Option<i64>, kind: StepKind) -> Self {
        Self {
            index,
            kind,
            content: Vec::new(),
            text_start: None,
            thought: None,
            signature: None,
            call: None,
            first_arguments: String::new(),
            has_arguments: false,
            json: Value::Null,
            is_finished: false,
        }
    }

    /// Adds a range of the text of the reply. It continues the text before it.
    pub(super) fn add_text(&mut self, start: usize, end: usize) {
        self.text_start = self.text_start.or(Some(start));
        match self.content.last_mut() {
            Some(StepContent::Text(_, last)) if *last == start => *last = end,
            _ => self.content.push(StepContent::Text(start, end)),
        }
    }

    pub(super) fn add_media(&mut self) {
        self.content.push(StepContent::Media);
    }

    /// Returns the start of the last text, to which annotations refer.
    pub(super) fn last_text_start(&self) -> Option<usize> {
        self.content.iter().rev().find_map(|content| match content {
            StepContent::Text(start, _) => Some(*start),
            StepContent::Media => None,
        })
    }

    /// Adds the step to `log`.
    pub(super) fn log(self, log: &mut PartLog) {
        match self.kind {
            StepKind::Output => {
                for content in self.content {
                    match content {
                        StepContent::Text(start, end) => log.add_text(start, end, None),
                        StepContent::Media => log.add_media(None),
                    }
                }
            }
            StepKind::Thought => {
                let (start, end) = self.thought.unwrap_or_default();
                log.add_thought(start, end, self.signature);
            }
            StepKind::Call => log.add_call(SentId::Own, self.signature),
            StepKind::Hosted if self.json.is_object() => log.add_other(self.json),
            StepKind::Hosted | StepKind::Input => {}
        }
    }
}

/// Returns the medium in `content`. `None` if it has no data.
pub(super) fn medium_of(content: &Value) -> Result<Option<Content>, ModelError> {
    let text = |key: &str| content.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(data) = text("data") else {
        let kind = text("type").unwrap_or("file");
        return Ok(text("uri").map(|uri| Content::ResourceLink {
            uri: uri.to_owned(),
            name: kind.to_owned(),
            description: None,
            media_type: text("mime_type").map(str::to_owned),
        }));
    };
    let media_type = text("mime_type").unwrap_or("application/octet-stream");
    let bytes = BinaryData::from_base64(data)
        .map_err(|error| ModelError::InvalidResponse(format!("its {media_type} is no base64: {error}")))?;
    Ok(Some(Content::from_bytes(bytes, media_type)))
}

/// Returns the citation in `annotation`, whose indexes are bytes after `start` in `text`. `None` if
/// it is no citation.
pub(super) fn citation_of(annotation: &Value, start: usize, text: &str) -> Option<Citation> {
    let field = |key: &str| {
        let text = annotation.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let index = |key: &str| usize::try_from(annotation.get(key)?.as_u64()?).ok()?.checked_add(start);
    let range = || {
        let range = index("start_index").unwrap_or(start)..index("end_index")?;
        (!range.is_empty() && text.get(range.clone()).is_some()).then_some(range)
    };
    match annotation.get("type")?.as_str()? {
        "url_citation" | "place_citation" => Some(Citation {
            range: range(),
            title: field("title").or_else(|| field("name")),
            url: field("url"),
            ..Citation::default()
        }),
        "file_citation" => Some(Citation {
            range: range(),
            title: field("file_name"),
            url: field("document_uri"),
            file_id: field("media_id"),
            quote: field("source"),
        }),
        _ => None,
    }
}
