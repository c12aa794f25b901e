//! Grammar constraints for decoding. A constraint masks the tokens that would violate its grammar.

#[cfg(test)]
mod tests;

use llguidance::api::{StopReason, TopLevelGrammar};
use llguidance::toktrie::{InferenceCapabilities, SimpleVob};
use llguidance::{Matcher, ParserFactory};
use tracing::trace_span;

use crate::tokenizer::Tokenizer;

/// A grammar compiler for the vocabulary of one model.
pub(crate) struct GrammarCompiler {
    factory: ParserFactory,
}

impl GrammarCompiler {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, String> {
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let capabilities = InferenceCapabilities { ff_tokens: true, ..Default::default() };
        let mut factory = ParserFactory::new(&tokenizer.token_environment(), capabilities, &slices)
            .map_err(|error| error.to_string())?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self { factory })
    }

    /// Compiles `grammar` to a constraint. If the compilation fails, returns the error message of
    /// the grammar engine.
    pub(crate) fn compile(&self, grammar: TopLevelGrammar) -> Result<Constraint, String> {
        let _span = trace_span!("compile grammar").entered();
        let matcher = Matcher::new(self.factory.create_parser(grammar));
        match matcher.get_error() {
            Some(error) => Err(error),
            None => Ok(Constraint { matcher }),
        }
    }
}

/// A compiled grammar, and the state of its parser after the tokens that were generated so far.
pub(crate) struct Constraint {
    matcher: Matcher,
}

impl Constraint {
    /// Consumes and returns the next tokens as long as the grammar permits only one continuation.
    /// These tokens need no sampling.
    pub(crate) fn take_forced_tokens(&mut self) -> Result<Vec<u32>, String> {
        let forced = self.matcher.consume_ff_tokens();
        // A failed matcher returns no tokens. Its error is available only from `get_error`.
        self.matcher.get_error().map_or(Ok(forced), Err)
    }

    /// Returns the set of tokens that the grammar permits next. The set contains the
    /// end-of-sequence token if the grammar permits the text to end.
    pub(crate) fn allowed_tokens(&mut self) -> Result<SimpleVob, String> {
        self.matcher.compute_mask().map_err(|error| error.to_string())
    }

    /// Advances the parser past the sampled token `token`. Fails if the grammar does not permit
    /// `token`.
    pub(crate) fn accept(&mut self, token: u32) -> Result<(), String> {
        self.matcher.consume_token(token).map_err(|error| error.to_string())
    }

    /// Returns `true` if the generated text is complete and cannot be extended. Fails if the parser
    /// stopped for another reason, such as a resource limit.
    pub(crate) fn is_complete(&self) -> Result<bool, String> {
        match self.matcher.stop_reason() {
            StopReason::NotStopped => Ok(false),
            StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence => Ok(true),
            reason => Err(self.matcher.get_error().unwrap_or_else(|| reason.to_string())),
        }
    }
}
