//! A loaded model that writes: prompt evaluation, constrained generation and the prefix that is kept between them.

mod closing;
mod number;
mod place;

use std::path::Path;

use tracing::{debug, debug_span, info_span, trace_span};

use self::closing::Closer;
use self::place::Place;
use crate::LoadError;
use crate::constraint::{Constraint, Grammars};
use crate::gguf::Gguf;
use crate::network::Network;
use crate::sampler::Sampler;
use crate::template::{Template, Turn};
use crate::tokenizer::Tokenizer;

/// Tokens of a prompt that are read at once. Between two such pieces a request can be given up.
const PIECE: usize = 64;

/// A model, its tokenizer, its template, and the tokens that its cache holds.
pub(crate) struct Engine {
    network: Network,
    tokenizer: Tokenizer,
    template: Template,
    grammars: Grammars,
    /// The tokens behind the network's cache, in order.
    held: Vec<u32>,
}

/// What to write, and how.
pub(crate) struct Job {
    pub(crate) constraint: Option<Constraint>,
    pub(crate) sampler: Sampler,
    /// The most tokens to write.
    pub(crate) limit: usize,
    /// From this many tokens on, the reply is brought to its end as shortly as the constraint allows.
    pub(crate) close_from: usize,
    /// How much likelier than by itself it is that nothing is written at all, as a logarithm.
    pub(crate) silence: f32,
}

/// What came of a job.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tokens: Vec<u32>,
    /// Whether it came to its own end, not to the limit.
    pub(crate) complete: bool,
    /// How many tokens of the prompt did not have to be read again.
    pub(crate) cached: usize,
}

/// What the listener of a job wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attention {
    /// To hear more.
    Listening,
    /// No more, as what it has is enough.
    Satisfied,
    /// Nothing: nobody is there any more.
    Gone,
}

/// Hears each piece of what is written, and nothing at all while the prompt is read.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(&[u8]) -> Attention;

/// Why a job was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// Nobody waits for the reply any more.
    #[error("the request was dropped")]
    Dropped,
    /// The prompt leaves no room for a reply.
    #[error("{needed} tokens, and the model reads {context}")]
    TooLong { needed: usize, context: usize },
    /// The template refused the conversation.
    #[error("the chat template refused the conversation: {0}")]
    Template(String),
    /// The constraint engine gave up.
    #[error("the constraint failed: {0}")]
    Constraint(String),
    /// The tensor library failed.
    #[error("the model could not be evaluated")]
    Evaluation(#[from] candle_core::Error),
}

impl Engine {
    /// Loads a model, telling `progress` the share that is done, from 0 to 1.
    pub(crate) fn load(path: &Path, progress: &mut dyn FnMut(f32)) -> Result<Self, LoadError> {
        let _span = info_span!("load model", path = %path.display()).entered();
        let mut gguf = Gguf::open(path)?;
        let tokenizer = Tokenizer::read(&mut gguf)?;
        let template = Template::read(&gguf, &tokenizer)?;
        let grammars = Grammars::new(&tokenizer).map_err(|reason| LoadError::Tokenizer { reason })?;
        let network = Network::load(&mut gguf, tokenizer.vocabulary_size(), progress)?;
        Ok(Self { network, tokenizer, template, grammars, held: Vec::new() })
    }

    /// How many tokens a prompt and its reply can have together.
    pub(crate) fn context(&self) -> usize {
        self.network.context()
    }

    pub(crate) fn grammars(&self) -> &Grammars {
        &self.grammars
    }

    /// The tokens of a conversation, up to where the model's turn begins.
    pub(crate) fn prompt(&self, turns: &[Turn]) -> Result<Vec<u32>, EngineError> {
        self.template.encode(turns, &self.tokenizer).map_err(EngineError::Template)
    }

    /// The tokens of words that are put into the model's mouth.
    pub(crate) fn encode(&self, words: &str) -> Vec<u32> {
        self.tokenizer.encode_content(words)
    }

