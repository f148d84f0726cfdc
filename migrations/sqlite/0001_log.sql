-- "BLST": tells our files from those of other programs.
PRAGMA application_id = 1112298324;

-- The log. The newest row of a key is its state, unless that is a deletion; older rows are its history.
-- The long column comes last, so that reading the others never touches the pages it overflows to.
CREATE TABLE changes (
    revision  INTEGER PRIMARY KEY,
    kind      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    operation TEXT    NOT NULL,
    created   INTEGER NOT NULL,
    previous  INTEGER NOT NULL,
    time_ms   INTEGER NOT NULL,
    object    TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX changes_by_key ON changes (kind, namespace, name, revision);

-- History up to `compacted` may be gone; up to `swept` it is.
CREATE TABLE compaction (
    compacted INTEGER NOT NULL,
    swept     INTEGER NOT NULL
) STRICT;

INSERT INTO compaction VALUES (0, 0);

-- The log has no gaps, and no change replaces a state that is no longer the newest.
CREATE TRIGGER changes_follow_each_other BEFORE INSERT ON changes
BEGIN
    SELECT raise(ABORT, 'conflict')
    WHERE NEW.revision <> 1 + (SELECT max(compacted, coalesce((SELECT max(revision) FROM changes), 0)) FROM compaction)
       OR (NEW.operation = 'create') <> (NEW.previous = 0)
       OR NEW.previous <> coalesce((
              SELECT iif(operation = 'delete', 0, revision)
              FROM changes
              WHERE kind = NEW.kind AND namespace = NEW.namespace AND name = NEW.name
              ORDER BY revision DESC
              LIMIT 1
          ), 0);
END;
