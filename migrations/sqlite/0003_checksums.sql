-- A checksum of the row: of all its values, with the object as it was written and not as it is split.
-- NULL: the row was written before there were checksums.
ALTER TABLE changes ADD COLUMN checksum INTEGER;

-- Damaged rows that `serve --quarantine` has set aside, as they were found. Nothing reads their
-- objects. `set_aside` is the revision of the log after that.
CREATE TABLE quarantine (
    set_aside INTEGER NOT NULL,
    fault     TEXT    NOT NULL,
    revision  INTEGER PRIMARY KEY,
    kind      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    operation TEXT    NOT NULL,
    created   INTEGER NOT NULL,
    previous  INTEGER NOT NULL,
    time_ms   INTEGER NOT NULL,
    checksum  INTEGER,
    object    TEXT    NOT NULL,
    managers  TEXT
) STRICT;
