//! Reads rows of SQLite and PostgreSQL as changes, by the positions of their columns, which costs
//! less than by their names. Each back end has its own queries.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use sqlx::{ColumnIndex, Database, Decode, Error, Row, Type};

use super::{Change, Operation, Replacement};
use ballast_k8s::{GroupResource, Key, Revision};

/// The columns of a change, in the order in which they are read. Last comes the text of the object,
/// which may go on in further columns (`Objects`).
macro_rules! columns {
    () => {
        "revision, kind, namespace, name, operation, created, previous, time_ms, object"
    };
}
pub(super) use columns;

/// The position of the object. The object that was replaced follows it.
const OBJECT: usize = 8;

/// How a row stores the text of an object.
pub(super) trait Objects {
    /// The columns of a text.
    const COLUMNS: usize;

    /// The text that begins with this column; `None` if it is NULL.
    fn read(&self, row: &impl Cells, place: usize) -> Result<Option<Bytes>, Error>;
}

/// The text is whole, in one column.
pub(super) struct Whole;

impl Objects for Whole {
    const COLUMNS: usize = 1;

    fn read(&self, row: &impl Cells, place: usize) -> Result<Option<Bytes>, Error> {
        Ok(row.optional_text(place)?.map(|text| Bytes::copy_from_slice(text.as_bytes())))
    }
}

/// A row, read by the positions of its columns.
pub(super) trait Cells {
    fn number(&self, place: usize) -> Result<i64, Error>;
    fn text(&self, place: usize) -> Result<&str, Error>;
    fn optional_text(&self, place: usize) -> Result<Option<&str>, Error>;
}

impl<D: Database, R: Row<Database = D>> Cells for R
where
    usize: ColumnIndex<R>,
    for<'r> i64: Decode<'r, D> + Type<D>,
    for<'r> &'r str: Decode<'r, D> + Type<D>,
    for<'r> Option<&'r str>: Decode<'r, D> + Type<D>,
{
    fn number(&self, place: usize) -> Result<i64, Error> {
        self.try_get(place)
    }

    fn text(&self, place: usize) -> Result<&str, Error> {
        self.try_get(place)
    }

    fn optional_text(&self, place: usize) -> Result<Option<&str>, Error> {
        self.try_get(place)
    }
}

/// The rows of a query that selects `columns`.
pub(super) async fn changes<R: Cells>(
    rows: impl Stream<Item = Result<R, Error>>,
    objects: &impl Objects,
) -> Result<Vec<Change>, Error> {
    let (mut changes, mut keys, mut rows) = (Vec::new(), Keys::default(), pin!(rows));
    while let Some(row) = rows.try_next().await? {
        changes.push(change(&row, &mut keys, objects)?);
    }
    Ok(changes)
}

/// The rows of a query that selects `columns`, and behind them the object that was replaced.
pub(super) async fn replacements<R: Cells, O: Objects>(
    rows: impl Stream<Item = Result<R, Error>>,
    objects: &O,
) -> Result<Vec<Replacement>, Error> {
    let (mut replacements, mut keys, mut rows) = (Vec::new(), Keys::default(), pin!(rows));
    while let Some(row) = rows.try_next().await? {
        let before = objects.read(&row, OBJECT + O::COLUMNS)?;
        replacements.push(Replacement { change: change(&row, &mut keys, objects)?, before });
    }
    Ok(replacements)
}

/// The change in a row of a query that selects `columns`.
pub(super) fn change(row: &impl Cells, keys: &mut Keys, objects: &impl Objects) -> Result<Change, Error> {
    let operation = row.text(4)?;
    let operation =
        Operation::parse(operation).ok_or_else(|| Error::Decode(format!("{operation:?} is no operation").into()))?;
    let object = objects.read(row, OBJECT)?;
    Ok(Change {
        revision: Revision(row.number(0)?),
        key: keys.next(row.text(1)?, row.text(2)?, row.text(3)?),
        operation,
        created: Revision(row.number(5)?),
        previous: Revision(row.number(6)?),
        time_ms: row.number(7)?,
        object: object.ok_or_else(|| Error::Decode("a change without an object".into()))?,
    })
}

/// The keys of rows that are read one after the other. Most of them have the kind and the namespace
/// of the row before, and share their text with it.
#[derive(Default)]
pub(super) struct Keys {
    last: Option<(GroupResource, Arc<str>)>,
}

impl Keys {
    /// The key of the next row.
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
