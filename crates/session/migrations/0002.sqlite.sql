-- The requests that have started a run or sent it a message, for clients that repeat a request.
CREATE TABLE requests (
    tenant      TEXT NOT NULL,
    id          TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    run         BIGINT NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX requests_by_run ON requests (run);

-- The size of all events of the session so far, and of those up to an event.
ALTER TABLE sessions ADD COLUMN event_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN bytes_end BIGINT NOT NULL DEFAULT 0;

-- The position of the first entry and the number of the first event that a run can have.
ALTER TABLE runs ADD COLUMN first_entry BIGINT NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN first_event BIGINT NOT NULL DEFAULT 1;
CREATE INDEX unfinished_runs ON runs (session) WHERE status IN ('active', 'suspended');
