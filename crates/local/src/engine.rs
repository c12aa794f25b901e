//! Text generation with a loaded model. The engine evaluates prompts and decodes under grammar
//! constraints. Its key-value cache is reused for the common prefix of consecutive prompts.

mod choice;
mod close_grammar;
mod endless_loop;
mod json_state;
mod number_length;
mod prefix_reuse;
mod stray_space;
#[cfg(test)]
mod tests;

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use candle_core::Device;
use serde_json::Value;
use tracing::{debug, debug_span, info_span, trace_span};

use self::choice::KnownProbabilities;
pub(crate) use self::choice::{Candidate, Choice, KnownLogits};
use self::close_grammar::{GrammarCloser, without_next_item};
use self::endless_loop::{MIN_REPEATED_TOKENS, ends_with_loop, is_number};
use self::json_state::JsonState;
use crate::LoadError;
use crate::compute_device::ComputeDevice;
use crate::constraint::{Constraint, GrammarCompiler};
use crate::gguf::Gguf;
use crate::network::Network;
use crate::prefix_cache::{MemoryBlocks, PrefixCache, PrefixFolder};
use crate::sampler::Sampler;
use crate::store::fingerprint;
use crate::template::{Prompt, Template, ThinkTags, ToolForm, Turn};
use crate::tokenizer::Tokenizer;

/// The maximum number of tokens in one forward pass of the network. A request can be cancelled
/// between two passes.
const MAX_EVALUATION_TOKENS: usize = 64;
/// The minimum number of new prompt tokens for reports of the progress.
const MIN_REPORTED_TOKENS: usize = 256;

/// A loaded model with its tokenizer, chat template and key-value cache.
pub(crate) struct Engine {
    network: Network,
    tokenizer: Tokenizer,
    template: Template,
    grammars: GrammarCompiler,
    /// The tokens whose keys and values are in the key-value cache of `network`, in order.
    cached_tokens: Vec<u32>,
    /// The conversations that were removed from the key-value cache.
    memory: MemoryBlocks,
    /// The prefixes on disk, if the prefix cache is enabled.
    folder: Option<PrefixFolder>,
    /// The number of tokens that were evaluated since the last call of
    /// [`store_prefix`](Self::store_prefix).
    evaluated_tokens: usize,
    known_probabilities: KnownProbabilities,
    report_reading: ReadingObserver,
    /// `true` if hybrid models reason before they reply.
    thinks: bool,
}

/// A callback for the progress in a long prompt.
pub(crate) type ReadingObserver = Box<dyn Fn(Reading) + Send>;

/// The progress in a prompt with at least [`MIN_REPORTED_TOKENS`] new tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// `done` of `total` new tokens were evaluated.
    Progress { done: usize, total: usize },
    /// The request was cancelled or failed before all tokens were evaluated.
    Aborted,
}

/// The options of an [`Engine`].
pub(crate) struct EngineOptions {
    /// The device that evaluates the network.
    pub(crate) device: ComputeDevice,
    /// The prefix cache on disk. `None` disables it.
    pub(crate) prefix_cache: Option<PrefixCache>,
    /// The maximum size of the conversations in memory, in bytes.
    pub(crate) memory_bytes: usize,
    /// `true` if hybrid models reason before they reply.
    pub(crate) thinks: bool,
    pub(crate) report_reading: ReadingObserver,
}

