//! The chat template of a model: messages to the tokens of a prompt.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};

use crate::LoadError;
use crate::gguf::Gguf;
use crate::tokenizer::Tokenizer;

/// Written by most models of today, and a fair guess for a file that declares none.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Text from outside stands in the template as a number between these two, so that it is never read as markup.
const OPEN: char = '\u{F0000}';
const CLOSE: char = '\u{F0001}';

/// Steps that a template may take for one conversation: far more than the longest needs, and less than a second.
const FUEL: u64 = 10_000_000;

/// One message as templates see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) content: String,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A compiled chat template.
pub(crate) struct Template {
    environment: Environment<'static>,
    begin: String,
    end: String,
}

impl Template {
    pub(crate) fn read(gguf: &Gguf, tokenizer: &Tokenizer) -> Result<Self, LoadError> {
        let source = gguf.text("tokenizer.chat_template").unwrap_or(CHATML);
        let named = |key: &str| {
            let token = u32::try_from(gguf.integer(key)?).ok()?;
            tokenizer.spelling(token)
        };
        Self::new(
            source,
            named("tokenizer.ggml.bos_token_id").unwrap_or_default(),
            named("tokenizer.ggml.eos_token_id").unwrap_or_default(),
        )
    }

    fn new(source: &str, begin: String, end: String) -> Result<Self, LoadError> {
        let mut environment = Environment::new();
        let unusable = |error: Error| LoadError::Template { reason: error.to_string() };
        let layout = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(layout.map_err(unusable)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(FUEL));
        environment.add_function("raise_exception", refuse);
        environment.add_template_owned("chat", source.to_owned()).map_err(unusable)?;
        Ok(Self { environment, begin, end })
    }

    /// The tokens of a conversation, up to where the model's turn begins.
    pub(crate) fn encode(&self, turns: &[Turn], tokenizer: &Tokenizer) -> Result<Vec<u32>, String> {
        let text = self.render(turns).map_err(|error| error.to_string())?;
        let mut tokens = Vec::new();
        for (index, piece) in text.split(OPEN).enumerate() {
            let (content, markup) = match piece.split_once(CLOSE) {
                Some((number, markup)) if index > 0 => (number.parse().ok(), markup),
                _ => (None, piece),
            };
            let content = content.and_then(|number: usize| turns.get(number));
            tokens.extend(content.map(|turn| tokenizer.encode_content(&turn.content)).unwrap_or_default());
            tokens.extend(tokenizer.encode_markup(markup));
        }
        Ok(tokens)
    }

    fn render(&self, turns: &[Turn]) -> Result<String, Error> {
        let messages: Vec<Value> = turns
            .iter()
            .enumerate()
            .map(|(number, turn)| {
                let content = format!("{OPEN}{number}{CLOSE}");
                context! { role => turn.role.name(), content }
            })
            .collect();
        self.environment.get_template("chat")?.render(context! {
            messages,
            add_generation_prompt => true,
            bos_token => &self.begin,
            eos_token => &self.end,
        })
    }
}

/// What templates call when they are given roles in an order that the model was not trained on.
fn refuse(reason: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, reason))
}
