//! A temporary schema for a log, such as that of a demo.

use sqlx::AssertSqlSafe;

use super::Settings;
use super::connector::{self, Connector, within};
use super::errors::classify;
use crate::{Error, is_server};

/// A schema that exists until `remove`.
pub struct Scratch {
    connector: Connector,
    name: String,
    /// The URL of the schema.
    pub url: String,
}

impl Scratch {
    /// Creates the schema `ballast_LABEL` in the database of a server.
    ///
    /// # Panics
    ///
    /// If the label has other characters than letters, digits and underscores, because it is not
    /// quoted.
    pub async fn make(url: &str, label: &str, settings: &Settings) -> Result<Scratch, Error> {
        assert!(label.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'), "{label:?} is quoted nowhere");
        if !is_server(url) || url.contains("options=") {
            let advice = "give postgres://USER@HOST/DATABASE without options; a schema is made and removed".to_owned();
            return Err(Error::Misplaced { advice });
        }
        let name = format!("ballast_{label}");
        let joint = if url.contains('?') { '&' } else { '?' };
        let own = format!("{url}{joint}options=-csearch_path%3D{name}");
        let scratch = Scratch { connector: Connector::new(url, settings), name, url: own };
        let sql = format!("CREATE SCHEMA {}", scratch.name);
        scratch.run("failed to make a schema", sql).await?;
        Ok(scratch)
    }

    /// Removes the schema with its contents.
    pub async fn remove(self) -> Result<(), Error> {
        let sql = format!("DROP SCHEMA {} CASCADE", self.name);
        self.run("failed to remove the schema", sql).await
    }

    async fn run(&self, action: &'static str, sql: String) -> Result<(), Error> {
        let mut connection = self.connector.connect().await?;
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection);
        within(self.connector.answer_max, done).await.map_err(|error| classify(action, error))?;
        connector::close(connection).await;
        Ok(())
    }
}