    /// Writes what follows `prompt`.
    pub(crate) fn write(
        &mut self,
        prompt: &[u32],
        mut job: Job,
        listener: Listener<'_>,
    ) -> Result<Written, EngineError> {
        let context = self.context();
        if prompt.len() >= context {
            return Err(EngineError::TooLong { needed: prompt.len(), context });
        }
        let limit = job.limit.min(context - prompt.len());
        let cached = self.keep_common_prefix(prompt);
        let _span = debug_span!("write", prompt = prompt.len(), cached).entered();
        let mut unread = prompt.get(cached..).unwrap_or_default().to_vec();
        let mut written = Written { cached, ..Written::default() };
        let mut closer = Closer::new();

        written.complete = loop {
            let forced = self.force(&mut job, limit, &mut unread, &mut written, listener)?;
            if let Some(complete) = forced {
                break complete;
            }
            if written.tokens.len() >= limit {
                break false;
            }
            let mut logits = self.read(&mut unread, listener)?;
            if written.tokens.is_empty() {
                self.tokenizer.ends().for_each(|end| raise(&mut logits, end, job.silence));
            }
            let Some(token) = self.choose(&logits, &mut job, &written, &mut closer)? else { break false };
            if self.tokenizer.is_end(token) {
                break true;
            }
            if let Some(constraint) = &mut job.constraint {
                constraint.accept(token).map_err(EngineError::Constraint)?;
            }
            if self.take(&[token], &mut unread, &mut written, listener)? == Attention::Satisfied {
                break true;
            }
        };
        debug!(tokens = written.tokens.len(), complete = written.complete, "wrote");
        Ok(written)
    }

    /// Forgets what is cached, as after a failure in the middle of an evaluation.
    pub(crate) fn forget(&mut self) {
        self.held.clear();
        self.network.truncate(0);
    }

    /// Cuts the cache back to what the prompt shares with it, and returns how much that is. The last token of
    /// the prompt is always read anew: it gives the first logits.
    fn keep_common_prefix(&mut self, prompt: &[u32]) -> usize {
        let common = self.held.iter().zip(prompt).take_while(|(held, wanted)| held == wanted).count();
        let kept = common.min(prompt.len().saturating_sub(1));
        self.held.truncate(kept);
        self.network.truncate(kept);
        kept
    }

    /// Evaluates the tokens that the network has not seen, and returns the logits behind the last.
    fn read(&mut self, unread: &mut Vec<u32>, listener: Listener<'_>) -> Result<Vec<f32>, EngineError> {
        let mut logits = Vec::new();
        for piece in unread.chunks(PIECE) {
            if listener(&[]) == Attention::Gone {
                return Err(EngineError::Dropped);
            }
            let _span = trace_span!("evaluate", tokens = piece.len()).entered();
            logits = self.network.forward(piece)?;
            self.held.extend(piece);
        }
        unread.clear();
        Ok(logits)
    }

    /// Writes what must come next, as far as the limit allows. When that was all, says whether it is complete.
    fn force(
        &self,
        job: &mut Job,
        limit: usize,
        unread: &mut Vec<u32>,
        written: &mut Written,
        listener: Listener<'_>,
    ) -> Result<Option<bool>, EngineError> {
        let Some(constraint) = &mut job.constraint else { return Ok(None) };
        let forced = constraint.forced().map_err(EngineError::Constraint)?;
        let room = limit.saturating_sub(written.tokens.len());
        let fitting = forced.get(..room).unwrap_or(&forced);
        self.take(fitting, unread, written, listener)?;
        if fitting.len() < forced.len() {
            return Ok(Some(false));
        }
        let complete = constraint.is_complete().map_err(EngineError::Constraint)?;
        Ok(complete.then_some(true))
    }

    /// The next token. `None` where the constraint leaves none.
    fn choose(
        &self,
        logits: &[f32],
        job: &mut Job,
        written: &Written,
        closer: &mut Closer,
    ) -> Result<Option<u32>, EngineError> {
        let Some(constraint) = &mut job.constraint else { return Ok(job.sampler.choose(logits, None)) };
        let allowed = constraint.allowed().map_err(EngineError::Constraint)?;
        let allowed = number::bound(&written.bytes, allowed, &self.tokenizer);
        let closes =
            written.tokens.len() >= job.close_from && Place::behind(&written.bytes) == Place::Between;
        Ok(match closes {
            true => closer.choose(&allowed, &self.tokenizer),
            false => job.sampler.choose(logits, Some(&allowed)),
        })
    }

    fn take(
        &self,
        tokens: &[u32],
        unread: &mut Vec<u32>,
        written: &mut Written,
        listener: Listener<'_>,
    ) -> Result<Attention, EngineError> {
        for token in tokens {
            let bytes = self.tokenizer.bytes(*token);
            unread.push(*token);
            written.tokens.push(*token);
            written.bytes.extend(bytes);
            match listener(bytes) {
                Attention::Listening => {}
                Attention::Satisfied => return Ok(Attention::Satisfied),
                Attention::Gone => return Err(EngineError::Dropped),
            }
        }
        Ok(Attention::Listening)
    }
}

fn raise(logits: &mut [f32], token: u32, bonus: f32) {
    if let Some(logit) = logits.get_mut(token as usize) {
        *logit += bonus;
    }
}
