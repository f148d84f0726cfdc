//! Reads rows of SQLite and PostgreSQL as changes. Columns are read by position, which costs less
//! than by name. Each back end has its own queries.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use sqlx::{ColumnIndex, Database, Decode, Error, Row, Type};

use super::checksum::{DamagedRow, checksum};
use super::{Change, Operation, Replacement};
use ballast_k8s::{GroupResource, Key, Revision};

/// The columns of a change, in the order in which they are read. The object comes last and may
/// continue in further columns (`Objects`).
macro_rules! columns {
    () => {
        "revision, kind, namespace, name, operation, created, previous, time_ms, checksum, object"
    };
}
pub(super) use columns;

/// The columns of a change and of the change that it replaced, from a join of the two.
macro_rules! joined_columns {
    () => {
        joined_columns!("", "")
    };
    ($more:literal, $more_before:literal) => {
        concat!(
            "change.revision, change.kind, change.namespace, change.name, change.operation, change.created,
             change.previous, change.time_ms, change.checksum, change.object",
            $more,
            ", before.revision, before.kind, before.namespace, before.name, before.operation, before.created,
             before.previous, before.time_ms, before.checksum, before.object",
            $more_before
        )
    };
}
pub(super) use joined_columns;

/// The position of the object in the columns.
const OBJECT: usize = 9;

/// How a row stores the JSON of an object.
pub(super) trait Objects {
    /// The number of columns of an object.
    const COLUMNS: usize;

    /// Reads the object that begins with this column.
    fn read(&self, row: &impl Cells, place: usize) -> Result<Bytes, Error>;

    /// Handles a damaged row. The default fails, for rows that must be readable.
    fn damaged(&self, row: DamagedRow) -> Result<(), Error> {
        Err(Error::Decode(Box::new(row)))
    }
}

/// An object stored uncompressed in one column.
#[cfg(feature = "postgres")]
pub(super) struct Whole;

#[cfg(feature = "postgres")]
impl Objects for Whole {
    const COLUMNS: usize = 1;

    fn read(&self, row: &impl Cells, place: usize) -> Result<Bytes, Error> {
        Ok(Bytes::copy_from_slice(row.text(place)?.as_bytes()))
    }
}

/// A reader that continues at a damaged row and collects all of them.
pub(super) struct Lenient<'a, O> {
    objects: &'a O,
    damaged: Mutex<Vec<DamagedRow>>,
}

impl<'a, O: Objects> Lenient<'a, O> {
    pub fn new(objects: &'a O) -> Lenient<'a, O> {
        Lenient { objects, damaged: Mutex::default() }
    }

    /// Takes the damaged rows found since the last call.
    pub fn take(&self) -> Vec<DamagedRow> {
        std::mem::take(&mut *self.damaged.lock().expect("no holder of this lock can panic"))
    }
}

impl<O: Objects> Objects for Lenient<'_, O> {
    const COLUMNS: usize = O::COLUMNS;

    fn read(&self, row: &impl Cells, place: usize) -> Result<Bytes, Error> {
        self.objects.read(row, place)
    }

    fn damaged(&self, row: DamagedRow) -> Result<(), Error> {
        self.damaged.lock().expect("no holder of this lock can panic").push(row);
        Ok(())
    }
}

/// A row, read by the positions of its columns.
pub(super) trait Cells {
    fn number(&self, place: usize) -> Result<i64, Error>;
    fn optional_number(&self, place: usize) -> Result<Option<i64>, Error>;
    /// Returns the stored bytes, which in a damaged row may not be valid UTF-8.
    fn bytes(&self, place: usize) -> Result<Option<&[u8]>, Error>;

    fn optional_text(&self, place: usize) -> Result<Option<&str>, Error> {
        let text = self.bytes(place)?.map(std::str::from_utf8);
        text.transpose().map_err(|error| Error::Decode(Box::new(error)))
    }

    fn text(&self, place: usize) -> Result<&str, Error> {
        self.optional_text(place)?.ok_or_else(|| Error::Decode("a value is missing".into()))
    }
}

impl<D: Database, R: Row<Database = D>> Cells for R
where
    usize: ColumnIndex<R>,
    for<'r> i64: Decode<'r, D> + Type<D>,
    for<'r> &'r [u8]: Decode<'r, D>,
{
    fn number(&self, place: usize) -> Result<i64, Error> {
        self.try_get(place)
    }

    fn optional_number(&self, place: usize) -> Result<Option<i64>, Error> {
        self.try_get(place)
    }

    fn bytes(&self, place: usize) -> Result<Option<&[u8]>, Error> {
        self.try_get_unchecked(place)
    }
}

