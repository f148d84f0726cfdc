//! Rules for gates that a schema cannot express. Addresses are checked against
//! `--gate-address-allow` separately, where the flag is known.

use std::collections::BTreeSet;

use super::gates::{Gate, Holds};
use ballast_k8s::{FieldErrors, FieldPath, duration, names};

pub(super) fn check(gates: &[Gate], path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let path = path.index(index);
        for fault in names::dns_label_faults(&gate.name) {
            errors.invalid(&path.child("name"), &gate.name, fault);
        }
        if !seen.insert(&gate.name) {
            errors.duplicate(&path.child("name"), &gate.name);
        }
        match (&gate.prometheus, &gate.webhook) {
            (None, None) => errors.required(&path.child("prometheus"), "say whom to ask: prometheus or webhook"),
            (Some(_), Some(_)) => {
                errors.forbidden(&path.child("webhook"), "exactly one of prometheus and webhook can be given");
            }
            _ => {}
        }
        if let Some(prometheus) = &gate.prometheus
            && let Err(fault) = prometheus.holds.parse::<Holds>()
        {
            errors.invalid(&path.child("prometheus").child("holds"), &prometheus.holds, fault);
        }
        check_hold(gate, &path.child("for"), errors);
    }
}

fn check_hold(gate: &Gate, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(text) = &gate.holds_for else { return };
    match duration::parse(text) {
        None => errors.invalid(path, text, "write a duration such as 60s or 1m30s"),
        Some(hold) if hold.as_secs() >= gate.timeout_seconds.unsigned_abs() => {
            let detail = format!("must be shorter than timeoutSeconds, which is {}", gate.timeout_seconds);
            errors.invalid(path, text, detail);
        }
        Some(_) => {}
    }
}
