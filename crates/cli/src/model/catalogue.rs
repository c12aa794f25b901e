//! The list of the catalogue of API models: `haft model list --catalogue`.

use std::fmt::Write as _;

use haft_core::{
    model::catalogue::{self, ModelCard},
    usage::Price,
};
use serde_json::json;

use crate::{error::CliError, terminal};

/// Writes the API models of the catalogue with their limits, prices and abilities.
pub(super) fn list(json: bool) -> Result<(), CliError> {
    let mut text = String::new();
    if json {
        for card in catalogue::all() {
            let mut line = json!(card);
            if let Some(fields) = line.as_object_mut() {
                fields.insert("date".to_owned(), catalogue::date().into());
            }
            let _ = writeln!(text, "{line}");
        }
    } else {
        let date = catalogue::date();
        let _ = writeln!(text, "Models of APIs on {date}, with prices in USD per million tokens.");
        let _ =
            writeln!(text, "The data can be old or wrong: the pages of the providers are authoritative.\n");
        let title =
            row("model", "context", "reply", ["input", "cached", "written", "output"].map(str::to_owned));
        let _ = writeln!(text, "{title}  abilities");
        for card in catalogue::all() {
            let _ = writeln!(text, "{}", card_row(card));
        }
    }
    Ok(terminal::write(&text)?)
}

fn card_row(card: &ModelCard) -> String {
    let name = format!("{}/{}", card.provider, card.name);
    let reply = card.max_output_tokens.map_or_else(|| "-".to_owned(), thousands);
    let prices = [
        card.price.map(|price: Price| price.input),
        card.price.and_then(|price| price.cached_input),
        card.price.and_then(|price| price.cache_write),
        card.price.map(|price| price.output),
    ];
    let prices = prices.map(|price| price.map_or_else(|| "-".to_owned(), |price| price.to_string()));
    format!("{}  {}", row(&name, &thousands(card.context_window), &reply, prices), abilities(card))
}

fn row(name: &str, window: &str, reply: &str, [input, cached, written, output]: [String; 4]) -> String {
    format!("{name:48} {window:>8} {reply:>8} {input:>7} {cached:>7} {written:>7} {output:>7}")
}

/// Formats a number of tokens in thousands, such as `400k`.
fn thousands(tokens: u64) -> String {
    format!("{}k", tokens / 1000)
}

fn abilities(card: &ModelCard) -> String {
    let abilities = [
        (card.supports_images, "images"),
        (card.supports_audio, "audio"),
        (card.supports_files, "files"),
        (card.supports_native_tools, "tools"),
        (card.supports_json_schema, "schema"),
        (card.supports_reasoning, "reasoning"),
    ];
    let names: Vec<_> = abilities.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    names.join(" ")
}
