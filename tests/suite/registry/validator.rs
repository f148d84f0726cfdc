//! Validators: built-in admission of one kind.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast::k8s::{Body, DeleteOptions, Patch, Status, WriteOptions};
use ballast::registry::{AdmissionAttributes, MayCreate, Operation, Validator};
use serde_json::{Value, json};

use super::world::*;

/// Records its calls, rejects objects named `bad`, and sets a status on dry runs.
#[derive(Default)]
struct Adviser {
    heard: Mutex<Vec<String>>,
}

impl Adviser {
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

#[async_trait]
impl Validator for Adviser {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        let what = match (attributes.operation, old.is_some()) {
            (Operation::Create, false) => "create",
            (Operation::Update, true) => "update",
            other => panic!("{other:?}"),
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.heard.lock().unwrap().push(format!("{what} {name}"));
        attributes.caller.warnings.warn("heard");
        if name == "bad" {
            return Err(Status::forbidden(REBALANCERS, name, "not this one"));
        }
        if attributes.dry_run() {
            object.insert("status".to_owned(), json!({"observedGeneration": 7}));
        }
        Ok(())
    }
}

async fn world() -> (World, Arc<Adviser>) {
    let mut world = World::new().await;
    let adviser = Arc::new(Adviser::default());
    let registry = world.registry.with_validator(REBALANCERS, adviser.clone());
    world.registry = registry.with_validator(TASKS, adviser.clone());
    (world, adviser)
}

#[tokio::test]
async fn it_is_asked_about_every_write_of_its_kind_and_no_other() {
    let (world, adviser) = world().await;
    world.create(binding("shop", "web")).await;
    assert!(adviser.heard().is_empty());
    let created = tree(world.create(rebalancer("r")).await);
    assert_eq!(adviser.heard(), ["create r"]);
    let labelled = with(created.clone(), json!({"metadata": {"labels": {"a": "1"}}}));
    let updated = tree(world.update(labelled).await);
    world.merge(&updated, json!({"metadata": {"labels": {"a": "2"}}})).await.unwrap();
    let config = with(rebalancer("r"), json!({"metadata": {"labels": {"b": "1"}}}));
    let options = WriteOptions { field_manager: Some("me".into()), ..WriteOptions::default() };
    let target = world.at(&config);
    let apply = async |config: Tree| {
        world.registry.apply(world.caller(), &target, Body::of(config), &options, MayCreate::Yes).await.unwrap()
    };
    apply(config.clone()).await;
    assert_eq!(adviser.heard(), ["update r"; 3]);
    // An unchanged object changes nothing, and statuses and deletes are not validated.
    apply(config).await;
    let object = world.registry.cache().view().list(REBALANCERS, None).next().unwrap().clone();
    let status = with(tree(value(&object)), json!({"status": {"observedGeneration": 1}}));
    world.update_status(status.clone()).await.unwrap();
    world.delete_with(&status, &DeleteOptions::default()).await.unwrap();
    assert!(adviser.heard().is_empty());
}

#[tokio::test]
async fn applying_what_is_not_there_is_a_create() {
    let (world, adviser) = world().await;
    let target = world.at(&rebalancer("new"));
    let options = WriteOptions { field_manager: Some("me".into()), ..WriteOptions::default() };
    let body = Body::of(rebalancer("new"));
    world.registry.apply(world.caller(), &target, body, &options, MayCreate::Yes).await.unwrap();
    assert_eq!(adviser.heard(), ["create new"]);
}

#[tokio::test]
async fn what_it_refuses_is_not_written() {
    let (world, _adviser) = world().await;
    let refused = world.try_create(rebalancer("bad")).await.unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.message.ends_with("not this one"), "{}", refused.message);
    assert_eq!(world.revision().0, 0);
    assert_eq!(world.try_create(task("bad")).await.unwrap_err().code, 403);
    assert!(world.acts.lock().unwrap().is_empty(), "it has not acted");
}

#[tokio::test]
async fn dr1_its_status_is_the_answer_of_a_dry_run_and_of_nothing_else() {
    let (world, adviser) = world().await;
    let shown = value(&world.create_with(rebalancer("r"), &dry()).await.unwrap().object);
    assert_eq!((&shown["status"], world.revision().0), (&json!({"observedGeneration": 7}), 0));
    let created = tree(world.create(rebalancer("r")).await);
    assert_eq!(created.get("status"), None);
    let patch = Patch::merge(json!({"metadata": {"labels": {"a": "1"}}}).to_string().as_bytes()).unwrap();
    let shown = world.patch_at(&world.at(&created), patch, &dry()).await.unwrap();
    assert_eq!(value(&shown.object)["status"], json!({"observedGeneration": 7}));
    assert_eq!(adviser.heard(), ["create r", "create r", "update r"]);
    let stored: Vec<Value> =
        world.registry.cache().view().list(REBALANCERS, None).map(|object| value(object)).collect();
    assert_eq!(stored, [Value::Object(created)]);
}

#[tokio::test]
async fn workers_are_not_asked() {
    let (world, adviser) = world().await;
    let change = ballast::registry::Change::Create(rebalancer("bad"));
    let outcomes = world.client().batch(vec![(REBALANCERS, change)], ballast::registry::Atomicity::All).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok) && adviser.heard().is_empty());
}
