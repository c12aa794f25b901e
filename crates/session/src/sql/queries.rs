//! Search, counts and retention.

use sqlx::{AssertSqlSafe, FromRow, Row, any::AnyRow, query, query_as, query_scalar};

use super::{SqlStore, entries::EntryRow, millis, normalized, unsigned};
use crate::{Retention, SearchHit, StoreError, ToolStats};

/// The number of sessions that are deleted in one transaction.
const PRUNED: u64 = 50;

/// The row of a search hit.
struct HitRow {
    session: String,
    entry: EntryRow,
}

impl<'r> FromRow<'r, AnyRow> for HitRow {
    fn from_row(row: &'r AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self { session: row.try_get("session")?, entry: EntryRow::from_row(row)? })
    }
}

impl SqlStore {
    pub(super) async fn search_words(
        &self,
        tenant: &str,
        text: &str,
        limit: u32,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let (sql, words) = match self.kind.is_sqlite() {
            true => {
                let sql = "SELECT s.id AS session, e.position, e.run, e.kind, e.body, e.blobs, e.created_at FROM words \
                           JOIN entries e ON e.pk = words.rowid JOIN sessions s ON s.pk = e.session \
                           WHERE words MATCH $1 AND s.tenant = $2 ORDER BY e.pk DESC LIMIT $3";
                // Each word is a phrase, so that it has no operators.
                // A pattern ends at U+0000.
                let words = text.split(|character: char| character.is_whitespace() || character == '\0');
                let phrases = words.filter(|word| !word.is_empty());
                let phrases = phrases.map(|word| format!("\"{}\"", word.replace('"', "\"\"")));
                (sql, phrases.collect::<Vec<_>>().join(" "))
            }
            false => {
                let sql = "SELECT s.id AS session, e.position, e.run, e.kind, e.body, e.blobs, e.created_at FROM words \
                           JOIN entries e ON e.pk = words.entry JOIN sessions s ON s.pk = e.session \
                           WHERE words.text @@ plainto_tsquery('simple', $1) AND s.tenant = $2 \
                           ORDER BY e.pk DESC LIMIT $3";
                (sql, normalized(text))
            }
        };
        if words.trim().is_empty() {
            return Ok(Vec::new());
        }
        let rows = query_as(sql).bind(words).bind(tenant).bind(i64::from(limit)).fetch_all(&self.pool).await;
        let rows: Vec<HitRow> = rows.map_err(|error| self.error(error))?;
        let (sessions, rows): (Vec<_>, Vec<_>) = rows.into_iter().map(|row| (row.session, row.entry)).unzip();
        let entries = self.read_rows(rows).await?;
        Ok(sessions.into_iter().zip(entries).map(|(session, entry)| SearchHit { session, entry }).collect())
    }

    pub(super) async fn count_calls(&self, tenant: &str) -> Result<Vec<ToolStats>, StoreError> {
        let sql = "SELECT tool, COUNT(*), COUNT(failure), CAST(SUM(millis) AS BIGINT), MAX(millis) FROM calls \
                   WHERE tenant = $1 GROUP BY tool ORDER BY tool";
        let rows = query_as(sql).bind(tenant).fetch_all(&self.pool).await;
        let rows: Vec<(String, i64, i64, i64, i64)> = rows.map_err(|error| self.error(error))?;
        let stats = rows.into_iter().map(|(tool, calls, failures, total, longest)| ToolStats {
            tool,
            calls: unsigned(calls),
            failures: unsigned(failures),
            mean_millis: unsigned(total) / unsigned(calls).max(1),
            max_millis: unsigned(longest),
        });
        Ok(stats.collect())
    }

    pub(super) async fn delete_old(&self, retention: &Retention) -> Result<u64, StoreError> {
        // Two transactions: a transaction that deletes sessions holds no events of other sessions.
        if let Some(age) = retention.events {
            let mut write = self.write().await?;
            let now = write.now().await.map_err(|error| self.error(error))?.unix_millis();
            let delete = query("DELETE FROM events WHERE created_at < $1").bind(now - millis(age));
            delete.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
            self.commit(write).await?;
        }
        let Some(age) = retention.sessions else { return Ok(0) };
        let mut deleted = 0;
        loop {
            // Other writers wait for each transaction, so it must be short.
            let batch = self.delete_old_sessions(millis(age)).await?;
            deleted += batch;
            if batch < PRUNED {
                return Ok(deleted);
            }
        }
    }

    /// Deletes some of the sessions without a write for `age` milliseconds. Returns their number.
    async fn delete_old_sessions(&self, age: i64) -> Result<u64, StoreError> {
        let mut write = self.write().await?;
        let now = write.now().await.map_err(|error| self.error(error))?.unix_millis();
        // A session that another writer has locked is in use.
        let lock = if write.is_sqlite { "" } else { " FOR UPDATE SKIP LOCKED" };
        let sql = format!(
            "SELECT pk FROM sessions WHERE updated_at < $1 AND NOT EXISTS (SELECT 1 FROM runs \
             WHERE runs.session = sessions.pk AND runs.status IN ('active', 'suspended')) LIMIT {PRUNED}{lock}"
        );
        let old = query_scalar(AssertSqlSafe(sql)).bind(now - age);
        let old: Vec<i64> = old.fetch_all(&mut *write.tx).await.map_err(|error| self.error(error))?;
        for session in &old {
            self.remove_session(&mut write, *session).await?;
        }
        self.commit(write).await?;
        Ok(old.len() as u64)
    }
}
