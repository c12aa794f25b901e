//! Sessions.

use haft_core::Timestamp;
use sqlx::query;

use super::{SessionRow, SqlStore, Write};
use crate::{EntryBody, Session, SessionKey, StoreError};

const COLUMNS: &str =
    "SELECT pk, id, title, head, last_event, event_bytes, created_at, updated_at FROM sessions";

impl SqlStore {
    pub(super) async fn create_session(
        &self,
        key: &SessionKey,
        title: Option<&str>,
    ) -> Result<Session, StoreError> {
        let mut write = self.write().await?;
        self.insert_session(&mut write, key, title).await?;
        let session = self.lock_session(&mut write, key).await?;
        self.commit(write).await?;
        Ok(session.into())
    }

    pub(super) async fn create_filled(
        &self,
        key: &SessionKey,
        title: Option<&str>,
        entries: &[EntryBody],
    ) -> Result<Session, StoreError> {
        let mut write = self.write().await?;
        if !self.insert_session(&mut write, key, title).await? {
            return Err(StoreError::SessionExists(key.id().to_owned()));
        }
        let session = self.lock_session(&mut write, key).await?;
        self.push_entries(&mut write, key.tenant(), &session, None, entries).await?;
        let session = self.lock_session(&mut write, key).await?;
        self.commit(write).await?;
        Ok(session.into())
    }

    /// Inserts a session. Returns `false` if there is one.
    async fn insert_session(
        &self,
        write: &mut Write<'_>,
        key: &SessionKey,
        title: Option<&str>,
    ) -> Result<bool, StoreError> {
        let now = write.now().await.map_err(|error| self.error(error))?;
        let sql = "INSERT INTO sessions (tenant, id, title, created_at, updated_at) VALUES ($1, $2, $3, $4, $4) \
                   ON CONFLICT (tenant, id) DO NOTHING";
        let insert = query(sql).bind(key.tenant()).bind(key.id()).bind(title).bind(now.unix_millis());
        let inserted = insert.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        Ok(inserted.rows_affected() == 1)
    }

    /// Returns the row of a session, and locks it until the end of the transaction.
    pub(super) async fn lock_session(
        &self,
        write: &mut Write<'_>,
        key: &SessionKey,
    ) -> Result<SessionRow, StoreError> {
        let lock = if write.is_sqlite { "" } else { " FOR UPDATE" };
        let sql = format!("{COLUMNS} WHERE tenant = $1 AND id = $2{lock}");
        let row = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(key.tenant()).bind(key.id());
        let row = row.fetch_optional(&mut *write.tx).await.map_err(|error| self.error(error))?;
        row.ok_or_else(|| StoreError::SessionNotFound(key.id().to_owned()))
    }

    pub(super) async fn find_session(&self, key: &SessionKey) -> Result<SessionRow, StoreError> {
        let sql = format!("{COLUMNS} WHERE tenant = $1 AND id = $2");
        let row = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(key.tenant()).bind(key.id());
        let row = row.fetch_optional(&self.pool).await.map_err(|error| self.error(error))?;
        row.ok_or_else(|| StoreError::SessionNotFound(key.id().to_owned()))
    }

    pub(super) async fn list_sessions(
        &self,
        tenant: &str,
        after: Option<(Timestamp, &str)>,
        limit: u32,
    ) -> Result<Vec<Session>, StoreError> {
        let sql = format!(
            "{COLUMNS} WHERE tenant = $1 AND (updated_at, id) < ($2, $3) \
             ORDER BY updated_at DESC, id DESC LIMIT $4"
        );
        let (time, id) = after.map_or((i64::MAX, ""), |(time, id)| (time.unix_millis(), id));
        let rows = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(tenant).bind(time).bind(id);
        let rows = rows.bind(i64::from(limit));
        let rows: Vec<SessionRow> = rows.fetch_all(&self.pool).await.map_err(|error| self.error(error))?;
        Ok(rows.into_iter().map(Session::from).collect())
    }

    pub(super) async fn delete_session(&self, key: &SessionKey) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        match self.lock_session(&mut write, key).await {
            Ok(session) => self.remove_session(&mut write, session.pk).await?,
            Err(StoreError::SessionNotFound(_)) => {}
            Err(error) => return Err(error),
        }
        self.commit(write).await
    }

    /// Deletes a locked session and the blobs that only it uses.
    pub(super) async fn remove_session(&self, write: &mut Write<'_>, session: i64) -> Result<(), StoreError> {
        let words = "DELETE FROM words WHERE rowid IN (SELECT pk FROM entries WHERE session = $1)";
        let blobs = "DELETE FROM blobs WHERE hash IN (SELECT u.hash FROM blob_uses u JOIN entries e ON e.pk = u.entry \
                     WHERE e.session = $1) AND NOT EXISTS (SELECT 1 FROM blob_uses u JOIN entries e \
                     ON e.pk = u.entry WHERE u.hash = blobs.hash AND e.session <> $1)";
        let rows = "DELETE FROM sessions WHERE pk = $1";
        // PostgreSQL deletes the words with their entries. It has many writers: those that have found
        // a blob, and have not committed its use, end first.
        let lock = "LOCK TABLE blobs IN SHARE ROW EXCLUSIVE MODE";
        let first = match write.is_sqlite {
            true => query(words).bind(session),
            false => query(lock),
        };
        for sql in [first, query(blobs).bind(session), query(rows).bind(session)] {
            sql.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        }
        Ok(())
    }
}
