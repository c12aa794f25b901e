//! Runs, their owners, and the decisions about their calls.

use std::time::Duration;

use haft_core::{
    Timestamp,
    call::{Decision, Decisions},
};
use sqlx::{AssertSqlSafe, query, query_as, query_scalar};

use super::{SqlStore, Write, entries::EntryRow, from_row, later, unreadable, unsigned};
use crate::{
    Entry, EntryBody, Lease, NewRun, RunStatus, RunSummary, RunUpdate, SessionKey, StoreError, StoredRun,
    conversation::transcript,
};

/// The row of a run.
struct RunRow {
    pk: i64,
    session: i64,
    id: String,
    status: String,
    base: i64,
    state: String,
    usage: String,
    token: Option<String>,
    owned_until: i64,
    created_at: i64,
    updated_at: i64,
}

from_row!(RunRow { pk, session, id, status, base, state, usage, token, owned_until, created_at, updated_at });

impl RunRow {
    fn status(&self) -> Result<RunStatus, StoreError> {
        status_of(&self.status)
    }
}

const SUMMARY: &str = "SELECT r.id, s.id AS session, r.status, r.usage, r.first_entry, r.first_event, r.created_at, \
                       r.updated_at FROM runs r JOIN sessions s ON s.pk = r.session";

/// The row of a run without its state.
struct SummaryRow {
    id: String,
    session: String,
    status: String,
    usage: String,
    first_entry: i64,
    first_event: i64,
    created_at: i64,
    updated_at: i64,
}

from_row!(SummaryRow { id, session, status, usage, first_entry, first_event, created_at, updated_at });

impl SummaryRow {
    fn into_summary(self) -> Result<RunSummary, StoreError> {
        Ok(RunSummary {
            id: self.id,
            session: self.session,
            status: status_of(&self.status)?,
            usage: serde_json::from_str(&self.usage).map_err(unreadable("run"))?,
            first_entry: unsigned(self.first_entry),
            first_event: unsigned(self.first_event),
            created_at: Timestamp::from_unix_millis(self.created_at),
            updated_at: Timestamp::from_unix_millis(self.updated_at),
        })
    }
}

fn status_of(text: &str) -> Result<RunStatus, StoreError> {
    serde_json::from_value(serde_json::Value::from(text)).map_err(unreadable("run"))
}

const RUN: &str = "SELECT pk, session, id, status, base, state, usage, token, owned_until, \
                   created_at, updated_at FROM runs WHERE tenant = $1 AND id = $2";

/// Returns the error for an id that no run has. PostgreSQL rejects U+0000.
fn check_id(run: &str) -> Result<(), StoreError> {
    if run.contains('\0') { Err(StoreError::RunNotFound(run.to_owned())) } else { Ok(()) }
}

/// The id of the run of a session that is not over.
const ACTIVE_RUN: &str = "SELECT id FROM runs WHERE session = $1 AND status IN ('active', 'suspended')";

