//! Events about bindings that are stored upstream.

use super::*;

/// The events upstream about an object, as `TYPE REASON xCOUNT: MESSAGE`.
async fn told(home: &Raw, kind: &str, name: &str) -> Vec<String> {
    let list = get(home, "/api/v1/namespaces/shop/events").await;
    let of = |item: &&Value| item["involvedObject"]["kind"] == kind && item["involvedObject"]["name"] == name;
    let line = |item: &Value| {
        let text = |field: &str| item[field].as_str().unwrap().to_owned();
        format!("{} {} x{}: {}", text("type"), text("reason"), item["count"], text("message"))
    };
    list["items"].as_array().unwrap().iter().filter(of).map(line).collect()
}

#[tokio::test]
async fn bs6_what_became_of_a_binding_is_told_at_home_and_counted_without_reading() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    let line = "Normal ScheduleBindingSucceed x1: Binding has been scheduled successfully. Result: {m1:2}";
    for kind in ["ResourceBinding", "Deployment"] {
        wait_for(kind, async || told(&home, kind, "web").await.contains(&line.to_owned()).then_some(())).await;
    }
    let event = get(&home, "/api/v1/namespaces/shop/events").await["items"][0].clone();
    assert_eq!(event["source"]["component"], "ballast", "{event}");
    // The same again, before and after a restart, which forgets the counts.
    let Pair { karmada, line: way, mut here, folder } = pair;
    for count in 2..=3 {
        if count == 3 {
            here.stop().await.unwrap();
            here = attach(&karmada, &way, &folder, "memory:", Access::ReadWrite).await;
        }
        let timestamp = format!("210{count}-01-01T00:00:00Z");
        patch(&home, WEB, json!({"spec": {"rescheduleTriggeredAt": timestamp}})).await;
        wait_for("the count", async || {
            let told = told(&home, "ResourceBinding", "web").await;
            told.iter().any(|line| line.contains(&format!(" x{count}: ")) && line.contains("{m1:2}")).then_some(())
        })
        .await;
    }
    assert_eq!(way.asked("GET /api/v1"), 0, "its role may not read events");
    // A task is stored here, and so are the events about it.
    let admin = Raw::admin(here.address, &Files::in_dir(&folder.path().join("certs")));
    post(&admin, TASKS, task("web")).await;
    wait_for("the event about the task", async || {
        let list = get(&admin, "/api/v1/events").await;
        let is_there = |item: &Value| item["involvedObject"]["kind"] == "RescheduleTask";
        list["items"].as_array().unwrap().iter().any(is_there).then_some(())
    })
    .await;
    post(&home, BINDINGS, placed("last", "m1")).await;
    wait_for("a later event", async || (!told(&home, "ResourceBinding", "last").await.is_empty()).then_some(())).await;
    let list = get(&home, "/api/v1/events").await;
    assert!(!list.to_string().contains("RescheduleTask\""), "{list}");
    Pair { karmada, line: way, here, folder }.stop().await;
}

#[tokio::test]
async fn bs6_a_home_that_does_not_allow_events_is_not_asked_on_and_bindings_are_placed() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1"]).await;
    let events = "/api/v1/namespaces/shop/events";
    pair.line.refuse(move |_, path| path.starts_with(events), status(403, "Forbidden"));
    for name in ["one", "two", "three"] {
        post(&home, BINDINGS, placed(name, "m1")).await;
        scheduled(&home, &format!("{BINDINGS}/{name}"), "m1").await;
        let kept = format!("the event of {name} here");
        wait_for(&kept, async || (!told(&pair.admin(), "ResourceBinding", name).await.is_empty()).then_some(())).await;
    }
    // Events in flight together are rejected together.
    assert!(pair.line.asked(&format!("POST {events}")) <= 4, "{}", pair.line.asked("POST "));
    assert_eq!(told(&home, "ResourceBinding", "three").await.len(), 0);
    pair.stop().await;
}
