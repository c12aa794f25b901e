//! The events of runs.

use haft_core::Timestamp;
use serde_json::Value;
use sqlx::{query, query_as, query_scalar};

use super::{MAX_EVENT_BYTES, MAX_EVENTS, SessionRow, SqlStore, Write, signed, unreadable, unsigned};
use crate::{SessionKey, StoreError, StoredEvent};

impl SqlStore {
    pub(super) async fn insert_events(
        &self,
        key: &SessionKey,
        run: &str,
        events: Vec<Value>,
    ) -> Result<u64, StoreError> {
        let mut write = self.write().await?;
        let session = self.lock_session(&mut write, key).await?;
        let number = self.push_events(&mut write, &session, run, events).await?;
        self.commit(write).await?;
        Ok(unsigned(number))
    }

    /// Appends events to those of the locked `session`. Returns the number of the last one.
    pub(super) async fn push_events(
        &self,
        write: &mut Write<'_>,
        session: &SessionRow,
        run: &str,
        events: Vec<Value>,
    ) -> Result<i64, StoreError> {
        let now = write.now().await.map_err(|error| self.error(error))?;
        let (mut number, mut bytes) = (session.last_event, session.event_bytes);
        for event in events {
            let body = event.to_string();
            number += 1;
            bytes = bytes.saturating_add(signed(body.len() as u64));
            let sql = "INSERT INTO events (session, number, run, body, bytes_end, created_at) \
                       VALUES ($1, $2, $3, $4, $5, $6)";
            let insert = query(sql).bind(session.pk).bind(number).bind(run).bind(body).bind(bytes);
            let insert = insert.bind(now.unix_millis()).execute(&mut *write.tx).await;
            insert.map_err(|error| self.error(error))?;
        }
        let oldest = "SELECT number, bytes_end FROM events WHERE session = $1 ORDER BY number LIMIT 1";
        let oldest = query_as(oldest).bind(session.pk).fetch_optional(&mut *write.tx).await;
        let oldest: Option<(i64, i64)> = oldest.map_err(|error| self.error(error))?;
        let (oldest, oldest_end) = oldest.unwrap_or((number, bytes));
        let mut last_deleted = number - MAX_EVENTS;
        if bytes - oldest_end > MAX_EVENT_BYTES {
            // A quarter is deleted at once, because this search reads all events.
            let sql = "SELECT COALESCE(MAX(number), 0) FROM events WHERE session = $1 AND bytes_end < $2";
            let found = query_scalar(sql).bind(session.pk).bind(bytes - MAX_EVENT_BYTES / 4 * 3);
            let found: i64 = found.fetch_one(&mut *write.tx).await.map_err(|error| self.error(error))?;
            last_deleted = last_deleted.max(found);
        }
        if oldest <= last_deleted {
            let delete = query("DELETE FROM events WHERE session = $1 AND number <= $2");
            let delete = delete.bind(session.pk).bind(last_deleted).execute(&mut *write.tx).await;
            delete.map_err(|error| self.error(error))?;
        }
        let update = query("UPDATE sessions SET last_event = $2, event_bytes = $3 WHERE pk = $1");
        let update = update.bind(session.pk).bind(number).bind(bytes).execute(&mut *write.tx).await;
        update.map_err(|error| self.error(error))?;
        Ok(number)
    }

    pub(super) async fn read_events(
        &self,
        key: &SessionKey,
        run: Option<&str>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let failed = |error| self.error(error);
        let mut read = self.read().await?;
        let sql = "SELECT s.pk, s.last_event, COALESCE((SELECT MIN(number) FROM events WHERE session = s.pk), \
                   s.last_event + 1), COALESCE((SELECT first_event FROM runs WHERE session = s.pk AND id = $3), 1) \
                   FROM sessions s WHERE s.tenant = $1 AND s.id = $2";
        let found = query_as(sql).bind(key.tenant()).bind(key.id()).bind(run.unwrap_or_default());
        let found: Option<(i64, i64, i64, i64)> = found.fetch_optional(&mut *read).await.map_err(failed)?;
        let (session, last, first_kept, first_of_run) =
            found.ok_or_else(|| StoreError::SessionNotFound(key.id().to_owned()))?;
        let after = signed(after).max(first_of_run - 1);
        if after > last || (after + 1 < first_kept && after < last) {
            return Err(StoreError::EventsExpired { next: unsigned(first_kept) });
        }
        let sql = "SELECT number, run, body, created_at FROM events WHERE session = $1 AND number > $2 \
                   AND ($3 = '' OR run = $3) ORDER BY number LIMIT $4";
        let rows = query_as(sql).bind(session).bind(after).bind(run.unwrap_or_default());
        let rows = rows.bind(i64::from(limit)).fetch_all(&mut *read).await;
        let rows: Vec<(i64, String, String, i64)> = rows.map_err(failed)?;
        read.commit().await.map_err(failed)?;
        let read = |(number, run, body, created_at): (i64, String, String, i64)| {
            let event = serde_json::from_str(&body).map_err(unreadable("event"))?;
            let created_at = Timestamp::from_unix_millis(created_at);
            Ok(StoredEvent { number: unsigned(number), run, event, created_at })
        };
        rows.into_iter().map(read).collect()
    }
}
