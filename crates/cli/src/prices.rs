//! The prices of a run: those of `--prices`, or those of the catalogue of API models.

use std::path::{Path, PathBuf};

use clap::Args;
use haft_core::{
    model::catalogue::{self, ModelCard},
    usage::Prices,
};
use serde_json::{Value, json};

use crate::{error::CliError, model_options::ModelOptions, text_file};

/// Options for the cost of runs.
#[derive(Args)]
pub(crate) struct PriceOptions {
    /// Report the cost, with the prices per million tokens in this file:
    /// `{"MODEL": {"input": 0.25, "output": 2}}`.
    ///
    /// Default: the prices of `haft model list --catalogue`, if they include the model of the API.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// The prices of a run, and their source.
pub(crate) struct RunPrices {
    pub(crate) table: Prices,
    pub(crate) source: PriceSource,
}

/// The source of prices.
#[derive(Clone, Copy)]
pub(crate) enum PriceSource {
    /// The file of `--prices`.
    File,
    /// The catalogue, which contains the model of the run.
    Catalogue(&'static ModelCard),
}

impl PriceOptions {
    /// Returns the prices in the file of `--prices`. Without the option, returns the prices of the
    /// catalogue if it contains the model in `model`.
    pub(crate) fn load(&self, model: &ModelOptions) -> Result<Option<RunPrices>, CliError> {
        if let Some(path) = &self.prices {
            return Ok(Some(RunPrices { table: read_prices(path)?, source: PriceSource::File }));
        }
        Ok(model.api_model().and_then(catalogue_prices))
    }
}

impl PriceSource {
    /// Returns the description of the source in JSON. `None` for a file, which the user knows.
    pub(crate) fn to_json(self) -> Option<Value> {
        let Self::Catalogue(ModelCard { provider, name, .. }) = self else { return None };
        Some(json!({
            "source": "catalogue",
            "model": format!("{provider}/{name}"),
            "date": catalogue::date(),
            "currency": "USD",
        }))
    }

    /// Returns the description of the source in a text. `None` for a file.
    pub(crate) fn describe(self) -> Option<String> {
        let Self::Catalogue(ModelCard { provider, name, .. }) = self else { return None };
        Some(format!("the catalogue price of {provider}/{name} on {}", catalogue::date()))
    }
}

/// Returns the prices of the catalogue, also for `model`, the name in the request. The server may
/// reply with another name, such as that of a snapshot.
fn catalogue_prices(model: &str) -> Option<RunPrices> {
    let card = catalogue::find(model)?;
    let table = catalogue::prices().with_price(model, card.price?);
    Some(RunPrices { table, source: PriceSource::Catalogue(card) })
}

fn read_prices(path: &Path) -> Result<Prices, CliError> {
    let invalid = |problem: String| CliError::new(format!("invalid prices in {}: {problem}", path.display()));
    let text = text_file::read(path).map_err(|error| invalid(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))
}
