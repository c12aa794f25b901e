//! The log of a session.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{Message, Timestamp, message::MessageBody};
use serde_json::Value;
use sqlx::{query, query_as, query_scalar};

use super::{MAX_SEARCHED, SessionRow, SqlStore, Write, from_row, normalized, signed, unreadable, unsigned};
use crate::{
    Append, Entry, EntryBody, SessionKey, StoreError,
    blobs::{Blob, BlobPlace, put_blob, take_blobs},
};

/// The row of an entry.
pub(super) struct EntryRow {
    position: i64,
    run: Option<String>,
    kind: String,
    body: String,
    blobs: Option<String>,
    created_at: i64,
}

from_row!(EntryRow { position, run, kind, body, blobs, created_at });

/// An entry that is not stored yet.
struct NewEntry {
    kind: &'static str,
    body: Value,
    blobs: Vec<Blob>,
}

impl NewEntry {
    fn new(entry: &EntryBody) -> Result<Self, StoreError> {
        let (kind, mut body) = match entry {
            EntryBody::Message(message) => {
                (MESSAGE, serde_json::to_value(message).map_err(unreadable("message"))?)
            }
            EntryBody::RewindTo(to) => (REWIND, Value::from(*to)),
        };
        let blobs = take_blobs(&mut body);
        Ok(Self { kind, body, blobs })
    }
}

const MESSAGE: &str = "message";
const REWIND: &str = "rewind_to";

impl SqlStore {
    pub(super) async fn append_entries(&self, key: &SessionKey, append: Append) -> Result<u64, StoreError> {
        let mut write = self.write().await?;
        let session = self.lock_session(&mut write, key).await?;
        let found = unsigned(session.head);
        if let Some(expected) = append.expected.filter(|expected| *expected != found) {
            return Err(StoreError::Conflict { expected, found });
        }
        let head = self.push_entries(&mut write, key.tenant(), &session, None, &append.entries).await?;
        self.commit(write).await?;
        Ok(unsigned(head))
    }

    /// Appends `entries` to the log of the locked `session`. Returns the new number of entries.
    pub(super) async fn push_entries(
        &self,
        write: &mut Write<'_>,
        tenant: &str,
        session: &SessionRow,
        run: Option<&str>,
        entries: &[EntryBody],
    ) -> Result<i64, StoreError> {
        let now = write.now().await.map_err(|error| self.error(error))?;
        let rows = entries.iter().map(NewEntry::new).collect::<Result<Vec<_>, _>>()?;
        self.insert_blobs(write, &rows).await?;
        let mut position = session.head;
        for (entry, row) in entries.iter().zip(rows) {
            position += 1;
            let places: Vec<_> = row.blobs.iter().map(|blob| &blob.place).collect();
            let places = if places.is_empty() { None } else { serde_json::to_string(&places).ok() };
            let sql = "INSERT INTO entries (session, position, run, kind, body, blobs, created_at) \
                       VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING pk";
            let insert = query_scalar(sql).bind(session.pk).bind(position).bind(run).bind(row.kind);
            let insert = insert.bind(row.body.to_string()).bind(places).bind(now.unix_millis());
            let pk: i64 = insert.fetch_one(&mut *write.tx).await.map_err(|error| self.error(error))?;
            for blob in row.blobs {
                let sql = "INSERT INTO blob_uses (entry, hash) VALUES ($1, $2) ON CONFLICT (entry, hash) DO NOTHING";
                let insert = query(sql).bind(pk).bind(blob.place.hash).execute(&mut *write.tx).await;
                insert.map_err(|error| self.error(error))?;
            }
            if let EntryBody::Message(message) = entry {
                self.index_message(write, tenant, pk, message, now).await?;
            }
        }
        let sql = "UPDATE sessions SET head = $2, updated_at = $3 WHERE pk = $1";
        let update = query(sql).bind(session.pk).bind(position).bind(now.unix_millis());
        update.execute(&mut *write.tx).await.map_err(|error| self.error(error))?;
        Ok(position)
    }

