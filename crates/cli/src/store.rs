//! The store of conversations, an option of several commands.

use std::{fs, sync::Arc};

use clap::Args;
use etcetera::BaseStrategy as _;
use haft_session::{InvalidId, SessionKey, SessionStore, SqlStore, StoreError};

use crate::error::CliError;

/// The option for the store.
#[derive(Args)]
pub(crate) struct StoreOptions {
    /// The store of conversations: `sqlite:FILE` or `postgres://USER:PASSWORD@HOST/DATABASE`.
    /// Default: a file in the data folder of the user.
    #[arg(long, value_name = "URL", env = "HAFT_STORE")]
    store: Option<String>,
}

impl StoreOptions {
    /// Opens the store.
    pub(crate) async fn open(&self) -> Result<Arc<dyn SessionStore>, CliError> {
        let store = match &self.store {
            Some(url) => SqlStore::open(url).await,
            None => {
                let folder = etcetera::choose_base_strategy()
                    .map_err(|_| CliError::usage("the data folder is unknown: set --store or HOME"))?
                    .data_dir()
                    .join("haft");
                fs::create_dir_all(&folder)
                    .map_err(|error| CliError::new(format!("cannot create {}: {error}", folder.display())))?;
                SqlStore::open_file(folder.join("sessions.db")).await
            }
        };
        Ok(Arc::new(store.map_err(|error| store_error(&error))?))
    }
}

/// Returns the key of the session `name` of `tenant`.
pub(crate) fn session_key(tenant: &str, name: &str) -> Result<SessionKey, CliError> {
    SessionKey::of_tenant(tenant, name).map_err(|error: InvalidId| CliError::usage(error.to_string()))
}

pub(crate) fn store_error(error: &StoreError) -> CliError {
    match error {
        StoreError::SessionNotFound(_) | StoreError::SessionExists(_) => CliError::usage(error.to_string()),
        error => CliError::from_error(error),
    }
}