impl SqlStore {
    pub(super) async fn insert_run(
        &self,
        key: &SessionKey,
        run: NewRun,
        time: Duration,
    ) -> Result<Lease, StoreError> {
        let NewRun { id, messages, state, expected, is_fresh, request, events } = run;
        let mut write = self.write().await?;
        let session = self.lock_session(&mut write, key).await?;
        if let Some(request) = &request {
            // The run of the first attempt may still be active.
            self.check_new(&mut write, key.tenant(), request).await?;
        }
        let active = query_scalar(ACTIVE_RUN).bind(session.pk).fetch_optional(&mut *write.tx).await;
        if let Some(active) = active.map_err(|error| self.error(error))? {
            return Err(StoreError::Busy(active));
        }
        let found = unsigned(session.head);
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            return Err(StoreError::Conflict { expected, found });
        }
        let messages: Vec<_> = messages.into_iter().map(EntryBody::Message).collect();
        self.push_entries(&mut write, key.tenant(), &session, Some(&id), &messages).await?;
        let lease = self.new_lease(&mut write, key, &id, time).await?;
        let now = lease.until.unix_millis() - super::millis(time);
        let usage = serde_json::to_string(&haft_core::usage::Usage::default()).unwrap_or_default();
        let sql = "INSERT INTO runs (session, tenant, id, status, base, state, usage, token, owned_until, created_at, \
                   updated_at, first_event, first_entry) VALUES ($1, $2, $3, 'active', $4, $5, $6, $7, $8, $9, $9, $10, $11) \
                   RETURNING pk";
        let base = if is_fresh { 0 } else { session.head };
        let insert = query_scalar(sql).bind(session.pk).bind(key.tenant()).bind(&id).bind(base);
        let insert = insert.bind(state.to_string()).bind(usage).bind(&lease.token);
        let insert = insert.bind(lease.until.unix_millis()).bind(now).bind(session.last_event + 1);
        let insert = insert.bind(session.head + 1);
        let run: i64 = insert.fetch_one(&mut *write.tx).await.map_err(|error| self.error(error))?;
        if let Some(request) = &request {
            self.insert_request(&mut write, key.tenant(), request, run).await?;
        }
        if !events.is_empty() {
            self.push_events(&mut write, &session, &id, events).await?;
        }
        self.commit(write).await?;
        Ok(lease)
    }

    async fn new_lease(
        &self,
        write: &mut Write<'_>,
        key: &SessionKey,
        run: &str,
        time: Duration,
    ) -> Result<Lease, StoreError> {
        let mut token = [0_u8; 16];
        getrandom::fill(&mut token).map_err(|error| StoreError::Database(error.to_string().into()))?;
        let token = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let until = later(write.now().await.map_err(|error| self.error(error))?, time);
        let (tenant, session) = (key.tenant().to_owned(), key.id().to_owned());
        Ok(Lease { tenant, session, run: run.to_owned(), token, until })
    }

    async fn lock_run(&self, write: &mut Write<'_>, tenant: &str, run: &str) -> Result<RunRow, StoreError> {
        check_id(run)?;
        let lock = if write.is_sqlite { "" } else { " FOR UPDATE" };
        let sql = AssertSqlSafe(format!("{RUN}{lock}"));
        let row = query_as(sql).bind(tenant).bind(run).fetch_optional(&mut *write.tx).await;
        row.map_err(|error| self.error(error))?.ok_or_else(|| StoreError::RunNotFound(run.to_owned()))
    }

    async fn find_run(&self, tenant: &str, run: &str) -> Result<RunRow, StoreError> {
        check_id(run)?;
        let row = query_as(RUN).bind(tenant).bind(run).fetch_optional(&self.pool).await;
        row.map_err(|error| self.error(error))?.ok_or_else(|| StoreError::RunNotFound(run.to_owned()))
    }

    /// Returns the row of the run of `lease`, locked. Fails if another process has acquired it.
    async fn lock_owned(&self, write: &mut Write<'_>, lease: &Lease) -> Result<RunRow, StoreError> {
        let row = self.lock_run(write, &lease.tenant, &lease.run).await?;
        match row.token.as_deref() == Some(lease.token.as_str()) {
            true => Ok(row),
            false => Err(StoreError::LeaseLost(lease.run.clone())),
        }
    }

    pub(super) async fn read_run(&self, tenant: &str, run: &str) -> Result<StoredRun, StoreError> {
        check_id(run)?;
        let failed = |error| self.error(error);
        // The state and the messages are from the same write.
        let mut read = self.read().await?;
        let row = query_as(RUN).bind(tenant).bind(run).fetch_optional(&mut *read).await.map_err(failed)?;
        let row: RunRow = row.ok_or_else(|| StoreError::RunNotFound(run.to_owned()))?;
        let session = query_scalar("SELECT id FROM sessions WHERE pk = $1").bind(row.session);
        let session = session.fetch_one(&mut *read).await.map_err(failed)?;
        let sql = "SELECT position, run, kind, body, blobs, created_at FROM entries \
                   WHERE session = $1 AND position <= $2 ORDER BY position";
        let earlier = query_as::<_, EntryRow>(sql).bind(row.session).bind(row.base);
        let earlier = earlier.fetch_all(&mut *read).await.map_err(failed)?;
        let sql = "SELECT position, run, kind, body, blobs, created_at FROM entries \
                   WHERE session = $1 AND run = $2 AND position > $3 ORDER BY position";
        let own = query_as::<_, EntryRow>(sql).bind(row.session).bind(run).bind(row.base);
        let own = own.fetch_all(&mut *read).await.map_err(failed)?;
        read.commit().await.map_err(failed)?;
        let mut messages = transcript(&self.read_rows(earlier).await?);
        let own = self.read_rows(own).await?;
        messages.extend(own.iter().filter_map(|entry| entry.message().cloned()));
        Ok(StoredRun {
            status: row.status()?,
            id: row.id,
            session,
            state: serde_json::from_str(&row.state).map_err(unreadable("run"))?,
            usage: serde_json::from_str(&row.usage).map_err(unreadable("run"))?,
            transcript: messages,
            created_at: Timestamp::from_unix_millis(row.created_at),
            updated_at: Timestamp::from_unix_millis(row.updated_at),
        })
    }

    pub(super) async fn list_runs(
        &self,
        key: &SessionKey,
        limit: u32,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let session = self.find_session(key).await?;
        let sql = AssertSqlSafe(format!("{SUMMARY} WHERE r.session = $1 ORDER BY r.pk DESC LIMIT $2"));
        let rows = query_as(sql).bind(session.pk).bind(i64::from(limit)).fetch_all(&self.pool).await;
        let rows: Vec<SummaryRow> = rows.map_err(|error| self.error(error))?;
        rows.into_iter().map(SummaryRow::into_summary).collect()
    }

    pub(super) async fn read_summary(&self, tenant: &str, run: &str) -> Result<RunSummary, StoreError> {
        check_id(run)?;
        let sql = AssertSqlSafe(format!("{SUMMARY} WHERE r.tenant = $1 AND r.id = $2"));
        let row = query_as(sql).bind(tenant).bind(run).fetch_optional(&self.pool).await;
        let row: Option<SummaryRow> = row.map_err(|error| self.error(error))?;
        row.ok_or_else(|| StoreError::RunNotFound(run.to_owned()))?.into_summary()
    }

    pub(super) async fn read_run_entries(&self, tenant: &str, run: &str) -> Result<Vec<Entry>, StoreError> {
        let row = self.find_run(tenant, run).await?;
        let sql = "SELECT position, run, kind, body, blobs, created_at FROM entries \
                   WHERE session = $1 AND run = $2 AND position > $3 ORDER BY position";
        let entries = query_as::<_, EntryRow>(sql).bind(row.session).bind(run).bind(row.base);
        let entries = entries.fetch_all(&self.pool).await.map_err(|error| self.error(error))?;
        self.read_rows(entries).await
    }

    pub(super) async fn find_active_run(&self, key: &SessionKey) -> Result<Option<String>, StoreError> {
        let session = self.find_session(key).await?;
        let run = query_scalar(ACTIVE_RUN).bind(session.pk).fetch_optional(&self.pool).await;
        run.map_err(|error| self.error(error))
    }

    pub(super) async fn list_abandoned_runs(&self, limit: u32) -> Result<Vec<(String, String)>, StoreError> {
        let mut write = self.write().await?;
        let now = write.now().await.map_err(|error| self.error(error))?;
        let sql = "SELECT tenant, id FROM runs WHERE (status = 'active' AND owned_until <= $1) OR (status = 'suspended' \
                   AND EXISTS (SELECT 1 FROM decisions d WHERE d.run = runs.pk AND d.created_at >= runs.updated_at)) \
                   ORDER BY pk LIMIT $2";
        let runs = query_as(sql).bind(now.unix_millis()).bind(i64::from(limit));
        let runs = runs.fetch_all(&mut *write.tx).await.map_err(|error| self.error(error))?;
        self.commit(write).await?;
        Ok(runs)
    }

    pub(super) async fn acquire_run(
        &self,
        tenant: &str,
        run: &str,
        time: Duration,
    ) -> Result<Lease, StoreError> {
        let mut write = self.write().await?;
        let row = self.lock_run(&mut write, tenant, run).await?;
        if row.status()?.is_over() {
            return Err(StoreError::RunOver(run.to_owned()));
        }
        let now = write.now().await.map_err(|error| self.error(error))?;
        let until = Timestamp::from_unix_millis(row.owned_until);
        if row.token.is_some() && until > now {
            return Err(StoreError::Owned { run: run.to_owned(), until });
        }
        let session = query_scalar("SELECT id FROM sessions WHERE pk = $1").bind(row.session);
        let session: String = session.fetch_one(&mut *write.tx).await.map_err(|error| self.error(error))?;
        let key =
            SessionKey::of_tenant(tenant, session).map_err(|error| StoreError::SessionNotFound(error.0))?;
        let lease = self.new_lease(&mut write, &key, run, time).await?;
        let sql = "UPDATE runs SET status = 'active', token = $2, owned_until = $3 WHERE pk = $1";
        let update = query(sql).bind(row.pk).bind(&lease.token).bind(lease.until.unix_millis());
        update.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        self.commit(write).await?;
        Ok(lease)
    }

    pub(super) async fn renew_lease(&self, lease: &Lease, time: Duration) -> Result<Lease, StoreError> {
        let mut write = self.write().await?;
        let row = self.lock_owned(&mut write, lease).await?;
        let until = later(write.now().await.map_err(|error| self.error(error))?, time);
        let update = query("UPDATE runs SET owned_until = $2 WHERE pk = $1").bind(row.pk);
        let update = update.bind(until.unix_millis()).execute(&mut *write.tx).await;
        update.map_err(|error| self.error(error))?;
        self.commit(write).await?;
        Ok(Lease { until, ..lease.clone() })
    }

    pub(super) async fn save_run(&self, lease: &Lease, update: RunUpdate) -> Result<u64, StoreError> {
        let RunUpdate { messages, state, status, usage, events, is_released, request } = update;
        let key = SessionKey::of_tenant(lease.tenant.as_str(), lease.session.as_str())
            .map_err(|error| StoreError::SessionNotFound(error.0))?;
        let mut write = self.write().await?;
        // The session is locked first, as in every other transaction.
        let session = self.lock_session(&mut write, &key).await?;
        let row = self.lock_owned(&mut write, lease).await?;
        if let Some(request) = &request {
            self.insert_request(&mut write, &lease.tenant, request, row.pk).await?;
        }
        let messages: Vec<_> = messages.into_iter().map(EntryBody::Message).collect();
        if !messages.is_empty() {
            self.push_entries(&mut write, &lease.tenant, &session, Some(&lease.run), &messages).await?;
        }
        let last_event = match events.is_empty() {
            true => session.last_event,
            false => self.push_events(&mut write, &session, &lease.run, events).await?,
        };
        let now = write.now().await.map_err(|error| self.error(error))?;
        let old = row.status()?;
        let status = status.unwrap_or(old);
        let usage =
            usage.map(|usage| serde_json::to_string(&usage)).transpose().map_err(unreadable("run"))?;
        // A run that waits or is over has no owner.
        let token = Some(&lease.token).filter(|_| status == RunStatus::Active && !is_released);
        let owned_until = token.map_or(0, |_| row.owned_until);
        let sql = "UPDATE runs SET state = $2, status = $3, usage = $4, token = $5, owned_until = $6, updated_at = $7 \
                   WHERE pk = $1";
        let update = query(sql).bind(row.pk).bind(state.map_or(row.state, |state| state.to_string()));
        let update = update.bind(status.as_str()).bind(usage.unwrap_or(row.usage)).bind(token);
        let update = update.bind(owned_until).bind(now.unix_millis());
        update.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        self.commit(write).await?;
        Ok(unsigned(last_event))
    }

    pub(super) async fn insert_decision(
        &self,
        tenant: &str,
        run: &str,
        call: &str,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        let row = self.lock_run(&mut write, tenant, run).await?;
        let sql = "SELECT decision FROM decisions WHERE run = $1 AND call_id = $2";
        let known: Option<String> = query_scalar(sql)
            .bind(row.pk)
            .bind(call)
            .fetch_optional(&mut *write.tx)
            .await
            .map_err(|error| self.error(error))?;
        if let Some(known) = known {
            let known: Decision = serde_json::from_str(&known).map_err(unreadable("decision"))?;
            let other = || StoreError::OtherDecision { call: call.to_owned() };
            return if known == *decision { Ok(()) } else { Err(other()) };
        }
        if row.status()?.is_over() {
            return Err(StoreError::RunOver(run.to_owned()));
        }
        let now = write.now().await.map_err(|error| self.error(error))?;
        let text = serde_json::to_string(decision).map_err(unreadable("decision"))?;
        let sql = "INSERT INTO decisions (run, call_id, decision, created_at) VALUES ($1, $2, $3, $4)";
        let insert = query(sql).bind(row.pk).bind(call).bind(text).bind(now.unix_millis());
        insert.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        self.commit(write).await
    }

    pub(super) async fn read_decisions(&self, tenant: &str, run: &str) -> Result<Decisions, StoreError> {
        let row = self.find_run(tenant, run).await?;
        let rows = query_as("SELECT call_id, decision FROM decisions WHERE run = $1").bind(row.pk);
        let rows: Vec<(String, String)> =
            rows.fetch_all(&self.pool).await.map_err(|error| self.error(error))?;
        let read = |(call, decision): (String, String)| Ok((call, serde_json::from_str(&decision)?));
        rows.into_iter().map(read).collect::<Result<_, _>>().map_err(unreadable("decision"))
    }
}
