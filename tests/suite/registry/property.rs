//! List, then watch: the state that a client derives is that of a later list, whatever the
//! selector.

use std::collections::BTreeMap;

use ballast::registry::{Watch, WatchEvent};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::*;

#[derive(Clone, Debug)]
enum Step {
    Create {
        name: u8,
        app: u8,
    },
    Relabel {
        name: u8,
        app: u8,
    },
    Edit {
        name: u8,
        ttl: u8,
    },
    Delete {
        name: u8,
    },
    /// The client reads the pending events.
    Read,
    /// The client starts again at the last revision that it knows.
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    let (name, app) = (0..5u8, 0..3u8);
    prop_oneof![
        3 => (name.clone(), app.clone()).prop_map(|(name, app)| Step::Create { name, app }),
        3 => (name.clone(), app).prop_map(|(name, app)| Step::Relabel { name, app }),
        2 => (name.clone(), 0..4u8).prop_map(|(name, ttl)| Step::Edit { name, ttl }),
        2 => name.prop_map(|name| Step::Delete { name }),
        2 => Just(Step::Read),
        1 => Just(Step::Resume),
    ]
}

/// The state that a client knows.
#[derive(Default)]
struct Known {
    objects: BTreeMap<String, Value>,
    revision: i64,
}

impl Known {
    fn read(&mut self, watch: &mut Watch) {
        while let Some(event) = watch.next_ready() {
            let (object, is_there) = match &event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                WatchEvent::Deleted(object) => (object, false),
                other => panic!("unexpected: {}", told(other)),
            };
            assert!(object.revision.0 > self.revision, "each event once, in order");
            self.revision = object.revision.0;
            let name = object.key.name.to_string();
            let known = self.objects.contains_key(&name);
            assert_eq!(known, !matches!(event, WatchEvent::Added(_)), "{}", told(&event));
            match is_there {
                true => self.objects.insert(name, value(object)),
                false => self.objects.remove(&name),
            };
        }
    }
}

async fn take(world: &World, step: &Step) {
    let target = |name: &u8| rebalancer(&format!("r{name}"));
    // Some steps are rejected, because the object is missing or exists. These change nothing.
    match step {
        Step::Create { name, app } => {
            let labels = json!({"metadata": {"labels": {"app": app.to_string()}}});
            let _ = world.try_create(with(target(name), labels)).await;
        }
        Step::Relabel { name, app } => {
            let labels = json!({"metadata": {"labels": {"app": app.to_string()}}});
            let _ = world.merge(&target(name), labels).await;
        }
        Step::Edit { name, ttl } => {
            let _ = world.merge(&target(name), json!({"spec": {"ttlSecondsAfterFinished": ttl}})).await;
        }
        Step::Delete { name } => {
            let _ = world.delete_with(&target(name), &Default::default()).await;
        }
        Step::Read | Step::Resume => {}
    }
}

async fn check(steps: Vec<Step>, selector: &str) {
    let world = World::new().await;
    let all = world.all(REBALANCERS);
    let (before, after) = steps.split_at(steps.len() / 3);
    for step in before {
        take(&world, step).await;
    }
    let list = world.list(&all, selector).await.unwrap();
    let objects = list.items.iter().map(|object| (object.key.name.to_string(), value(object))).collect();
    let mut known = Known { objects, revision: list.revision.0 };
    let begin = async |revision: i64| world.watch(&all, &format!("{selector}&resourceVersion={revision}")).await;
    let mut watch = begin(known.revision).await;
    for step in after {
        take(&world, step).await;
        match step {
            Step::Read => known.read(&mut watch),
            // Revision 0 would mean the present state.
            Step::Resume if known.revision > 0 => watch = begin(known.revision).await,
            _ => {}
        }
    }
    known.read(&mut watch);
    let later = world.list(&all, selector).await.unwrap();
    let later: BTreeMap<String, Value> =
        later.items.iter().map(|object| (object.key.name.to_string(), value(object))).collect();
    assert_eq!(known.objects, later);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn wa3_and_wa8_list_and_watch_are_a_later_list(
        steps in proptest::collection::vec(step(), 3..60),
        selector in prop_oneof![
            Just(""), Just("labelSelector=app=1"), Just("labelSelector=app!=1"), Just("labelSelector=app in (0,2)"),
            Just("fieldSelector=metadata.name!=r2"), Just("labelSelector=app=0&fieldSelector=metadata.name=r1"),
        ],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps, selector));
    }
}
