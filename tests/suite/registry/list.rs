//! Get and list: the state of the response, the selection, and the pages.

use ballast::k8s::{GetOptions, ListOptions, Query, Revision};
use ballast::watch::Limits;
use serde_json::json;

use super::world::*;

async fn world_of(names: &[&str]) -> World {
    let world = World::new().await;
    for name in names {
        world.create(rebalancer(name)).await;
    }
    world
}

#[tokio::test]
async fn rv4_and_rv16_a_list_is_the_newest_state_with_its_revision() {
    let world = world_of(&["b", "a"]).await;
    world.create(binding("shop", "web")).await;
    let list = world.list(&world.all(REBALANCERS), "").await.unwrap();
    assert_eq!((names(&list), list.revision), (vec!["a".to_owned(), "b".to_owned()], Revision(3)));
    assert!(list.continue_token.is_none() && list.remaining.is_none());
}

#[tokio::test]
async fn ch10_namespaces_come_in_order_and_apart() {
    let world = World::new().await;
    for (namespace, name) in [("b", "a"), ("a-b", "x"), ("a", "z"), ("a", "b")] {
        world.create(binding(namespace, name)).await;
    }
    let keys = async |target, query| -> Vec<String> {
        let list = world.list(&target, query).await.unwrap();
        list.items.iter().map(|object| format!("{}/{}", object.key.namespace, object.key.name)).collect()
    };
    assert_eq!(keys(world.all(BINDINGS), "").await, ["a/b", "a/z", "a-b/x", "b/a"]);
    assert_eq!(keys(world.in_namespace(BINDINGS, "a"), "").await, ["a/b", "a/z"]);
    assert_eq!(keys(world.all(BINDINGS), "fieldSelector=metadata.namespace=a,metadata.name=z").await, ["a/z"]);
    assert_eq!(keys(world.all(BINDINGS), "fieldSelector=metadata.namespace!=a").await, ["a-b/x", "b/a"]);
}

#[tokio::test]
async fn se3_a_cluster_scoped_kind_has_no_namespace_to_select() {
    let world = World::new().await;
    let status = world.list(&world.all(REBALANCERS), "fieldSelector=metadata.namespace=a").await.unwrap_err();
    assert_eq!((status.code, &*status.message), (400, "field label not supported: metadata.namespace"));
}

#[tokio::test]
async fn se6_labels_select() {
    let world = World::new().await;
    world.create(with(rebalancer("a"), json!({"metadata": {"labels": {"app": "x"}}}))).await;
    world.create(rebalancer("b")).await;
    let all = world.all(REBALANCERS);
    assert_eq!(names(&world.list(&all, "labelSelector=app%3Dx").await.unwrap()), ["a"]);
    assert_eq!(names(&world.list(&all, "labelSelector=app!%3Dx").await.unwrap()), ["b"]);
}

