//! The requests that have started a run or sent it a message.

use sqlx::{query, query_as};

use super::{SqlStore, Write};
use crate::{RequestKey, StoreError};

/// The fingerprint of a request, and the id of its run.
const REQUEST: &str = "SELECT q.fingerprint, r.id FROM requests q JOIN runs r ON r.pk = q.run \
                       WHERE q.tenant = $1 AND q.id = $2";

impl SqlStore {
    pub(super) async fn find_request(
        &self,
        tenant: &str,
        request: &RequestKey,
    ) -> Result<Option<String>, StoreError> {
        let found = query_as(REQUEST).bind(tenant).bind(&request.id).fetch_optional(&self.pool).await;
        found.map_err(|error| self.error(error))?.map(|found| run_of(request, found)).transpose()
    }

    /// Fails if the store knows `request`.
    pub(super) async fn check_new(
        &self,
        write: &mut Write<'_>,
        tenant: &str,
        request: &RequestKey,
    ) -> Result<(), StoreError> {
        let found = query_as(REQUEST).bind(tenant).bind(&request.id).fetch_optional(&mut *write.tx).await;
        match found.map_err(|error| self.error(error))? {
            None => Ok(()),
            Some(found) => Err(StoreError::Repeated { run: run_of(request, found)? }),
        }
    }

    /// Inserts the `request` of a run. Fails if the store knows it.
    pub(super) async fn insert_request(
        &self,
        write: &mut Write<'_>,
        tenant: &str,
        request: &RequestKey,
        run: i64,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO requests (tenant, id, fingerprint, run) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (tenant, id) DO NOTHING";
        let insert = query(sql).bind(tenant).bind(&request.id).bind(&request.fingerprint).bind(run);
        let inserted = insert.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        match inserted.rows_affected() {
            0 => self.check_new(write, tenant, request).await,
            _ => Ok(()),
        }
    }
}

/// Returns the run of the stored request `found`, if it is the same as `request`.
fn run_of(request: &RequestKey, found: (String, String)) -> Result<String, StoreError> {
    let (fingerprint, run) = found;
    match fingerprint == request.fingerprint {
        true => Ok(run),
        false => Err(StoreError::OtherRequest(request.id.clone())),
    }
}