/// The parameters of [`Engine::generate`]: constraint, sampling and limits.
pub(crate) struct GenerationJob {
    pub(crate) constraint: Option<Constraint>,
    pub(crate) sampler: Sampler,
    /// The maximum number of tokens to generate.
    pub(crate) max_tokens: usize,
    /// The number of generated tokens after which the engine prefers tokens that end the JSON
    /// value.
    pub(crate) close_after_tokens: usize,
    /// A bias for the logits of the end-of-sequence tokens. It applies only to the first token of
    /// the output, and has no effect if the grammar forces this token.
    pub(crate) eos_bias: f32,
    /// Tokens that end the generation, such as the special token that opens a tool call. The output
    /// does not contain them.
    pub(crate) stop_tokens: Vec<u32>,
    /// Tokens that must not be generated, such as the special token that opens a tool call.
    pub(crate) banned_tokens: Vec<u32>,
    /// Tokens that must not be the first token of the output.
    pub(crate) banned_first_tokens: Vec<u32>,
    /// `true` if the output is a JSON value. The engine then prevents a stray space at the
    /// beginning of strings, such as `" Tokyo"`.
    pub(crate) is_json: bool,
}

/// The output of [`Engine::generate`].
#[derive(Debug, Default)]
pub(crate) struct GeneratedTokens {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tokens: Vec<u32>,
    /// `true` if the text is complete. `false` if the token limit was reached, if the context
    /// window is full, if no token could be sampled, or if the model repeats itself endlessly.
    pub(crate) is_complete: bool,
    /// `true` if the output ended because the model repeats itself.
    pub(crate) is_loop: bool,
    /// The token of [`GenerationJob::stop_tokens`] that ended the generation, if any.
    pub(crate) stopped_at: Option<u32>,
}

/// The decision of a [`TokenListener`] to continue, stop or cancel the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Continue with the next token.
    Continue,
    /// End the generation successfully: the output counts as complete.
    Stop,
    /// Cancel the generation, because the receiver of the reply was dropped.
    Cancel,
}

/// A callback that receives the bytes of each generated token and returns the [`NextAction`].
///
/// It is also called with an empty slice before each forward pass, so that a long prompt can be
/// cancelled.
pub(crate) type TokenListener<'a> = &'a mut dyn FnMut(&[u8]) -> NextAction;

/// An error from encoding a prompt or generating text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The receiver of the reply was dropped.
    #[error("the request was dropped")]
    Dropped,
    /// The prompt fills or exceeds the context window of the model.
    #[error("the prompt has {needed} tokens, and the context window of the model has {context}")]
    PromptTooLong { needed: usize, context: usize },
    /// The chat template rejected the conversation.
    #[error("the chat template rejected the conversation: {0}")]
    Template(String),
    /// The grammar engine rejected the grammar, or failed during the generation.
    #[error("the constraint failed: {0}")]
    Constraint(String),
    /// An operation of the tensor library failed.
    #[error("the model could not be evaluated")]
    Evaluation(#[from] candle_core::Error),
}

