-- Most of a row used to be `metadata.managedFields`, and most of that is the same in all rows that
-- the same programs have written in the same way. So these words are kept once. They are never
-- removed, and no id is given twice.
CREATE TABLE words (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;

-- What `object` lacks of `metadata.managedFields`: the place where it belongs, in bytes, then the
-- id of the words and the time of each entry, as in `[312,1,"2026-11-24T08:00:00Z"]`.
-- NULL: `object` is whole.
ALTER TABLE changes ADD COLUMN managers TEXT;
