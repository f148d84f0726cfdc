//! Repairs the inventory once at the start (IV4).
//!
//! While the server runs, the writer keeps profiles and decisions exact (`inventory`). They are
//! wrong only if it was not active: the flag was not set, or another version has written the log.

use std::collections::BTreeMap;

use futures_util::future::{BoxFuture, FutureExt};

use ballast_inventory::{Inventory, Subject};
use ballast_k8s::{GroupResource, Key};
use ballast_registry::{Change, Client};
use ballast_watch::{Event, View};
use ballast_worker::{self as worker, BatchOutcome, Failure, KeyOutcome, Next, Queue, Work};

/// Resource of the keys of subjects. No object has such a key.
const SUBJECTS: GroupResource = GroupResource::new("subjects.inventory.ballast.dev");

pub struct Retell {
    client: Client,
    inventory: Inventory,
    subjects: BTreeMap<Key, Subject>,
}

impl Retell {
    pub fn new(client: Client, inventory: Inventory) -> Retell {
        Retell { client, inventory, subjects: BTreeMap::new() }
    }
}

impl Work for Retell {
    fn name(&self) -> &'static str {
        "inventory"
    }

    fn interest(&self) -> Vec<GroupResource> {
        self.inventory.kinds()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for subject in self.inventory.subjects(view) {
            let key = match &subject {
                Subject::Clusters(name) => Key::cluster(SUBJECTS, name.clone()),
                Subject::Placements { namespace, name } => Key::namespaced(SUBJECTS, namespace.clone(), name.clone()),
            };
            queue.mark(key.clone(), 0);
            self.subjects.insert(key, subject);
        }
    }

    fn on_event(&mut self, _event: &Event, _queue: &mut Queue) {}

    fn batch(&self) -> usize {
        64
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, inventory) = (self.client.clone(), self.inventory.clone());
        let subjects: Vec<(Key, Option<Subject>)> =
            keys.into_iter().map(|key| (key.clone(), self.subjects.get(&key).cloned())).collect();
        async move {
            let mut worked = BatchOutcome::default();
            for (key, subject) in subjects {
                let next = match subject {
                    Some(subject) => retell(&client, &inventory, &subject).await,
                    None => Next::Done,
                };
                worked.outcomes.push(KeyOutcome::new(key, next));
            }
            worked
        }
        .boxed()
    }
}

/// Writes the published objects of a subject that are out of date.
async fn retell(client: &Client, inventory: &Inventory, subject: &Subject) -> Next {
    let writes = inventory.writes(&client.view(), subject);
    if writes.is_empty() {
        return Next::Done;
    }
    let changes = writes.into_iter().map(|write| (write.key.resource, Change::Own(write))).collect();
    match worker::commit_together(client, changes, |_| false).await {
        Ok(_) => Next::Done,
        Err(failed) => Failure::of(&failed.status).into(),
    }
}