impl Engine {
    /// Loads the model from the GGUF file at `path`. Calls `progress` with the fraction of the
    /// weights loaded so far, from 0 to 1.
    pub(crate) fn load(
        path: &Path,
        options: EngineOptions,
        progress: &mut (dyn FnMut(f32) + Send),
    ) -> Result<Self, LoadError> {
        let _span = info_span!("load model", path = %path.display()).entered();
        let gguf = Gguf::open(path, Device::Cpu)?;
        let device = options.device.open()?;
        // Both halves take about the same time, so they run at the same time.
        let (language, network) = thread::scope(|scope| {
            let network = scope.spawn(|| load_network(path, device, progress));
            (Language::read(gguf), network.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let Language { tokenizer, template, grammars } = language?;
        let network = network?;
        // Without a fingerprint, the file has just become unreadable, and nothing is stored.
        let model = fingerprint(path).ok();
        let folder = options
            .prefix_cache
            .zip(model)
            .and_then(|(cache, model)| PrefixFolder::new(cache, &model, network.cache_bytes_per_token()));
        Ok(Self {
            network,
            tokenizer,
            template,
            grammars,
            cached_tokens: Vec::new(),
            memory: MemoryBlocks::new(options.memory_bytes),
            folder,
            evaluated_tokens: 0,
            known_probabilities: KnownProbabilities::default(),
            report_reading: options.report_reading,
            thinks: options.thinks,
        })
    }

    /// Returns the size of the context window in tokens.
    pub(crate) fn context_length(&self) -> usize {
        self.network.context()
    }

    pub(crate) fn grammars(&self) -> &GrammarCompiler {
        &self.grammars
    }

    /// Encodes `turns` as a prompt without reasoning, up to the beginning of the model's turn.
    pub(crate) fn encode_prompt(&self, turns: &[Turn]) -> Result<Vec<u32>, EngineError> {
        let prompt = self.template.encode(turns, &[], false, &self.tokenizer);
        prompt.map(|prompt| prompt.tokens).map_err(EngineError::Template)
    }

    /// Encodes `turns` as a prompt, up to the beginning of the model's turn or of its reasoning.
    /// The chat template renders `tools`, which are function definitions in the format of Chat
    /// Completions.
    pub(crate) fn prompt_with_tools(&self, turns: &[Turn], tools: &[Value]) -> Result<Prompt, EngineError> {
        self.template.encode(turns, tools, self.thinks, &self.tokenizer).map_err(EngineError::Template)
    }

    /// Returns the form of tools and calls in the chat template, or `None` if the template does not
    /// support tools.
    pub(crate) fn tool_form(&self) -> Option<&ToolForm> {
        self.template.tool_form()
    }

    /// Returns the tags around the reasoning of the model.
    pub(crate) fn think_tags(&self) -> ThinkTags {
        self.template.think_tags()
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Generates the continuation of `prompt` under the constraint and the limits of `job`. Calls
    /// `listener` with the bytes of each generated token.
    pub(crate) fn generate(
        &mut self,
        prompt: &[u32],
        mut job: GenerationJob,
        listener: TokenListener<'_>,
    ) -> Result<GeneratedTokens, EngineError> {
        let context = self.context_length();
        if prompt.len() >= context {
            return Err(EngineError::PromptTooLong { needed: prompt.len(), context });
        }
        let limit = job.max_tokens.min(context - prompt.len());
        let cached = self.reuse_prefix(prompt);
        let _span = debug_span!("write", prompt = prompt.len(), cached).entered();
        let mut pending = prompt.get(cached..).unwrap_or_default().to_vec();
        let mut written = GeneratedTokens::default();
        let mut closing = GrammarCloser::new();

        written.is_complete = loop {
            let forced = self.fast_forward(&mut job, limit, &mut pending, &mut written, listener)?;
            if let Some(complete) = forced {
                break complete;
            }
            if written.tokens.len() >= limit {
                break false;
            }
            if written.tokens.len() < job.close_after_tokens && self.ends_with_loop(&job, &written) {
                match self.end_of_loop(&job, &written) {
                    LoopEnd::Now => {
                        written.is_loop = true;
                        break false;
                    }
                    LoopEnd::Close => job.close_after_tokens = written.tokens.len(),
                    LoopEnd::Later => {}
                }
            }
            let mut logits = self.evaluate(&mut pending, listener)?;
            if written.tokens.is_empty() {
                self.tokenizer.end_tokens().for_each(|end| add_bias(&mut logits, end, job.eos_bias));
                let banned = job.banned_first_tokens.iter();
                banned.for_each(|token| add_bias(&mut logits, *token, f32::NEG_INFINITY));
            }
            let banned = self.tokenizer.empty_tokens().iter().chain(&job.banned_tokens);
            banned.for_each(|token| add_bias(&mut logits, *token, f32::NEG_INFINITY));
            let Some(token) = self.choose_token(&logits, &mut job, &written, &mut closing)? else {
                break false;
            };
            if self.tokenizer.is_end(token) {
                break true;
            }
            if job.stop_tokens.contains(&token) {
                written.stopped_at = Some(token);
                break true;
            }
            if let Some(constraint) = &mut job.constraint {
                constraint.accept(token).map_err(EngineError::Constraint)?;
            }
            if self.append(&[token], &mut pending, &mut written, listener)? == NextAction::Stop {
                break true;
            }
        };
        debug!(tokens = written.tokens.len(), complete = written.is_complete, "wrote");
        Ok(written)
    }

    /// Returns the logits of the token that follows `prompt`.
    fn logits_after(&mut self, prompt: &[u32], listener: TokenListener<'_>) -> Result<Vec<f32>, EngineError> {
        let context = self.context_length();
        if prompt.len() > context {
            return Err(EngineError::PromptTooLong { needed: prompt.len(), context });
        }
        let cached = self.reuse_prefix(prompt);
        self.evaluate(&mut prompt.get(cached..).unwrap_or_default().to_vec(), listener)
    }

    /// Evaluates the tokens in `pending` and clears `pending`. Returns the logits that follow the
    /// last token.
    fn evaluate(
        &mut self,
        pending: &mut Vec<u32>,
        listener: TokenListener<'_>,
    ) -> Result<Vec<f32>, EngineError> {
        let total = pending.len();
        let evaluated = self.evaluate_pieces(pending, listener);
        if evaluated.is_err() && total >= MIN_REPORTED_TOKENS {
            (self.report_reading)(Reading::Aborted);
        }
        pending.clear();
        evaluated
    }

    fn evaluate_pieces(
        &mut self,
        tokens: &[u32],
        listener: TokenListener<'_>,
    ) -> Result<Vec<f32>, EngineError> {
        let (mut done, total) = (0, tokens.len());
        let report = |engine: &Self, done| {
            if total >= MIN_REPORTED_TOKENS {
                (engine.report_reading)(Reading::Progress { done, total });
            }
        };
        let mut logits = Vec::new();
        report(self, 0);
        for piece in tokens.chunks(MAX_EVALUATION_TOKENS) {
            if listener(&[]) == NextAction::Cancel {
                return Err(EngineError::Dropped);
            }
            let _span = trace_span!("evaluate", tokens = piece.len()).entered();
            logits = self.network.forward(piece)?;
            self.cached_tokens.extend(piece);
            self.evaluated_tokens += piece.len();
            done += piece.len();
            report(self, done);
        }
        Ok(logits)
    }

    /// Appends the tokens that the grammar forces, up to `limit` output tokens in total.
    ///
    /// Returns `Some(true)` if the grammar permits no further token, `Some(false)` if the forced
    /// tokens exceed `limit`, and `None` if the next token must be sampled.
    fn fast_forward(
        &self,
        job: &mut GenerationJob,
        limit: usize,
        pending: &mut Vec<u32>,
        written: &mut GeneratedTokens,
        listener: TokenListener<'_>,
    ) -> Result<Option<bool>, EngineError> {
        let Some(constraint) = &mut job.constraint else { return Ok(None) };
        let forced = constraint.take_forced_tokens().map_err(EngineError::Constraint)?;
        let room = limit.saturating_sub(written.tokens.len());
        let fitting = forced.get(..room).unwrap_or(&forced);
        self.append(fitting, pending, written, listener)?;
        if fitting.len() < forced.len() {
            return Ok(Some(false));
        }
        let complete = constraint.is_complete().map_err(EngineError::Constraint)?;
        Ok(complete.then_some(true))
    }

    /// Returns `true` if the output repeats itself. The numbers in JSON are data, and those in text
    /// may be the numbers of list items.
    fn ends_with_loop(&self, job: &GenerationJob, written: &GeneratedTokens) -> bool {
        let is_text = job.constraint.is_none();
        ends_with_loop(&written.tokens, |token| is_text && is_number(self.tokenizer.bytes(token)))
    }

    /// Returns how to end an output that ends with a loop. A JSON value is closed, unless the loop
    /// is within a single string or number, which must not be truncated.
    fn end_of_loop(&self, job: &GenerationJob, written: &GeneratedTokens) -> LoopEnd {
        let tokens = written.tokens.len();
        let repeated = written.tokens.iter().rev().take(MIN_REPEATED_TOKENS);
        let repeated_bytes = repeated.map(|token| self.tokenizer.bytes(*token).len()).sum();
        let end = match (job.constraint.is_some(), JsonState::at_end_of(&written.bytes)) {
            (true, JsonState::Outside) => LoopEnd::Close,
            (true, _) if JsonState::was_outside(&written.bytes, repeated_bytes) => LoopEnd::Later,
            _ => LoopEnd::Now,
        };
        debug!(tokens, ?end, "the model repeats itself");
        end
    }

    /// Samples the next token. Returns `None` if no token is allowed.
    fn choose_token(
        &self,
        logits: &[f32],
        job: &mut GenerationJob,
        written: &GeneratedTokens,
        closing: &mut GrammarCloser,
    ) -> Result<Option<u32>, EngineError> {
        let Some(constraint) = &mut job.constraint else { return Ok(job.sampler.choose(logits, None)) };
        let allowed = constraint.allowed_tokens().map_err(EngineError::Constraint)?;
        let state = JsonState::at_end_of(&written.bytes);
        let allowed = match job.is_json {
            true => {
                let allowed =
                    number_length::exclude_long_numbers(&written.bytes, state, allowed, &self.tokenizer);
                stray_space::exclude_stray_spaces(state, allowed, &self.tokenizer)
            }
            false => allowed,
        };
        let is_closing = written.tokens.len() >= job.close_after_tokens;
        if is_closing && state == JsonState::Outside {
            return Ok(closing.choose(&allowed, &self.tokenizer));
        }
        let token = job.sampler.choose(logits, Some(&allowed));
        Ok(match is_closing && job.is_json {
            true => token.map(|token| without_next_item(token, state, &allowed, &self.tokenizer)),
            false => token,
        })
    }

    fn append(
        &self,
        tokens: &[u32],
        pending: &mut Vec<u32>,
        written: &mut GeneratedTokens,
        listener: TokenListener<'_>,
    ) -> Result<NextAction, EngineError> {
        for token in tokens {
            let bytes = self.tokenizer.bytes(*token);
            pending.push(*token);
            written.tokens.push(*token);
            written.bytes.extend(bytes);
            match listener(bytes) {
                NextAction::Continue => {}
                NextAction::Stop => return Ok(NextAction::Stop),
                NextAction::Cancel => return Err(EngineError::Dropped),
            }
        }
        Ok(NextAction::Continue)
    }
}

/// The way in which the engine ends an output that repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoopEnd {
    /// The output ends, and is incomplete.
    Now,
    /// The JSON value is closed; see [`close_grammar`].
    Close,
    /// The next token that ends a string or a number is awaited.
    Later,
}

/// The parts of a model other than the network.
struct Language {
    tokenizer: Tokenizer,
    template: Template,
    grammars: GrammarCompiler,
}

impl Language {
    fn read(mut gguf: Gguf) -> Result<Self, LoadError> {
        let tokenizer = Tokenizer::read(&mut gguf)?;
        let template = Template::read(&gguf, &tokenizer)?;
        let grammars =
            GrammarCompiler::new(&tokenizer).map_err(|reason| LoadError::InvalidTokenizer { reason })?;
        Ok(Self { tokenizer, template, grammars })
    }
}

fn load_network(
    path: &Path,
    device: Device,
    progress: &mut (dyn FnMut(f32) + Send),
) -> Result<Network, LoadError> {
    let mut gguf = Gguf::open(path, device)?;
    let vocabulary = gguf.array("tokenizer.ggml.tokens").map_or(0, <[_]>::len);
    // The tokens need 25 MB, which the weights can then use.
    gguf.remove_entries("tokenizer.");
    Network::load(&mut gguf, vocabulary, progress)
}

fn add_bias(logits: &mut [f32], token: u32, bias: f32) {
    if let Some(logit) = logits.get_mut(token as usize) {
        *logit += bias;
    }
}