    /// Stores the blobs of `rows` in the order of their hashes. In another order, two writers of
    /// PostgreSQL could wait for each other.
    async fn insert_blobs(&self, write: &mut Write<'_>, rows: &[NewEntry]) -> Result<(), StoreError> {
        let blobs = rows.iter().flat_map(|row| &row.blobs);
        let blobs: BTreeMap<_, _> = blobs.map(|blob| (&blob.place.hash, &blob.data)).collect();
        for (hash, data) in blobs {
            let insert =
                query("INSERT INTO blobs (hash, data) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING");
            let insert = insert.bind(hash).bind(data.as_slice()).execute(&mut *write.tx).await;
            insert.map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    /// Adds a message to the search and to the counts of calls.
    async fn index_message(
        &self,
        write: &mut Write<'_>,
        tenant: &str,
        entry: i64,
        message: &Message,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let text = message.text();
        if !text.trim().is_empty() {
            let (sql, text) = match write.is_sqlite {
                true => ("INSERT INTO words (rowid, text) VALUES ($1, $2)", text),
                false => {
                    let sql = "INSERT INTO words (entry, text) VALUES ($1, to_tsvector('simple', $2))";
                    let (searched, _) = text.split_at(text.floor_char_boundary(MAX_SEARCHED));
                    (sql, normalized(searched))
                }
            };
            let insert = query(sql).bind(entry).bind(text).execute(&mut *write.tx).await;
            insert.map_err(|error| self.error(error))?;
        }
        if let MessageBody::Tool(result) = message.body() {
            let failure = result.failure().and_then(|failure| serde_json::to_value(failure.kind).ok());
            let failure = failure.as_ref().and_then(Value::as_str);
            let millis = i64::try_from(result.duration.as_millis()).unwrap_or(i64::MAX);
            let sql = "INSERT INTO calls (entry, tenant, tool, failure, millis, created_at) \
                       VALUES ($1, $2, $3, $4, $5, $6)";
            // The name is from the model. PostgreSQL rejects U+0000.
            let tool = result.name.replace('\0', "");
            let insert = query(sql).bind(entry).bind(tenant).bind(tool).bind(failure);
            let insert = insert.bind(millis).bind(now.unix_millis()).execute(&mut *write.tx).await;
            insert.map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    pub(super) async fn read_entries(
        &self,
        key: &SessionKey,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        let session = self.find_session(key).await?;
        let sql = "SELECT position, run, kind, body, blobs, created_at FROM entries \
                   WHERE session = $1 AND position > $2 ORDER BY position LIMIT $3";
        let rows = query_as(sql).bind(session.pk).bind(signed(after)).bind(i64::from(limit));
        let rows = rows.fetch_all(&self.pool).await.map_err(|error| self.error(error))?;
        self.read_rows(rows).await
    }

    /// Converts the rows to entries, and loads their blobs.
    pub(super) async fn read_rows(&self, rows: Vec<EntryRow>) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            let mut body: Value = serde_json::from_str(&row.body).map_err(unreadable("entry"))?;
            let places = row.blobs.as_deref().map(serde_json::from_str::<Vec<BlobPlace>>).transpose();
            for place in places.map_err(unreadable("entry"))?.unwrap_or_default() {
                let data = query_scalar("SELECT data FROM blobs WHERE hash = $1").bind(&place.hash);
                let data = data.fetch_one(&self.pool).await.map_err(|error| self.error(error))?;
                put_blob(&mut body, &place, data)
                    .map_err(|problem| StoreError::Unreadable { what: "blob", source: problem.into() })?;
            }
            let body = match row.kind.as_str() {
                MESSAGE => {
                    let message: Message = serde_json::from_value(body).map_err(unreadable("message"))?;
                    EntryBody::Message(Arc::new(message))
                }
                REWIND => EntryBody::RewindTo(serde_json::from_value(body).map_err(unreadable("rewind"))?),
                kind => {
                    let problem = format!("the kind {kind:?} is not known");
                    return Err(StoreError::Unreadable { what: "entry", source: problem.into() });
                }
            };
            let created_at = Timestamp::from_unix_millis(row.created_at);
            entries.push(Entry { position: unsigned(row.position), run: row.run, body, created_at });
        }
        Ok(entries)
    }
}
