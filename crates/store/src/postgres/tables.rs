//! Creates a view per kind for SQL users. The definitions are also stored in a table, because the
//! server rewrites those of its views.

use std::collections::BTreeMap;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::Table;
use ballast_k8s::JsonColumn;

/// The column `object` as JSON. PostgreSQL cannot store NUL in text and fails on an object with one
/// in a string, so the view shows a replacement character instead.
const JSON: &str = r"replace(object, '\u0000', '\ufffd')::json";

/// Replaces the views by those of `tables`, in one transaction. Does nothing if they are up to
/// date.
pub(super) async fn create(connection: &mut PgConnection, tables: &[Table]) -> Result<(), sqlx::Error> {
    let wanted: BTreeMap<String, String> = tables.iter().map(|table| (table.name.clone(), definition(table))).collect();
    if defined(connection).await? == wanted {
        return Ok(());
    }
    let mut transaction = connection.begin().await?;
    // Only one replica creates the views; the others find them done.
    sqlx::query("SELECT last FROM head FOR UPDATE").execute(&mut *transaction).await?;
    let there = defined(&mut transaction).await?;
    if there != wanted {
        let drops = there.keys().map(|name| format!("DROP VIEW IF EXISTS {};", quote(name, '"')));
        let creates = wanted.values().map(|view| format!("{view};"));
        let script: Vec<String> = drops.chain(creates).collect();
        sqlx::raw_sql(AssertSqlSafe(script.join("\n"))).execute(&mut *transaction).await?;
        let (names, definitions): (Vec<String>, Vec<String>) = wanted.into_iter().unzip();
        sqlx::query("DELETE FROM views").execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO views SELECT * FROM unnest($1::text[], $2::text[])")
            .bind(names)
            .bind(definitions)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}

async fn defined(connection: &mut PgConnection) -> Result<BTreeMap<String, String>, sqlx::Error> {
    let there: Vec<(String, String)> =
        sqlx::query_as("SELECT name, definition FROM views").fetch_all(connection).await?;
    Ok(there.into_iter().collect())
}

fn definition(table: &Table) -> String {
    let columns: String = table
        .columns
        .iter()
        .map(|(name, column)| format!(",\n    {} AS {}", expression(column), quote(name, '"')))
        .collect();
    format!(
        "CREATE VIEW {name} AS
SELECT namespace, name, revision,
    {JSON} #>> '{{metadata,creationTimestamp}}' AS created,
    to_char(to_timestamp(time_ms / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') AS updated{columns},
    object
FROM changes AS state
WHERE kind = {kind} AND operation <> 'delete' AND NOT EXISTS (
    SELECT 1 FROM changes AS later
    WHERE later.kind = state.kind AND later.namespace = state.namespace AND later.name = state.name
        AND later.revision > state.revision)",
        name = quote(&table.name, '"'),
        kind = quote(table.resource.as_str(), '\''),
    )
}

/// Returns the SQL expression of the value, either in the column `object` or, with `Named` and
/// `Condition`, in its items.
fn expression(value: &JsonColumn) -> String {
    match value {
        JsonColumn::Field(members) => format!("{JSON} #>> {}", path(members)),
        JsonColumn::OfFirst { list, member } => {
            let first: Vec<&str> = list.iter().copied().chain(["0", *member]).collect();
            format!("{JSON} #>> {}", path(&first))
        }
        JsonColumn::Named { list, name, count } => format!(
            "(SELECT string_agg((item.value ->> {name}) || coalesce(':' || (item.value ->> {count}), ''), ',' ORDER BY item.place) FROM {items})",
            name = quote(name, '\''),
            count = quote(count, '\''),
            items = items(list),
        ),
        JsonColumn::Condition(kind) => format!(
            "(SELECT item.value ->> 'status' FROM {} WHERE item.value ->> 'type' = {} LIMIT 1)",
            items(&["status", "conditions"]),
            quote(kind, '\''),
        ),
    }
}

/// Returns the items of a list as rows; none if there is no list.
fn items(list: &[&str]) -> String {
    let list = format!("{JSON} #> {}", path(list));
    format!(
        "json_array_elements(CASE json_typeof({list}) WHEN 'array' THEN {list} END) WITH ORDINALITY AS item (value, place)"
    )
}

/// Returns a path as an SQL literal: `'{metadata,labels,"a.b/c"}'`.
fn path(members: &[&str]) -> String {
    let quoted: Vec<String> = members
        .iter()
        .map(|member| match member.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => (*member).to_owned(),
            false => quote_member(member),
        })
        .collect();
    quote(&format!("{{{}}}", quoted.join(",")), '\'')
}

/// Quotes a member of an array literal, in which a backslash escapes.
fn quote_member(member: &str) -> String {
    format!("\"{}\"", member.replace('\\', "\\\\").replace('"', "\\\""))
}

fn quote(text: &str, mark: char) -> String {
    let doubled = text.replace(mark, &format!("{mark}{mark}"));
    format!("{mark}{doubled}{mark}")
}
