-- "BLST": tells our files from those of other programs.
PRAGMA application_id = 1112298324;

-- The log. A row is the state of its key unless it is a deletion or another row has replaced it;
-- replaced rows are history.
--
-- There is no index by key: every commit would pay for it, with more pages than the rows themselves. The
-- server knows its keys, and people's queries walk the table. The long column comes last, so that
-- walking reads no more of it than lies on the same page.
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

-- No state is replaced twice. Tells the states from the history, too.
CREATE UNIQUE INDEX changes_by_previous ON changes (previous) WHERE previous > 0;

-- History up to `compacted` may be gone; up to `swept` it is.
CREATE TABLE compaction (
    compacted INTEGER NOT NULL,
    swept     INTEGER NOT NULL
) STRICT;

INSERT INTO compaction VALUES (0, 0);
