//! Any sequence of faults of the connection: every request is completed in the end.

use super::*;
use crate::support::size::sized;

/// Deterministic pseudo-random numbers.
#[derive(Clone)]
pub(super) struct Dice(Arc<Mutex<u64>>);

impl Dice {
    pub(super) fn of(seed: u64) -> Dice {
        Dice(Arc::new(Mutex::new(seed)))
    }

    pub(super) fn roll(&self, sides: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % sides
    }
}

/// Half of all patches fail: the connection is cut before or after, the upstream fails, or another
/// client writes first.
pub(super) fn trouble(line: &Line, dice: &Dice, other: Raw) {
    let other = Arc::new(other);
    let (before, after) = (dice.clone(), dice.clone());
    line.answer(move |method, path| {
        let (other, fate) = (Arc::clone(&other), before.roll(8));
        Box::pin(async move {
            if method != Method::PATCH {
                return None;
            }
            match fate {
                0 => Some(Err(std::io::Error::other("the line is cut"))),
                1 => Some(Ok(response(&status(500, "InternalError")))),
                2 => {
                    let object = path.split('?').next().unwrap().trim_end_matches("/status");
                    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
                    patch(&other, object, label).await;
                    None
                }
                _ => None,
            }
        })
    });
    *line.loses.lock().unwrap() = Some(Arc::new(move |asked| asked.starts_with("PATCH") && after.roll(8) == 0));
}

#[tokio::test]
async fn bs4_in_any_trouble_each_binding_is_finished_and_no_trigger_is_lost() {
    const BINDINGS_OF_ONE_LIFE: usize = 12;
    let timestamp = "2100-01-01T00:00:00Z";
    for seed in sized(1..3, 1..30) {
        let dice = Dice::of(seed);
        let mut pair = Pair::start().await.synced().await;
        let home = pair.karmada.admin();
        give_clusters(&home, &["m1", "m2"]).await;
        trouble(&pair.line, &dice, pair.karmada.admin());
        let named = |number: usize| format!("b{number}");
        for number in 0..BINDINGS_OF_ONE_LIFE {
            post(&home, BINDINGS, placed(&named(number), "m1")).await;
        }
        // Triggers arrive during first placements, with another rule at every third.
        for number in 0..BINDINGS_OF_ONE_LIFE {
            let mut change = json!({"spec": {"rescheduleTriggeredAt": timestamp}});
            if number % 3 == 0 {
                change["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
            }
            patch(&home, &format!("{BINDINGS}/{}", named(number)), change).await;
            if dice.roll(6) == 0 {
                let Pair { karmada, line, here, folder } = pair;
                here.stop().await.unwrap();
                let here = attach(&karmada, &line, &folder, "memory:", Access::ReadWrite).await;
                pair = Pair { karmada, line, here, folder };
            }
        }
        let answered = |object: &Value, number: usize| {
            let wanted = if number.is_multiple_of(3) { "m2" } else { "m1" };
            let is_observed = object["status"]["schedulerObservedGeneration"] == object["metadata"]["generation"];
            targets(object) == [wanted] && is_observed && object["status"]["lastScheduledTime"] == timestamp
        };
        for number in 0..BINDINGS_OF_ONE_LIFE {
            let path = format!("{BINDINGS}/{}", named(number));
            wait_for(&format!("{path}, seed {seed}"), async || {
                answered(&get(&home, &path).await, number).then_some(())
            })
            .await;
        }
        pair.line.mend();
        let here = pair.admin();
        for number in 0..BINDINGS_OF_ONE_LIFE {
            same(&here, &home, &format!("{BINDINGS}/{}", named(number))).await;
        }
        pair.stop().await;
    }
}
