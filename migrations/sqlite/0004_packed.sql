-- The text of a row that was replaced a while ago, packed: `object` is empty then, and this has what
-- `object` was, as a raw DEFLATE stream. NULL: `object` is what it says. No state is packed, so
-- people's queries read states as they are.
ALTER TABLE changes ADD COLUMN packed BLOB;
ALTER TABLE quarantine ADD COLUMN packed BLOB;
