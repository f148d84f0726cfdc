//! Bindings whose placement was decided, and refused when it was to be written: it would have used
//! more than a quota allows (QU4).
//!
//! They keep the targets that they have, and their triggers wait. They are decided again when the
//! quota has more room.

use std::sync::Arc;

use super::{commit, news};
use crate::api::karmada::work::v1alpha2::AnyBinding;
use crate::events::Recorder;
use crate::k8s::{Object, Time, read_json};
use crate::metrics;
use crate::registry::{Atomicity, Change, Client};
use crate::worker::{Failure, Handled, Next, Worked};

/// Says on each binding why it was refused, in one transaction, and parks it.
pub async fn tell_all(
    client: &Client,
    recorder: &Recorder,
    refused: Vec<(Arc<Object>, String)>,
    now: Time,
    worked: &mut Worked,
) {
    let mut changes = Vec::new();
    let mut telling = Vec::new();
    for (object, message) in refused {
        metrics::scheduled("unschedulable");
        tracing::debug!(key = %object.key, message, "refused by a quota");
        let Ok(binding) = read_json::<AnyBinding>(&object.text.content()) else { continue };
        let edits = commit::refusal(&binding, &message, now);
        let news = news::of_refusal(&object.key, binding, message, edits.is_empty());
        if edits.is_empty() {
            news.tell(recorder);
            worked
                .outcomes
                .push(Handled { seen: Some(object.revision), ..Handled::new(object.key.clone(), Next::Park) });
            continue;
        }
        telling.push((object.key.clone(), news));
        changes.push((object.key.resource, Change::Edit { base: object, edits }));
    }
    if changes.is_empty() {
        return;
    }
    let outcomes = match client.batch(changes, Atomicity::Each).await {
        Ok(outcomes) => outcomes,
        Err(status) => {
            tracing::warn!(%status, "failed to say which bindings a quota refuses");
            let next = Failure::of(&status).into();
            return worked.outcomes.extend(telling.into_iter().map(|(key, _)| Handled::new(key, next)));
        }
    };
    for ((key, news), outcome) in telling.into_iter().zip(outcomes) {
        worked.outcomes.push(match outcome {
            Ok(object) => {
                news.tell(recorder);
                Handled { seen: Some(object.revision), ..Handled::new(key, Next::Park) }
            }
            Err(status) => Handled::new(key, Failure::of(&status).into()),
        });
    }
}
