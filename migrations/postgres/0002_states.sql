-- Which change replaced which. Tells the states from the history without a look at their rows, so
-- that a start costs in proportion to the objects. Reading the index alone needs `revision` in it.
CREATE INDEX changes_by_previous ON changes (previous) INCLUDE (revision) WHERE previous > 0;

-- What a leader has left for the next one. It is worth nothing once a program has led that knows of
-- no marks, which shows by `mark_term`: such a program does not move it along with `term`.
ALTER TABLE head ADD COLUMN mark bigint NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN mark_term bigint NOT NULL DEFAULT 0;
