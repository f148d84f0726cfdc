-- A failover to an asynchronous standby takes commits back. What is here tells the histories apart.

-- The revision up to which clients have seen a history that was lost; zero if there is none. The
-- next leader lifts the log beyond it before it numbers anything.
ALTER TABLE head ADD COLUMN lost bigint NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN lost_at timestamptz NOT NULL DEFAULT now();
-- A number of the last lift that no other lift has.
ALTER TABLE head ADD COLUMN lift bigint NOT NULL DEFAULT 0;
-- The timeline of the server that the leader has accepted; zero where none was. A standby that is
-- promoted begins another one, and nothing is committed there until a leader accepts it.
ALTER TABLE head ADD COLUMN timeline bigint NOT NULL DEFAULT 0;

-- The highest revision that a replica has seen, and the timeline on which it said so.
ALTER TABLE replicas ADD COLUMN seen bigint NOT NULL DEFAULT 0;
ALTER TABLE replicas ADD COLUMN timeline bigint NOT NULL DEFAULT 0;
-- When it last reported on an earlier timeline.
ALTER TABLE replicas ADD COLUMN prior timestamptz;
