//! Creates a view per kind for SQL users. A view with a changed definition is created again.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use crate::Table;
use ballast_k8s::JsonColumn;

/// Replaces the views by those of `tables`, in one transaction. Does nothing if they are up to
/// date.
pub(super) async fn create(connection: &mut SqliteConnection, tables: &[Table]) -> Result<(), sqlx::Error> {
    let there: Vec<(String, String)> =
        sqlx::query_as("SELECT name, sql FROM sqlite_schema WHERE type = 'view'").fetch_all(&mut *connection).await?;
    let there: BTreeMap<String, String> = there.into_iter().collect();
    let wanted: BTreeMap<String, String> = tables.iter().map(|table| (table.name.clone(), definition(table))).collect();
    if there == wanted {
        return Ok(());
    }
    let drops = there.keys().map(|name| format!("DROP VIEW {};", quote(name, '"')));
    let statements: Vec<String> = drops.chain(wanted.into_values().map(|view| format!("{view};"))).collect();
    let script = format!("BEGIN IMMEDIATE; {} COMMIT;", statements.join("\n"));
    sqlx::raw_sql(AssertSqlSafe(script)).execute(connection).await?;
    Ok(())
}

/// Returns the definition in the form in which SQLite stores it, so that the two can be compared.
fn definition(table: &Table) -> String {
    let columns: String = table
        .columns
        .iter()
        .map(|(name, column)| format!(",\n    {} AS {}", expression(column), quote(name, '"')))
        .collect();
    format!(
        "CREATE VIEW {name} AS
SELECT namespace, name, revision,
    object ->> '$.metadata.creationTimestamp' AS created,
    strftime('%Y-%m-%dT%H:%M:%SZ', time_ms / 1000, 'unixepoch') AS updated{columns},
    object
FROM changes AS state
WHERE kind = {kind} AND operation <> 'delete' AND NOT EXISTS (
    SELECT 1 FROM changes AS later WHERE later.previous = state.revision AND later.previous > 0)",
        name = quote(&table.name, '"'),
        kind = quote(table.resource.as_str(), '\''),
    )
}

/// Returns the SQL expression of the value, either in the column `object` or, with `Named` and
/// `Condition`, in its items.
fn expression(value: &JsonColumn) -> String {
    match value {
        JsonColumn::Field(members) => format!("object ->> {}", path(members)),
        JsonColumn::OfFirst { list, member } => {
            format!("(object -> {} -> 0) ->> {}", path(list), path(&[member]))
        }
        JsonColumn::Named { list, name, count } => format!(
            "(SELECT group_concat((value ->> {name}) || coalesce(':' || (value ->> {count}), ''), ',') FROM json_each(object, {list}))",
            list = path(list),
            name = path(&[name]),
            count = path(&[count]),
        ),
        JsonColumn::Condition(kind) => format!(
            "(SELECT value ->> '$.status' FROM json_each(object, '$.status.conditions') WHERE value ->> '$.type' = {})",
            quote(kind, '\''),
        ),
    }
}

/// Returns a path in SQLite's dialect as an SQL literal: `'$.metadata.labels."a.b/c"'`.
fn path(members: &[&str]) -> String {
    let mut path = String::from("$");
    for member in members {
        path.push('.');
        match member.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => path.push_str(member),
            false => path.push_str(&quote(member, '"')),
        }
    }
    quote(&path, '\'')
}

fn quote(text: &str, mark: char) -> String {
    let doubled = text.replace(mark, &format!("{mark}{mark}"));
    format!("{mark}{doubled}{mark}")
}
