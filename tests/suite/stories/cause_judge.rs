//! Checks the whole log: each change of a binding's targets records its cause in the same write,
//! and the recorded times increase with the revisions (D123).

use std::collections::BTreeMap;

use ballast::api::karmada::work::v1alpha2::{AnyBinding, LAST_CHANGE, LastChange, TargetDiff, shares};
use ballast::k8s::{Key, Revision};
use ballast::store::Operation;

use super::world::{CRB, RB, World};

/// Returns the first violation in the log.
pub async fn judge(world: &World) -> Result<(), String> {
    let mut bindings: BTreeMap<Key, AnyBinding> = BTreeMap::new();
    for change in world.written_since(Revision::ZERO).await {
        if ![RB, CRB].contains(&change.key.resource) {
            continue;
        }
        if change.operation == Operation::Delete {
            bindings.remove(&change.key);
            continue;
        }
        let after: AnyBinding = serde_json::from_slice(&change.object).unwrap();
        let before = bindings.insert(change.key.clone(), after.clone()).unwrap_or_default();
        if let Err(fault) = judge_change(&before, &after) {
            return Err(format!("{} at revision {}: {fault}", change.key, change.revision));
        }
    }
    Ok(())
}

fn judge_change(before: &AnyBinding, after: &AnyBinding) -> Result<(), String> {
    let text = |binding: &AnyBinding| binding.metadata.annotations.get(LAST_CHANGE).cloned();
    let diff = TargetDiff::between(shares(&before.spec.clusters), shares(&after.spec.clusters));
    let Some(diff) = diff else {
        return match text(before) == text(after) {
            true => Ok(()),
            false => Err(format!("{:?} records a change that is none", text(after))),
        };
    };
    let recorded = LastChange::of(&after.metadata.annotations);
    let own = recorded.filter(|it| text(before) != text(after) && it.led_to(&after.spec.clusters));
    let own = own.ok_or_else(|| format!("{diff}, and the record is {:?}", text(after)))?;
    if !own.sentence.starts_with(&diff.to_string()) || own.cause().is_none() {
        return Err(format!("{diff} is recorded as {:?}", own.sentence));
    }
    let known = LastChange::of(&before.metadata.annotations).and_then(|it| it.time());
    match own.time() >= known {
        true => Ok(()),
        false => Err(format!("{:?} comes after {known:?}", own.time())),
    }
}
