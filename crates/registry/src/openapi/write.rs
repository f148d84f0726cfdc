//! Assembles operations and schemas into documents: OpenAPI 3.0.0 and Swagger 2.0.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::operations::{self, Body, Definition, Endpoint, FAILURES, Operation, Parameter, shared_name};
use super::schemas::{Dialect, Schemas, object_name};
use ballast_resource::schema::meta;
use ballast_resource::{Kinds, Lifetime, ResourceKind};

/// Returns the OpenAPI 3.0.0 document of one path of the index. `rows` are the kinds that it
/// defines.
pub fn v3(endpoints: &[Endpoint<'_>], rows: &[&ResourceKind]) -> Value {
    let mut schemas = definitions(Dialect::V3, endpoints, rows);
    let paths: BTreeMap<&str, Value> = endpoints
        .iter()
        .map(|endpoint| {
            let mut item = path_item(endpoint, parameter_v3);
            for operation in &endpoint.operations {
                item.insert(operation.method.to_owned(), operation_v3(operation, &mut schemas));
            }
            (endpoint.path.as_str(), Value::Object(item))
        })
        .collect();
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {
            "responses": failures(&schemas),
            "schemas": schemas.into_definitions(),
            "securitySchemes": {"BearerToken": security_scheme()},
        },
    })
}

/// Returns the Swagger 2.0 document of everything.
pub fn v2(kinds: &Kinds) -> Value {
    let rows: Vec<&ResourceKind> = kinds.rows().iter().map(|row| &**row).collect();
    let mut by_version: BTreeMap<(&str, &str), Vec<&ResourceKind>> = BTreeMap::new();
    for row in &rows {
        by_version.entry((row.group, row.version)).or_default().push(row);
    }
    let mut groups: Vec<&str> = by_version.keys().map(|(group, _)| *group).collect();
    groups.dedup();
    let mut endpoints = operations::groups();
    endpoints.extend(operations::version());
    endpoints.extend(groups.iter().flat_map(|group| operations::group(group, &groups)));
    endpoints.extend(by_version.values().flat_map(|rows| operations::version_of_group(rows)));
    let mut schemas = definitions(Dialect::V2, &endpoints, &rows);
    let paths: BTreeMap<&str, Value> = endpoints
        .iter()
        .map(|endpoint| {
            let mut item = path_item(endpoint, parameter_v2);
            for operation in &endpoint.operations {
                item.insert(operation.method.to_owned(), operation_v2(operation, &mut schemas));
            }
            (endpoint.path.as_str(), Value::Object(item))
        })
        .collect();
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths,
        "definitions": schemas.into_definitions(),
        "securityDefinitions": {"BearerToken": security_scheme()},
        "security": [{"BearerToken": []}],
    })
}

fn info() -> Value {
    json!({"title": "Ballast", "version": concat!("v", env!("CARGO_PKG_VERSION"))})
}

fn security_scheme() -> Value {
    json!({"type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer token"})
}

