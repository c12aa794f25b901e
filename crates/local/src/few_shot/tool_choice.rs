//! The choice of the tool for a need, by probability.

use haft_core::model::{ChatRequest, ModelError};
use tracing::debug;

use super::dialogue::{NEED_LABEL, NO_TOOL, TOOL};
use super::plan::Stage;
use super::{ExampleReply, render_prompt};
use crate::engine::{Candidate, KnownLogits};
use crate::respond::with_question;

/// A question without content, and the need for it. A small model prefers some names of tools, such
/// as `get_price`, in all cases. The probabilities after this question are subtracted, as in
/// "Calibrate Before Use" by Zhao et al. (2021).
const NEUTRAL_QUESTION: &str = "Can you help me with something?";
const NEUTRAL_NEED: &str = "help me with something";

impl ExampleReply<'_> {
    /// Chooses the tool for `need`. Returns `None` if no tool fits, which is impossible if the
    /// request requires a call.
    pub(super) fn choose_tool(&mut self, stage: Stage, need: &str) -> Result<Option<String>, ModelError> {
        let tools = self.writer.callable_names();
        let mut candidates = self.candidates(&tools);
        if !self.must_call() {
            candidates.push(self.candidate(&format!(" {NO_TOOL}\n"), self.profile.no_tool_bias));
        }
        let start = self.writer.prompt.len();
        self.writer.prefill(&format!("{NEED_LABEL}{need}\n{}", TOOL.trim_end()));
        let mut known = KnownLogits::new();
        let likeliest = self.writer.choose_candidate(&candidates, &mut known)?;
        let mut chosen = likeliest.map(|choice| choice.index).filter(|index| *index < tools.len());
        // Earlier calls in the reply change the probabilities, so the priors do not fit them.
        if chosen.is_some() && tools.len() > 1 && stage == Stage::Question {
            candidates.truncate(tools.len());
            for (candidate, prior) in candidates.iter_mut().zip(self.priors(&tools)?) {
                candidate.bias -= self.profile.prior_weight * prior;
            }
            chosen = self.writer.choose_candidate(&candidates, &mut known)?.map(|choice| choice.index);
        }
        self.writer.prompt.truncate(start);
        let tool = chosen.and_then(|index| tools.into_iter().nth(index));
        debug!(need, ?tool, ?likeliest, "chose a tool");
        Ok(tool)
    }

    /// Returns the log-probability of each tool after a question without content. The result is
    /// empty if the names do not fit into the context window.
    fn priors(&mut self, tools: &[String]) -> Result<Vec<f32>, ModelError> {
        let request = with_question(self.writer.request, NEUTRAL_QUESTION);
        let (_, mut prompt) = render_prompt(self.writer.engine, self.profile, &request)?;
        let need = format!("{NEED_LABEL}{NEUTRAL_NEED}\n{}", TOOL.trim_end());
        prompt.extend(self.writer.engine.tokenizer().encode_content(&need));
        let names: Vec<_> = self.candidates(tools).into_iter().map(|candidate| candidate.tokens).collect();
        Ok(self.writer.log_probabilities(&prompt, &names)?.unwrap_or_default())
    }

    fn candidates(&self, tools: &[String]) -> Vec<Candidate> {
        let texts = tools.iter().map(|tool| call_beginning(self.writer.request, tool));
        texts.map(|text| self.candidate(&text, 0.0)).collect()
    }

    fn candidate(&self, text: &str, bias: f32) -> Candidate {
        Candidate { tokens: self.writer.engine.tokenizer().encode_content(text), bias }
    }
}

/// Returns the text that follows `Tool:` in a call of `name`, up to a token after which the name
/// cannot continue.
fn call_beginning(request: &ChatRequest, name: &str) -> String {
    let tool = request.tools.get(name);
    let has_parameters =
        tool.is_some_and(|tool| tool.definition().input_schema().properties().next().is_some());
    if has_parameters { format!(" {name}({{\"") } else { format!(" {name}({{}})") }
}
