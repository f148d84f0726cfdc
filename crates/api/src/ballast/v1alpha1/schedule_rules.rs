//! Rules for schedules that a schema cannot express.

use super::rebalance_rules;
use super::rebalance_schedule::{RebalanceSchedule, RebalanceScheduleSpec, RebalanceTemplate};
use super::select_rules::Reach;
use crate::label_rules;
use ballast_k8s::cron::{Cron, Zone};
use ballast_k8s::{FieldErrors, FieldPath, names};

/// Maximum length of a schedule's name. As for a CronJob, 11 characters are appended to it, and the
/// result is used as a label value.
const NAME_BYTES_MAX: usize = 52;

pub(super) fn check(schedule: &RebalanceSchedule) -> FieldErrors {
    let mut errors = FieldErrors::default();
    check_name(schedule.metadata.name.as_deref().unwrap_or_default(), &mut errors);
    let path = FieldPath::new("spec");
    check_times(&schedule.spec, &path, &mut errors);
    check_template(&schedule.spec.template, &path.child("template"), &mut errors);
    errors
}

/// Checks the length of the name and that it has no dot. The registry checks its form.
fn check_name(name: &str, errors: &mut FieldErrors) {
    let path = FieldPath::new("metadata.name");
    if name.len() > NAME_BYTES_MAX {
        errors.invalid(&path, name, format!("must be no more than {NAME_BYTES_MAX} characters"));
    } else if name.contains('.') {
        errors.invalid(&path, name, "must not contain a dot: the names of ClusterRebalances have none");
    }
}

fn check_times(spec: &RebalanceScheduleSpec, path: &FieldPath, errors: &mut FieldErrors) {
    match (&spec.schedule, &spec.on) {
        (None, None) => errors.required(&path.child("schedule"), "give a schedule, or an event in on"),
        (Some(_), Some(_)) => errors.forbidden(&path.child("on"), "exactly one of schedule and on can be given"),
        _ => {}
    }
    if let Some(line) = &spec.schedule {
        let path = path.child("schedule");
        match Cron::parse(line) {
            Err(error) => errors.invalid(&path, line, error),
            Ok(cron) if cron.is_never_due() => {
                errors.invalid(&path, line, "never comes: no month that it names has such a day");
            }
            Ok(_) => {}
        }
    }
    if let Some(zone) = &spec.time_zone {
        let path = path.child("timeZone");
        if spec.schedule.is_none() {
            errors.forbidden(&path, "belongs to schedule");
        } else if Zone::find(zone).is_none() {
            errors.invalid(&path, zone, "unknown time zone; names are those of the tz database, such as Europe/Berlin");
        }
    }
    if let Some(on) = &spec.on {
        let path = path.child("on").child("clusterRecovered");
        match &on.cluster_recovered {
            None => errors.required(&path, ""),
            Some(event) => label_rules::check_selector(&event.cluster_selector, &path.child("clusterSelector"), errors),
        }
    }
}

fn check_template(template: &RebalanceTemplate, path: &FieldPath, errors: &mut FieldErrors) {
    let metadata = path.child("metadata");
    label_rules::check_labels(&template.metadata.labels, &metadata.child("labels"), errors);
    for key in template.metadata.annotations.keys() {
        for fault in names::qualified_name_faults(key) {
            errors.invalid(&metadata.child("annotations"), key, fault);
        }
    }
    let path = path.child("spec");
    rebalance_rules::check_spec(&template.spec, Reach::All, &path, errors);
    if template.spec.expect_plan.is_some() {
        errors.forbidden(&path.child("expectPlan"), "a schedule plans anew each time");
    }
    if template.spec.abort {
        errors.invalid(&path.child("abort"), true, "ClusterRebalances of this template would be aborted at once");
    }
}