/// Reads the rows of a query that selects `columns`.
pub(super) async fn changes<R: Cells>(
    rows: impl Stream<Item = Result<R, Error>>,
    objects: &impl Objects,
) -> Result<Vec<Change>, Error> {
    let (mut changes, mut keys, mut rows) = (Vec::new(), Keys::default(), pin!(rows));
    while let Some(row) = rows.try_next().await? {
        changes.extend(change(&row, 0, &mut keys, objects)?);
    }
    Ok(changes)
}

/// Reads the rows of a query that selects `joined_columns`.
pub(super) async fn replacements<R: Cells, O: Objects>(
    rows: impl Stream<Item = Result<R, Error>>,
    objects: &O,
) -> Result<Vec<Replacement>, Error> {
    let (mut replacements, mut keys, mut rows) = (Vec::new(), Keys::default(), pin!(rows));
    while let Some(row) = rows.try_next().await? {
        let second = OBJECT + O::COLUMNS;
        let before = match row.optional_number(second)? {
            Some(_) => change(&row, second, &mut keys, objects)?.map(|before| before.object),
            None => None,
        };
        let change = change(&row, 0, &mut keys, objects)?;
        replacements.extend(change.map(|change| Replacement { change, before }));
    }
    Ok(replacements)
}

/// Reads the change in a row from the columns that begin at position `first`. `None` if the row is
/// damaged and the reader tolerates that.
pub(super) fn change(
    row: &impl Cells,
    first: usize,
    keys: &mut Keys,
    objects: &impl Objects,
) -> Result<Option<Change>, Error> {
    let revision = Revision(row.number(first)?);
    let fault = match unchecked(row, first, keys, objects) {
        Ok(change) => match row.optional_number(first + 8)? {
            Some(stored) if stored != checksum(&change) => "its checksum does not fit".to_owned(),
            _ => return Ok(Some(change)),
        },
        Err(Error::Decode(fault) | Error::ColumnDecode { source: fault, .. }) => fault.to_string(),
        Err(error) => return Err(error),
    };
    let shown = |place| row.bytes(first + place).ok().flatten().map(String::from_utf8_lossy).unwrap_or_default();
    let key = Key::namespaced(GroupResource::intern(&shown(1)), &*shown(2), &*shown(3));
    objects.damaged(DamagedRow { key, revision, fault })?;
    Ok(None)
}

fn unchecked(row: &impl Cells, first: usize, keys: &mut Keys, objects: &impl Objects) -> Result<Change, Error> {
    let operation = row.text(first + 4)?;
    let operation =
        Operation::parse(operation).ok_or_else(|| Error::Decode(format!("{operation:?} is no operation").into()))?;
    Ok(Change {
        revision: Revision(row.number(first)?),
        key: keys.next(row.text(first + 1)?, row.text(first + 2)?, row.text(first + 3)?),
        operation,
        created: Revision(row.number(first + 5)?),
        previous: Revision(row.number(first + 6)?),
        time_ms: row.number(first + 7)?,
        object: objects.read(row, first + OBJECT)?,
    })
}

/// The keys of consecutive rows. Most rows have the kind and the namespace of the previous row, and
/// share its allocations.
#[derive(Default)]
pub(super) struct Keys {
    last: Option<(GroupResource, Arc<str>)>,
}

impl Keys {
    /// Returns the key of the next row.
    pub fn next(&mut self, kind: &str, namespace: &str, name: &str) -> Key {
        let last = self.last.take().filter(|(resource, last)| resource.as_str() == kind && **last == *namespace);
        let (resource, namespace) = last.unwrap_or_else(|| (GroupResource::intern(kind), namespace.into()));
        self.last = Some((resource, Arc::clone(&namespace)));
        Key::namespaced(resource, namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_namespace_share_its_name_and_others_have_their_own() {
        let mut keys = Keys::default();
        let rows = [("pods", "shop", "a"), ("pods", "shop", "b"), ("pods", "", "b"), ("nodes", "", "b")];
        let made = rows.map(|(kind, namespace, name)| keys.next(kind, namespace, name));
        let expected =
            rows.map(|(kind, namespace, name)| Key::namespaced(GroupResource::intern(kind), namespace, name));
        assert_eq!(made, expected);
        assert!(Arc::ptr_eq(&made[0].namespace, &made[1].namespace));
    }
}
