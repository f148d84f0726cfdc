-- A checksum of the row: of all its values. NULL: the row was written before there were checksums.
ALTER TABLE changes ADD COLUMN checksum bigint;

-- Damaged rows that `serve --quarantine` has set aside, as they were found. Nothing reads their
-- objects. `set_aside` is the revision of the log after that.
CREATE TABLE quarantine (
    set_aside bigint NOT NULL,
    fault     text   NOT NULL,
    revision  bigint PRIMARY KEY,
    kind      text   NOT NULL,
    namespace text   NOT NULL,
    name      text   NOT NULL,
    operation text   NOT NULL,
    created   bigint NOT NULL,
    previous  bigint NOT NULL,
    time_ms   bigint NOT NULL,
    checksum  bigint,
    object    text   NOT NULL
);