#[tokio::test]
async fn ch1_ch2_and_ch9_pages_are_of_one_state_and_count_down() {
    let world = World::new().await;
    for i in 0..40 {
        world.create(rebalancer(&format!("r{i:02}"))).await;
    }
    let all = world.all(REBALANCERS);
    let mut seen = Vec::new();
    let mut query = "limit=17".to_owned();
    loop {
        let page = world.list(&all, &query).await.unwrap();
        assert_eq!(page.revision, Revision(40));
        seen.extend(names(&page));
        // Changes between pages are invisible.
        world.delete(&rebalancer(&format!("r{}", seen.len() - 1))).await;
        world.create(rebalancer(&format!("z{}", seen.len()))).await;
        match page.continue_token {
            Some(token) => {
                assert_eq!(page.remaining, Some(40 - seen.len()));
                query = format!("limit=17&continue={token}");
            }
            None => {
                assert_eq!(page.remaining, None);
                break;
            }
        }
    }
    assert_eq!(seen, (0..40).map(|i| format!("r{i:02}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn ch2_pages_of_a_namespace_count_what_is_left_in_it() {
    let world = World::new().await;
    for (namespace, name) in [("a", "1"), ("b", "1"), ("b", "2"), ("b", "3"), ("b", "4"), ("b", "5"), ("c", "1")] {
        world.create(binding(namespace, name)).await;
    }
    let target = world.in_namespace(BINDINGS, "b");
    let mut left = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let page = world.list(&target, &query).await.unwrap();
        left.push(page.remaining);
        let Some(token) = page.continue_token else { break };
        query = format!("limit=2&continue={token}");
    }
    assert_eq!(left, [Some(3), Some(1), None]);
    // The count in a token is not used for another collection.
    let page = world.list(&world.all(BINDINGS), "limit=1").await.unwrap();
    assert_eq!(page.remaining, Some(6));
    let query = format!("limit=1&continue={}", page.continue_token.unwrap());
    assert_eq!(world.list(&target, &query).await.unwrap().remaining, Some(4));
}

#[tokio::test]
async fn ch2_and_ch7_selected_pages_are_full_and_uncounted() {
    let world = World::new().await;
    for i in 0..20 {
        let rare = if i % 7 == 0 { "yes" } else { "no" };
        world.create(with(rebalancer(&format!("r{i:02}")), json!({"metadata": {"labels": {"rare": rare}}}))).await;
    }
    let all = world.all(REBALANCERS);
    let page = world.list(&all, "labelSelector=rare=yes&limit=2").await.unwrap();
    assert_eq!((names(&page), page.remaining), (vec!["r00".to_owned(), "r07".to_owned()], None));
    let rest = format!("labelSelector=rare=yes&limit=2&continue={}", page.continue_token.unwrap());
    let page = world.list(&all, &rest).await.unwrap();
    assert_eq!((names(&page), page.continue_token), (vec!["r14".to_owned()], None));
}

#[tokio::test]
async fn ch3_a_token_cannot_leave_its_namespace() {
    let world = World::new().await;
    for (namespace, name) in [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1")] {
        world.create(binding(namespace, name)).await;
    }
    let page = world.list(&world.all(BINDINGS), "limit=1").await.unwrap();
    let query = format!("continue={}", page.continue_token.unwrap());
    let list = world.list(&world.in_namespace(BINDINGS, "b"), &query).await.unwrap();
    assert_eq!(list.items.len(), 2);
    assert!(list.items.iter().all(|object| &*object.key.namespace == "b"));
    let status = world.list(&world.all(BINDINGS), "continue=xyz").await.unwrap_err();
    assert_eq!(status.code, 400);
}

#[tokio::test]
async fn ch5_and_ch6_an_expired_token_offers_the_rest_as_it_is_now() {
    let world = World::with_limits(Limits { window_events_max: 2, ..Limits::default() }).await;
    for name in ["a", "b", "c"] {
        world.create(rebalancer(name)).await;
    }
    let all = world.all(REBALANCERS);
    let page = world.list(&all, "limit=1").await.unwrap();
    for name in ["d", "e", "f"] {
        world.create(rebalancer(name)).await;
    }
    let old = format!("limit=1&continue={}", page.continue_token.unwrap());
    let status = world.list(&all, &old).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (410, "Expired"));
    assert!(status.message.starts_with("The provided continue parameter is too old"));
    let body = serde_json::to_value(&status).unwrap();
    let rest = format!("limit=1&continue={}", body["metadata"]["continue"].as_str().unwrap());
    let page = world.list(&all, &rest).await.unwrap();
    assert_eq!((names(&page), page.revision), (vec!["b".to_owned()], Revision(6)));
    let rest = format!("continue={}", page.continue_token.unwrap());
    assert_eq!(names(&world.list(&all, &rest).await.unwrap()), ["c", "d", "e", "f"]);
}

#[tokio::test]
async fn rv7_and_rv9_an_exact_state_can_be_asked_for() {
    let world = world_of(&["a", "b", "c"]).await;
    let all = world.all(REBALANCERS);
    let list = world.list(&all, "resourceVersion=2&resourceVersionMatch=Exact").await.unwrap();
    assert_eq!((names(&list).len(), list.revision), (2, Revision(2)));
    let list = world.list(&all, "resourceVersion=2&limit=9").await.unwrap();
    assert_eq!((names(&list).len(), list.revision), (2, Revision(2)));
    let list = world.list(&all, "resourceVersion=2").await.unwrap();
    assert_eq!((names(&list).len(), list.revision), (3, Revision(3)), "RV6");
    let list = world.list(&all, "resourceVersion=2&resourceVersionMatch=NotOlderThan&limit=1").await.unwrap();
    assert_eq!((names(&list).len(), list.revision), (1, Revision(3)), "RV8");
    let list = world.list(&all, "resourceVersion=0&limit=1").await.unwrap();
    assert_eq!(list.revision, Revision(3), "RV5");
}

#[tokio::test]
async fn rv9_the_log_tells_what_the_windows_forgot_but_not_page_by_page() {
    let world = World::with_limits(Limits { window_events_max: 2, ..Limits::default() }).await;
    for name in ["a", "b", "c", "d"] {
        world.create(rebalancer(name)).await;
    }
    let list = world.list(&world.all(REBALANCERS), "resourceVersion=1&resourceVersionMatch=Exact").await.unwrap();
    assert_eq!((names(&list), list.revision), (vec!["a".to_owned()], Revision(1)), "the log remembers it");
    let query = "resourceVersion=1&resourceVersionMatch=Exact&limit=1";
    let status = world.list(&world.all(REBALANCERS), query).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.reason, &*status.message),
        (410, "Expired", "The resourceVersion for the provided list is too old.")
    );
}

#[tokio::test(start_paused = true)]
async fn rv3_a_revision_of_the_future_is_waited_for_a_little() {
    let world = std::sync::Arc::new(world_of(&["a"]).await);
    let asked = GetOptions { revision: Some(Revision(2)) };
    let status = world.registry.get(&world.at(&rebalancer("a")), &asked).await.unwrap_err();
    assert_eq!((status.code, &*status.message), (504, "Timeout: Too large resource version: 2, current: 1"));
    let details = status.details.unwrap();
    assert_eq!((&*details.causes[0].reason, details.retry_after_seconds), ("ResourceVersionTooLarge", 1));

    let waiting = tokio::spawn({
        let world = world.clone();
        async move { world.registry.get(&world.at(&rebalancer("a")), &asked).await }
    });
    tokio::task::yield_now().await;
    world.create(rebalancer("b")).await;
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test]
async fn vb10_the_scope_must_fit() {
    let world = World::new().await;
    let status = world.list(&world.in_namespace(REBALANCERS, "shop"), "").await.unwrap_err();
    assert_eq!(status.code, 404);
}

#[tokio::test]
async fn ch4_and_rv10_contradictions_are_refused_before_anything_is_read() {
    for query in ["continue=x&resourceVersion=1", "resourceVersionMatch=Exact"] {
        assert!(ListOptions::from_query(&Query::parse(query)).is_err(), "{query}");
    }
}
