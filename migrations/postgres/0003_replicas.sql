-- The replicas that share the log, as each was last heard of. No commit looks at it.
CREATE TABLE replicas (
    name    text        PRIMARY KEY,
    address text        NOT NULL,
    -- The version of its program.
    version text        NOT NULL,
    -- How far its view is behind the log: changes that it knows to be missing, and milliseconds.
    missing bigint      NOT NULL,
    lag_ms  bigint      NOT NULL,
    heard   timestamptz NOT NULL
);
