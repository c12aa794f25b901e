//! The events of runs.

use haft_core::Timestamp;
use serde_json::Value;
use sqlx::{query, query_as};

use super::{MAX_EVENTS, SessionRow, SqlStore, Write, signed, unreadable, unsigned};
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
        let mut number = session.last_event;
        for event in events {
            number += 1;
            let sql =
                "INSERT INTO events (session, number, run, body, created_at) VALUES ($1, $2, $3, $4, $5)";
            let insert = query(sql).bind(session.pk).bind(number).bind(run).bind(event.to_string());
            let insert = insert.bind(now.unix_millis()).execute(&mut *write.tx).await;
            insert.map_err(|error| self.error(error))?;
        }
        let delete = query("DELETE FROM events WHERE session = $1 AND number <= $2");
        let delete = delete.bind(session.pk).bind(number - MAX_EVENTS).execute(&mut *write.tx).await;
        delete.map_err(|error| self.error(error))?;
        let update = query("UPDATE sessions SET last_event = $2 WHERE pk = $1").bind(session.pk).bind(number);
        update.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        Ok(number)
    }

    pub(super) async fn read_events(
        &self,
        key: &SessionKey,
        run: Option<&str>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let session = self.find_session(key).await?;
        let sql = "SELECT number, run, body, created_at FROM events WHERE session = $1 AND number > $2 \
                   AND ($3 = '' OR run = $3) ORDER BY number LIMIT $4";
        let rows = query_as(sql).bind(session.pk).bind(signed(after)).bind(run.unwrap_or_default());
        let rows = rows.bind(i64::from(limit)).fetch_all(&self.pool).await;
        let rows: Vec<(i64, String, String, i64)> = rows.map_err(|error| self.error(error))?;
        let read = |(number, run, body, created_at): (i64, String, String, i64)| {
            let event = serde_json::from_str(&body).map_err(unreadable("event"))?;
            let created_at = Timestamp::from_unix_millis(created_at);
            Ok(StoredEvent { number: unsigned(number), run, event, created_at })
        };
        rows.into_iter().map(read).collect()
    }
}