/// Returns the kinds with their lists, and the types that requests and responses need in addition.
fn definitions(dialect: Dialect, endpoints: &[Endpoint<'_>], rows: &[&ResourceKind]) -> Schemas {
    let mut schemas = Schemas::new(dialect);
    let mut versions: Vec<(&str, &str)> = rows.iter().map(|row| (row.group, row.version)).collect();
    versions.sort_unstable();
    versions.dedup();
    schemas.shared(&meta::status(), "Status", &[("", "v1")]);
    if !rows.is_empty() {
        schemas.shared(&meta::delete_options(), "DeleteOptions", &versions);
        schemas.shared(&meta::watch_event(), "WatchEvent", &versions);
        schemas.shared(&meta::patch(), "Patch", &[]);
    }
    let answers = |wanted| {
        let operations = endpoints.iter().flat_map(|endpoint| &endpoint.operations);
        operations.flat_map(|operation| &operation.answers).any(|(_, _, answer)| *answer == wanted)
    };
    if answers(Definition::ApiResourceList) {
        schemas.shared(&meta::api_resource_list(), "APIResourceList", &[("", "v1")]);
    }
    if answers(Definition::ApiVersions) {
        schemas.shared(&meta::api_versions(), "APIVersions", &[("", "v1")]);
    }
    if answers(Definition::ApiGroup) {
        schemas.shared(&meta::api_group(), "APIGroup", &[("", "v1")]);
    }
    if answers(Definition::ApiGroupList) {
        schemas.shared(&meta::api_group_list(), "APIGroupList", &[("", "v1")]);
    }
    if answers(Definition::Info) {
        schemas.insert(&shared_name(Definition::Info).unwrap_or_default(), version_info());
    }
    for row in rows {
        match row.lifetime {
            Lifetime::Stored => schemas.list(row),
            Lifetime::Action => schemas.kind(row),
        };
    }
    schemas
}

/// Returns the type of `/version`: all members are text.
fn version_info() -> Value {
    const REQUIRED: &[&str] = &[
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    const MORE: &[&str] = &["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let properties: BTreeMap<&str, Value> =
        REQUIRED.iter().chain(MORE).map(|name| (*name, json!({"type": "string"}))).collect();
    json!({
        "type": "object", "description": "What the server is.", "required": REQUIRED, "properties": properties,
    })
}

fn path_item(endpoint: &Endpoint<'_>, parameter: fn(&Parameter) -> Value) -> Map<String, Value> {
    let mut item = Map::new();
    if !endpoint.parameters.is_empty() {
        let parameters = endpoint.parameters.iter().map(|one| parameter(one)).collect();
        item.insert("parameters".to_owned(), parameters);
    }
    item
}

/// Returns the members that both versions of OpenAPI share.
fn operation_head(operation: &Operation<'_>) -> Value {
    let mut head = json!({
        "operationId": operation.id, "tags": [operation.tag], "description": operation.description,
    });
    if let Some(action) = operation.action {
        head["x-kubernetes-action"] = action.into();
    }
    if let Some(row) = operation.row {
        let kind = operation.kind.unwrap_or(row.kind);
        head["x-kubernetes-group-version-kind"] = json!({"group": row.group, "version": row.version, "kind": kind});
    }
    head
}

fn operation_v3(operation: &Operation<'_>, schemas: &mut Schemas) -> Value {
    let content = |schemas: &Schemas, definition, types: &[&str]| -> Value {
        let schema = reference(definition, operation.row, schemas);
        types.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect::<Map<_, _>>().into()
    };
    let mut document = operation_head(operation);
    if !operation.parameters.is_empty() {
        document["parameters"] = operation.parameters.iter().map(|one| parameter_v3(one)).collect();
    }
    if let Some(Body { definition, required, consumes }) = &operation.body {
        let content = content(schemas, *definition, consumes);
        document["requestBody"] = match required {
            true => json!({"content": content, "required": true}),
            false => json!({"content": content}),
        };
    }
    let mut responses: BTreeMap<String, Value> = operation
        .answers
        .iter()
        .map(|(code, words, definition)| {
            let content = content(schemas, *definition, operation.produces);
            (code.to_string(), json!({"description": words, "content": content}))
        })
        .collect();
    let known = FAILURES.iter().filter(|(code, _)| operation.failures.contains(code));
    responses.extend(
        known.map(|(code, reason)| (code.to_string(), json!({"$ref": format!("#/components/responses/{reason}")}))),
    );
    document["responses"] = json!(responses);
    document
}

/// Returns the responses of failed requests, to which all operations refer. Swagger gets none: an
/// aggregator that merges such documents keeps only definitions and parameters.
fn failures(schemas: &Schemas) -> Value {
    let schema = reference(Definition::Status, None, schemas);
    let content = json!({"application/json": {"schema": schema}, "application/yaml": {"schema": schema}});
    let all = FAILURES.iter();
    all.map(|(_, reason)| ((*reason).to_owned(), json!({"description": reason, "content": content})))
        .collect::<Map<_, _>>()
        .into()
}

fn operation_v2(operation: &Operation<'_>, schemas: &mut Schemas) -> Value {
    let mut document = operation_head(operation);
    let mut parameters: Vec<Value> = Vec::new();
    if let Some(Body { definition, required, .. }) = &operation.body {
        let schema = reference(*definition, operation.row, schemas);
        let mut body = json!({"name": "body", "in": "body", "schema": schema});
        if *required {
            body["required"] = true.into();
        }
        parameters.push(body);
    }
    parameters.extend(operation.parameters.iter().map(|one| parameter_v2(one)));
    if !parameters.is_empty() {
        document["parameters"] = parameters.into();
    }
    document["consumes"] = json!(operation.body.as_ref().map_or(&["*/*"][..], |body| body.consumes));
    document["produces"] = json!(operation.produces);
    document["schemes"] = json!(["https"]);
    let mut responses: BTreeMap<String, Value> = operation
        .answers
        .iter()
        .map(|(code, words, definition)| {
            let schema = reference(*definition, operation.row, schemas);
            (code.to_string(), json!({"description": words, "schema": schema}))
        })
        .collect();
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    document["responses"] = json!(responses);
    document
}

fn reference(definition: Definition, row: Option<&ResourceKind>, schemas: &Schemas) -> Value {
    if definition == Definition::Text {
        return json!({"type": "string"});
    }
    let name = shared_name(definition).or_else(|| {
        let list = if definition == Definition::List { "List" } else { "" };
        row.map(|row| format!("{}{list}", object_name(row)))
    });
    schemas.reference_to(&name.unwrap_or_default())
}

fn parameter_v3(parameter: &Parameter) -> Value {
    let mut document = parameter_head(parameter);
    document["schema"] = json!({"type": parameter.kind});
    document
}

fn parameter_v2(parameter: &Parameter) -> Value {
    let mut document = parameter_head(parameter);
    document["type"] = parameter.kind.into();
    document["uniqueItems"] = true.into();
    document
}

fn parameter_head(parameter: &Parameter) -> Value {
    let mut head = json!({
        "name": parameter.name, "in": parameter.place, "description": parameter.description,
    });
    if parameter.place == "path" {
        head["required"] = true.into();
    }
    head
}
