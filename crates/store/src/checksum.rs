//! The checksum of a row, and damaged rows.
//!
//! A page of a database has no checksum of its own (SQLite), or may have none (PostgreSQL). Without
//! a checksum per row, a corrupted byte of an object would be read as if a client had written it.

use std::error::Error as _;
use std::fmt;

use crc32fast::Hasher;

use super::Change;
use ballast_k8s::{Key, Object, Revision};

/// The number of rows examined per query.
pub(super) const EXAMINED_ROWS: usize = 1000;
/// The maximum number of damaged rows to find. With more of them, only a backup helps.
const DAMAGED_MAX: usize = 1000;

/// Computes the checksum over all values of a row. Databases store it, so the algorithm must never
/// change.
pub(super) fn checksum(change: &Change) -> i64 {
    let Change { revision, key, operation, created, previous, time_ms, object } = change;
    let mut hasher = Hasher::new();
    for number in [revision.0, created.0, previous.0, *time_ms] {
        hasher.update(&number.to_le_bytes());
    }
    for text in [key.resource.as_str(), &key.namespace, &key.name, operation.as_str()] {
        hasher.update(text.as_bytes());
        // No name contains this byte, so moving a letter to the next value changes the checksum.
        hasher.update(&[0]);
    }
    hasher.update(object);
    i64::from(hasher.finalize())
}

/// A row that cannot be read or does not match its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRow {
    /// The readable part of the key.
    pub key: Key,
    pub revision: Revision,
    pub fault: String,
}

impl DamagedRow {
    /// Returns the remedy for the operator.
    pub(super) fn advice(&self) -> String {
        let DamagedRow { key, .. } = self;
        format!(
            "{self}; restore the database from a backup, or set this row aside and lose it \
             (`ballast serve --quarantine {key}`)"
        )
    }
}

impl fmt::Display for DamagedRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DamagedRow { key, revision, fault } = self;
        write!(formatter, "{key} at revision {revision} is damaged ({fault})")
    }
}

impl std::error::Error for DamagedRow {}

/// Returns the damaged row that caused an error.
pub(super) fn damaged_row(error: &sqlx::Error) -> Option<&DamagedRow> {
    match error {
        sqlx::Error::Decode(source) => source.downcast_ref(),
        _ => None,
    }
}

/// A part of the log that was examined.
pub(super) struct Examined {
    /// The revisions of all rows in the part.
    pub revisions: Vec<Revision>,
    pub damaged: Vec<DamagedRow>,
}

impl Examined {
    /// Combines readable and damaged rows. A readable row without a valid object counts as damaged,
    /// too; a row without a checksum may be one.
    pub fn of(changes: Vec<Change>, mut damaged: Vec<DamagedRow>) -> Examined {
        let mut revisions: Vec<Revision> = damaged.iter().map(|row| row.revision).collect();
        revisions.extend(changes.iter().map(|change| change.revision));
        revisions.sort_unstable();
        damaged.extend(changes.into_iter().filter_map(|Change { key, revision, object, .. }| {
            let error = Object::decode(key.clone(), revision, object).err()?;
            let fault = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Some(DamagedRow { key, revision, fault: format!("it is no object: {fault}") })
        }));
        damaged.sort_unstable_by_key(|row| row.revision);
        Examined { revisions, damaged }
    }
}

/// A search for damaged rows, page by page.
#[derive(Default)]
pub(super) struct Search {
    pub found: Vec<DamagedRow>,
    /// The last revision examined.
    pub after: Revision,
}

impl Search {
    /// Adds the next page, and returns whether to continue.
    pub fn take(&mut self, page: Examined) -> bool {
        self.found.extend(page.damaged);
        let last = page.revisions.last();
        self.after = last.copied().unwrap_or(self.after);
        last.is_some() && self.found.len() < DAMAGED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use ballast_k8s::GroupResource;

    fn change() -> Change {
        Change {
            revision: Revision(7),
            key: Key::namespaced(GroupResource::new("pods"), "shop", "web"),
            operation: Operation::Update,
            created: Revision(3),
            previous: Revision(5),
            time_ms: 1000,
            object: "{}".into(),
        }
    }

    /// Stored databases depend on this value.
    #[test]
    fn the_checksum_of_a_row_stays_what_it_is() {
        assert_eq!(checksum(&change()), 1_999_893_426);
    }

    #[test]
    fn every_value_counts() {
        let with = |set: fn(&mut Change)| {
            let mut changed = change();
            set(&mut changed);
            checksum(&changed)
        };
        let changed = [
            with(|row| row.revision = Revision(8)),
            with(|row| row.key = Key::namespaced(GroupResource::new("nodes"), "shop", "web")),
            with(|row| row.key = Key::namespaced(GroupResource::new("pods"), "shopw", "eb")),
            with(|row| row.operation = Operation::Delete),
            with(|row| row.created = Revision(4)),
            with(|row| row.previous = Revision(6)),
            with(|row| row.time_ms = 1001),
            with(|row| row.object = "{ }".into()),
        ];
        assert!(changed.iter().all(|other| *other != checksum(&change())), "{changed:?}");
    }
}
