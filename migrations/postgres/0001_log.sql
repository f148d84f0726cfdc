-- The log. The newest row of a key is its state, unless it is a deletion; older rows are history.
CREATE TABLE changes (
    revision  bigint PRIMARY KEY,
    kind      text   NOT NULL,
    namespace text   NOT NULL,
    name      text   NOT NULL,
    operation text   NOT NULL,
    created   bigint NOT NULL,
    previous  bigint NOT NULL,
    time_ms   bigint NOT NULL,
    object    text   NOT NULL
);

-- Tells the states from the history, and whether a change replaces the state that it says.
CREATE INDEX changes_by_key ON changes (kind, namespace, name, revision);

-- One row: the end of the log, and who may continue it. Each commit updates it under the conditions
-- that `term`, `session` and `last` are what the leader believes.
CREATE TABLE head (
    last    bigint      NOT NULL,
    term    bigint      NOT NULL,
    -- Counts the connections over which the leader of this term has committed.
    session bigint      NOT NULL,
    holder  text        NOT NULL,
    address text        NOT NULL,
    expires timestamptz NOT NULL
);
INSERT INTO head VALUES (0, 0, 0, '', '', now());

-- One row: history up to `compacted` may be gone; up to `swept` it is.
CREATE TABLE compaction (
    compacted bigint NOT NULL,
    swept     bigint NOT NULL
);
INSERT INTO compaction VALUES (0, 0);

-- One row, which shows whether the database can be written.
CREATE TABLE probe (
    at timestamptz NOT NULL
);
INSERT INTO probe VALUES (now());

-- The views for people, one for each kind, as they were last defined.
CREATE TABLE views (
    name       text PRIMARY KEY,
    definition text NOT NULL
);
