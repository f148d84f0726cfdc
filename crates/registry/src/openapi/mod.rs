//! The API as OpenAPI: one 3.0.0 document for each group and version, the index of them, and one
//! Swagger 2.0 document of everything (OA1-OA19).
//!
//! Three steps: `operations` lists what can be done, from the rows. `schemas` turns the structural
//! schemas into the Kubernetes dialect of OpenAPI. `write` puts both into documents.
//!
//! *Invariants.* Everything follows from the rows. The documents are made once (OA16). A reference
//! resolves inside its own document (OA11).
//!
//! Left out: OpenAPI 3 in protobuf, and the deprecated `/watch/` paths (OA18).

mod operations;
mod protobuf;
mod schemas;
mod write;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::published::Published;
use ballast_resource::{Kinds, ResourceKind};

/// The documents, ready to be served.
pub struct OpenApi {
    index: Published,
    /// By the path in the index: `apis/work.karmada.io/v1alpha2`, `api/v1`.
    documents: BTreeMap<String, Published>,
    swagger: Published,
    swagger_protobuf: Published,
}

impl OpenApi {
    pub fn new(kinds: &Kinds) -> OpenApi {
        let documents: BTreeMap<String, Published> =
            v3(kinds).into_iter().map(|(path, document)| (path, Published::of(&document))).collect();
        let paths: BTreeMap<&str, Value> = documents
            .iter()
            .map(|(path, document)| {
                let url = format!("/openapi/v3/{path}?hash={}", document.hash);
                (path.as_str(), json!({"serverRelativeURL": url}))
            })
            .collect();
        let index = Published::of(&json!({"paths": paths}));
        let swagger = write::v2(kinds);
        let swagger_protobuf = Published::from_bytes(protobuf::encode(&swagger));
        OpenApi { index, documents, swagger: Published::of(&swagger), swagger_protobuf }
    }

    /// `/openapi/v3`: the paths of the documents, with their hashes (OA1).
    pub fn index(&self) -> &Published {
        &self.index
    }

    /// `/openapi/v3/{path}`, without a leading slash.
    pub fn document(&self, path: &str) -> Option<&Published> {
        self.documents.get(path)
    }

    /// `/openapi/v2` as JSON.
    pub fn swagger(&self) -> &Published {
        &self.swagger
    }

    /// `/openapi/v2` in protobuf. It has the definitions only.
    pub fn swagger_protobuf(&self) -> &Published {
        &self.swagger_protobuf
    }
}

/// Returns all documents as files for people and generators: names and indented text. The names
/// follow the Kubernetes project.
pub fn documents(kinds: &Kinds) -> Vec<(String, Vec<u8>)> {
    let v3 = v3(kinds)
        .into_iter()
        .map(|(path, document)| (format!("v3/{}_openapi.json", path.replace('/', "__")), document));
    let all = v3.chain([("swagger.json".to_owned(), write::v2(kinds))]);
    all.map(|(name, document)| (name, format!("{document:#}\n").into_bytes())).collect()
}

/// By the path in the index.
fn v3(kinds: &Kinds) -> BTreeMap<String, Value> {
    let mut rows: BTreeMap<(&str, &str), Vec<&ResourceKind>> = BTreeMap::new();
    for row in kinds.rows() {
        rows.entry((row.group, row.version)).or_default().push(row);
    }
    let mut documents = BTreeMap::from([
        ("apis".to_owned(), write::v3(&operations::groups(), &[])),
        ("version".to_owned(), write::v3(&operations::version(), &[])),
    ]);
    let groups: Vec<&str> = kinds.rows().iter().map(|row| row.group).collect();
    for ((group, _), rows) in rows {
        let (Some(root), endpoints) = (rows.first().map(|row| row.root()), operations::version_of_group(&rows)) else {
            continue;
        };
        let above = if group.is_empty() { "api".to_owned() } else { format!("apis/{group}") };
        documents.entry(above).or_insert_with(|| write::v3(&operations::group(group, &groups), &[]));
        documents.insert(root, write::v3(&endpoints, &rows));
    }
    documents
}

#[cfg(test)]
mod tests;
