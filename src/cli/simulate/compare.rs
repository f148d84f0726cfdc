//! Compares results with the expectations of recorded cases, by the rules in the READMEs of the
//! recordings. The specified fields must be equal; the wording of messages need not be.

use serde_json::Value;

/// Returns the differences from the closest of `expected`. Empty if nothing is expected.
pub fn karmada(expected: &[Value], found: &Value) -> Vec<String> {
    let all = expected.iter().map(|expected| karmada_fields(expected, found));
    all.min_by_key(Vec::len).unwrap_or_default()
}

fn karmada_fields(expected: &Value, found: &Value) -> Vec<String> {
    let mut differences = Differences::default();
    let fields = [
        "scheduled",
        "skip",
        "clusters",
        "affinityName",
        "lastScheduledTimeSet",
        "lastScheduledTimeUpdated",
        "observedGeneration",
        "appliedPlacement",
        "requeue",
    ];
    for field in fields {
        differences.note(field, &expected[field], &found[field]);
    }
    for field in ["status", "reason"] {
        let (expected, found) = (&expected["condition"][field], &found["condition"][field]);
        differences.note(&format!("condition.{field}"), expected, found);
    }
    differences.0
}

/// Returns the differences of a KubeFleet case. Bindings and selected clusters are compared as
/// sets; clusters that were not selected have a fixed order.
pub fn fleet(expected: &Value, found: &Value) -> Vec<String> {
    let mut differences = Differences::default();
    if expected.is_null() {
        return differences.0;
    }
    let fields = [
        "error",
        "cycles",
        "batches",
        "created",
        "patched",
        "unscheduled",
        "deleted",
        "condition",
        "observedCRPGeneration",
    ];
    for field in fields {
        differences.note(field, &expected[field], &found[field]);
    }
    differences.note("bindings", &as_set(&expected["bindings"]), &as_set(&found["bindings"]));
    let ([selected, left_out], [found_selected, found_left_out]) = (parted(expected), parted(found));
    differences.note("selected decisions", &as_set(&selected), &as_set(&found_selected));
    differences.note("other decisions", &left_out, &found_left_out);
    differences.0
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn note(&mut self, field: &str, expected: &Value, found: &Value) {
        if expected != found {
            self.0.push(format!("{field}: expected {expected}, found {found}"));
        }
    }
}

fn as_set(list: &Value) -> Value {
    let mut items = list.as_array().cloned().unwrap_or_default();
    items.sort_by_cached_key(Value::to_string);
    items.into()
}

/// Returns the decisions about clusters, partitioned into selected and not selected.
fn parted(outcome: &Value) -> [Value; 2] {
    let decisions = outcome["decisions"].as_array().cloned().unwrap_or_default();
    let (selected, left_out): (Vec<Value>, Vec<Value>) =
        decisions.into_iter().partition(|decision| decision["selected"] == true);
    [selected.into(), left_out.into()]
}
