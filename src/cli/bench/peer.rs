//! The measurements that every API server with Karmada's definitions supports.

use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::json;

use super::load::{Exchange, Measured, ask, exchanges, send};
use super::objects;
use crate::cli::embedded;
use ballast_node::kubeconfig::Connected;

const NAMESPACES: &str = "/api/v1/namespaces";
/// Number of times that all bindings are listed.
const LISTS: usize = 3;

/// Rejects a server that serves no bindings, before anything is measured.
pub async fn opened(server: Connected) -> anyhow::Result<Connected> {
    embedded::kind_of_server(&server).await?;
    Ok(server)
}

/// Measures the server in a separate namespace, and deletes the created objects.
pub async fn measured(server: &Connected, count: usize) -> anyhow::Result<Vec<Measured>> {
    let namespace = format!("ballast-bench-{}", uuid::Uuid::new_v4().simple());
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let create =
        Exchange { method: Method::POST, body: object.to_string().into(), ..Exchange::get(NAMESPACES.to_owned()) };
    let (status, _) = ask(server, create).await?;
    // Another Ballast has no namespaces, and needs none.
    let has_namespaces = status != StatusCode::NOT_FOUND;
    anyhow::ensure!(!has_namespaces || status.is_success(), "{} refuses a namespace: {status}", server.url);
    let done = common(server, &namespace, count).await;
    let ended = remove(server, &namespace, has_namespaces).await;
    let rows = done?;
    ended.with_context(|| {
        format!("the objects of the benchmark are still in namespace {namespace} of {}", server.url)
    })?;
    Ok(rows.into_iter().map(|(_, measured)| measured).collect())
}

async fn remove(server: &Connected, namespace: &str, has_namespaces: bool) -> anyhow::Result<()> {
    let delete = |path| Exchange { method: Method::DELETE, ..Exchange::get(path) };
    send(server, delete(objects::bindings_path(namespace))).await?;
    if has_namespaces {
        send(server, delete(format!("{NAMESPACES}/{namespace}"))).await?;
    }
    Ok(())
}

/// Creates, reads, patches and lists bindings without a scheduler.
pub async fn common(
    server: &Connected,
    namespace: &str,
    count: usize,
) -> anyhow::Result<Vec<(&'static str, Measured)>> {
    let path = objects::bindings_path(namespace);
    let at = |number: usize| format!("{path}/{}", objects::name(number));
    let (to, place) = (path.clone(), namespace.to_owned());
    let create = move |number| {
        let mut object = objects::binding(&place, number);
        objects::unscheduled(&mut object);
        Exchange { method: Method::POST, body: object.to_string().into(), ..Exchange::get(to.clone()) }
    };
    let (created, there) = exchanges(server, count, create).await?;
    let paths: Vec<String> = (0..there).map(at).collect();
    let reads = paths.clone();
    let (read, _) = exchanges(server, there, move |number| Exchange::get(reads[number].clone())).await?;
    let patch = move |number: usize| Exchange {
        method: Method::PATCH,
        path: paths[number].clone(),
        content_type: "application/merge-patch+json",
        body: Bytes::from_static(br#"{"metadata":{"annotations":{"turn":"1"}}}"#),
    };
    let (patched, _) = exchanges(server, there, patch).await?;
    let began = Instant::now();
    for _ in 0..LISTS {
        send(server, Exchange::get(path.clone())).await?;
    }
    let listed = Measured::once(there * LISTS, began.elapsed());
    Ok(vec![
        ("create a binding", created),
        ("read it", read),
        ("patch an annotation", patched),
        ("list all: bindings", listed),
    ])
}
