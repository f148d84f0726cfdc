//! The engine handles any input: recorded cases, with random parts replaced by nonsense.

use ballast::cli::simulate::{Case, Input, Options, Output, answer, inputs, read};
use ballast::engine::karmada::{Rules, check, decide};
use serde_json::{Value, json};

use crate::support::vectors::{group, groups};

/// A fixed random sequence.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

fn wild(chance: &mut Chance) -> Value {
    let values = [
        json!(null),
        json!(0),
        json!(-1),
        json!(i32::MAX),
        json!(i32::MIN),
        json!(i64::MAX),
        json!(1.5),
        json!(true),
        json!(""),
        json!("-"),
        json!("1e999"),
        json!("-5"),
        json!("9223372036854775807Ei"),
        json!("m1"),
        json!("cluster"),
        json!("NotIn"),
        json!("é ∞\u{0}"),
        json!("x".repeat(300)),
        json!([]),
        json!([null, 7, "a"]),
        json!({}),
        json!({"a": {"b": []}}),
    ];
    values[chance.below(values.len())].clone()
}

/// Replaces, removes or duplicates a random part of the value.
fn mutate(value: &mut Value, chance: &mut Chance) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let name = fields.keys().nth(chance.below(fields.len())).cloned().unwrap_or_default();
            match chance.below(12) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(name, wild(chance))),
                _ => mutate(&mut fields[&name], chance),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = chance.below(items.len());
            match chance.below(12) {
                0 => drop(items.remove(index)),
                1 => items.push(items[index].clone()),
                2 => items[index] = wild(chance),
                _ => mutate(&mut items[index], chance),
            }
        }
        // Mostly by a value of the same type, because other values are rejected early.
        Value::Number(_) if chance.below(4) > 0 => {
            let numbers = [0, 1, -1, 7, i64::from(i32::MAX), i64::from(i32::MIN)];
            *value = json!(numbers[chance.below(numbers.len())]);
        }
        Value::String(_) if chance.below(4) > 0 => {
            let texts = ["", "-", "1e999", "-5", "9223372036854775807Ei", "m1", "NotIn", "Exists", "é ∞", "0.1n"];
            *value = json!(texts[chance.below(texts.len())]);
        }
        other => *other = wild(chance),
    }
}

#[test]
fn no_input_makes_the_engine_panic_or_break_its_rules() {
    let mut chance = Chance(42);
    let mut answered = 0;
    for name in groups() {
        for line in group(&name).lines().step_by(9) {
            let Input::Karmada(recorded) = inputs(line).next().unwrap().unwrap() else { panic!("{line}") };
            for _ in 0..6 {
                let mut case = recorded.clone();
                for _ in 0..=chance.below(4) {
                    let spec = &mut case.binding["spec"];
                    mutate(spec, &mut chance);
                }
                let cluster = chance.below(case.clusters.len());
                if let Some(cluster) = case.clusters.get_mut(cluster) {
                    mutate(cluster, &mut chance);
                }
                answered += usize::from(try_both(&case));
            }
        }
    }
    assert!(answered > 500, "only {answered} cases were still readable");
}

fn try_both(case: &Case) -> bool {
    let mut readable = false;
    for rules in [Rules::Karmada, Rules::Default] {
        let options =
            Options { rules, output: Output::Json, trace: true, check: false, patches: Vec::new(), files: Vec::new() };
        readable |= answer(case, &options).is_ok();
        if let Ok((fleet, workloads, binding)) = read(case) {
            let (request, profile) = (binding.request(), options.profile(&case.gates));
            let decision = decide(&fleet, &workloads, &request, &profile);
            let faults = check(&fleet, &workloads, &request, &profile, &decision);
            assert!(faults.is_empty(), "{}: {faults:?}\n{}", case.id, case.binding);
        }
    }
    readable
}
