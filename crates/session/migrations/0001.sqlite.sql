CREATE TABLE sessions (
    pk         INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    title      TEXT,
    head       BIGINT NOT NULL DEFAULT 0,
    last_event BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (tenant, id)
);
CREATE INDEX sessions_by_time ON sessions (tenant, updated_at);

-- The log of a conversation: messages, and the marks of rewinds.
CREATE TABLE entries (
    pk         INTEGER PRIMARY KEY,
    session    BIGINT NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    position   BIGINT NOT NULL,
    run        TEXT,
    kind       TEXT NOT NULL,
    body       TEXT NOT NULL,
    blobs      TEXT,
    created_at BIGINT NOT NULL,
    UNIQUE (session, position)
);
CREATE INDEX entries_by_run ON entries (run) WHERE run IS NOT NULL;

-- Large strings of entries, once for each content.
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    data BLOB NOT NULL
);
CREATE TABLE blob_uses (
    entry BIGINT NOT NULL REFERENCES entries (pk) ON DELETE CASCADE,
    hash  TEXT NOT NULL,
    PRIMARY KEY (entry, hash)
);
CREATE INDEX blob_uses_by_hash ON blob_uses (hash);

-- One row for each tool result.
CREATE TABLE calls (
    entry      BIGINT PRIMARY KEY REFERENCES entries (pk) ON DELETE CASCADE,
    tenant     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    failure    TEXT,
    millis     BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX calls_by_tool ON calls (tenant, tool);

CREATE TABLE runs (
    pk         INTEGER PRIMARY KEY,
    session    BIGINT NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    status     TEXT NOT NULL,
    base       BIGINT NOT NULL,
    state      TEXT NOT NULL,
    usage      TEXT NOT NULL,
    token      TEXT,
    owned_until BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (tenant, id)
);
CREATE INDEX runs_by_session ON runs (session);
CREATE INDEX runs_by_status ON runs (status, owned_until);

-- Decisions about waiting calls. A decision is stored before its call continues.
CREATE TABLE decisions (
    run        BIGINT NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    call_id    TEXT NOT NULL,
    decision   TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run, call_id)
);

CREATE TABLE events (
    session    BIGINT NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    number     BIGINT NOT NULL,
    run        TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE INDEX events_by_time ON events (created_at);

-- The words of messages. The text is in the entries.
CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1);
