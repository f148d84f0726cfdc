//! Recognizes writes of a binding that change only its trigger, or the result of a pass. A
//! rebalance writes each binding twice, and most bindings do not move, so the scheduler and workers
//! that count or evict can skip such writes.
//!
//! Nothing is parsed, so the comparison costs less than one `PartialBinding` of either version.
//! Where the texts differ, the key before that position identifies the field.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::memrchr;

use ballast_k8s::Object;

/// Fields of the spec that are added or removed with a trigger.
const FORCE: &[u8] = b"\"forceRescheduling\":";
const TRIGGERED_AT_FIELD: &[u8] = b"\"rescheduleTriggeredAt\":";
/// Fields of the status that every pass writes.
const SCHEDULED: &[u8] = b"\"lastScheduledTime\":";
const OBSERVED: &[u8] = b"\"schedulerObservedGeneration\":";

/// Length of a time in quotes.
const TIME_LEN: usize = "\"2006-01-02T15:04:05Z\"".len();
/// Number of bytes compared at a time.
const STRIDE: usize = 32;

/// Returns whether two versions of a binding differ only in their metadata, their trigger, and the
/// time and generation of the last pass. The scheduler and workers that count or evict treat such
/// versions as equal. Returns false if this cannot be determined from the texts.
pub fn differ_in_trigger(before: &Object, after: &Object) -> bool {
    // Keys are sorted, and quotes within strings are escaped. So the first match is the field
    // `spec`, or a label with that key before it. With the label, more text is compared, never
    // less.
    fn spec(content: &[u8]) -> Option<&[u8]> {
        static SPEC: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(",\"spec\":"));
        SPEC.find(content).map(|at| &content[at..])
    }
    let look = |before: &[u8], after: &[u8]| match (spec(before), spec(after)) {
        (Some(before), Some(after)) => are_alike(before, after),
        _ => false,
    };
    before.text.with_content(|before| after.text.with_content(|after| look(before, after)))
}

fn are_alike(mut one: &[u8], mut other: &[u8]) -> bool {
    loop {
        let at = alike_until(one, other);
        if at == one.len() && at == other.len() {
            return true;
        }
        // Each step must end after `at`. Otherwise it would be repeated forever.
        let Some((of_one, of_other)) = step_over(one, other, at).filter(|(one, other)| *one.max(other) > at) else {
            return false;
        };
        (one, other) = (&one[of_one..], &other[of_other..]);
    }
}

/// Returns the length of the common prefix of both texts, in bytes.
fn alike_until(one: &[u8], other: &[u8]) -> usize {
    let strides = one.chunks_exact(STRIDE).zip(other.chunks_exact(STRIDE));
    let begin = STRIDE * strides.take_while(|(one, other)| one == other).count();
    begin + one[begin..].iter().zip(&other[begin..]).take_while(|(one, other)| one == other).count()
}

/// Returns where each text continues after the field in which they differ at `at`, if that field is
/// ignored.
fn step_over(one: &[u8], other: &[u8], at: usize) -> Option<(usize, usize)> {
    // The text before `at` is equal in both.
    let quote = memrchr(b'"', &one[..at])?;
    let before = &one[..quote];
    if before.ends_with(TRIGGERED_AT_FIELD) || before.ends_with(SCHEDULED) {
        return (is_time(&one[quote..]) && is_time(&other[quote..])).then_some((quote + TIME_LEN, quote + TIME_LEN));
    }
    let name = &one[..(quote + 2).min(at)];
    if name.ends_with(OBSERVED) {
        let end = |text: &[u8]| name.len() + text[name.len()..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        return Some((end(one), end(other)));
    }
    if name.ends_with(FORCE) {
        return Some((name.len() + switch(&one[name.len()..])?, name.len() + switch(&other[name.len()..])?));
    }
    // The field may be present in only one of the texts. Another field must follow it.
    let member = |text: &[u8]| {
        let text = &text[quote..];
        let value = match () {
            () if text.starts_with(FORCE) => FORCE.len() + switch(&text[FORCE.len()..])?,
            () if text.starts_with(TRIGGERED_AT_FIELD) && is_time(&text[TRIGGERED_AT_FIELD.len()..]) => {
                TRIGGERED_AT_FIELD.len() + TIME_LEN
            }
            () => return None,
        };
        (text.get(value) == Some(&b',')).then_some(quote + value + 1)
    };
    match (member(one), member(other)) {
        (Some(end), None) => Some((end, quote)),
        (None, Some(end)) => Some((quote, end)),
        (Some(of_one), Some(of_other)) => Some((of_one, of_other)),
        (None, None) => None,
    }
}

/// Returns the length of the boolean at the start of a text.
fn switch(text: &[u8]) -> Option<usize> {
    [&b"true"[..], b"false"].into_iter().find(|word| text.starts_with(word)).map(<[u8]>::len)
}

/// Returns whether the text starts with a time in quotes. No label has this form.
fn is_time(text: &[u8]) -> bool {
    let form = b"\"0000-00-00T00:00:00Z\"";
    let fits = |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
    text.get(..TIME_LEN).is_some_and(|time| time.iter().zip(form).all(fits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use ballast_k8s::{GroupResource, Key, Revision};

    fn object(value: &Value) -> Object {
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        Object::decode(key, Revision(1), value.to_string().into_bytes().into()).unwrap()
    }

    fn differ(before: &Value, after: &Value) -> bool {
        differ_in_trigger(&object(before), &object(after))
    }

    /// Returns a binding with some of the ignored fields, and other fields that are compared.
    fn binding(trigger: &[Option<u8>; 4], rest: u8) -> Value {
        let times = ["2026-11-23T12:00:00Z", "2026-11-23T12:00:09Z", "2025-01-01T00:00:00Z"];
        let [force, timestamp, scheduled, observed] = trigger.map(|given| given.map(usize::from));
        let note = ",\"spec\":\"rescheduleTriggeredAt\":\"";
        let mut binding = json!({
            "metadata": {"annotations": {"note": note}, "labels": {"app": format!("{timestamp:?}")}},
            "spec": {"clusters": [{"name": "m1", "replicas": rest}], "resource": {"name": "web"}},
            "status": {"conditions": [{"type": "Scheduled"}], "schedulerObservingAffinityName": "near"},
        });
        let mut set = |part: &str, name: &str, value: Option<Value>| {
            value.into_iter().for_each(|value| binding[part][name] = value);
        };
        set("spec", "forceRescheduling", force.map(|force| (force % 2 == 0).into()));
        set("spec", "rescheduleTriggeredAt", timestamp.map(|timestamp| times[timestamp % 3].into()));
        set("status", "lastScheduledTime", scheduled.map(|time| times[time % 3].into()));
        set("status", "schedulerObservedGeneration", observed.map(|number| (7 * number).into()));
        binding
    }

    #[test]
    fn a_trigger_and_a_pass_that_moved_nothing_make_no_difference() {
        let before = binding(&[None, None, Some(0), Some(1)], 1);
        let marked = binding(&[Some(0), Some(1), Some(0), Some(1)], 1);
        let answered = binding(&[None, Some(1), Some(1), Some(2)], 1);
        for (one, other) in [(&before, &marked), (&marked, &answered), (&before, &answered), (&before, &before)] {
            assert!(differ(one, other) && differ(other, one));
        }
        assert!(!differ(&marked, &binding(&[None, Some(1), Some(1), Some(2)], 2)), "replicas");
        let bare = json!({"metadata": {}});
        assert!(!differ(&bare, &bare), "nothing is known without a spec");
    }

    #[test]
    fn the_same_words_elsewhere_count() {
        let labels = |value: &str| json!({"spec": {"placement": {"matchLabels": {"rescheduleTriggeredAt": value}}}});
        let mut known = labels("a");
        known["metadata"] = json!({});
        let mut other = labels("b");
        other["metadata"] = json!({});
        assert!(!differ(&known, &other));
        for value in [json!("true"), json!(null), json!({"a": 1}), json!(1)] {
            let with = |value: &Value| json!({"metadata": {}, "spec": {"forceRescheduling": value, "resource": {}}});
            assert!(!differ(&with(&value), &json!({"metadata": {}, "spec": {"resource": {}}})), "{value}");
        }
        // The last field of an object is not recognized, because no comma follows it.
        let last = json!({"metadata": {}, "spec": {"a": 1, "rescheduleTriggeredAt": "2026-11-23T12:00:00Z"}});
        assert!(!differ(&last, &json!({"metadata": {}, "spec": {"a": 1}})));
    }

    proptest! {
        /// The result is true exactly if the compared fields are equal and both versions have the
        /// same fields of the last pass.
        #[test]
        fn it_agrees_with_the_trees(
            one in prop::array::uniform4(prop::option::of(0_u8..4)),
            other in prop::array::uniform4(prop::option::of(0_u8..4)),
            rest in (0_u8..3, 0_u8..3),
        ) {
            let (before, after) = (binding(&one, rest.0), binding(&other, rest.1));
            let told = differ(&before, &after);
            prop_assert_eq!(told, differ(&after, &before));
            prop_assert!(!told || rest.0 == rest.1);
            let is_comparable = |place: usize| one[place].is_some() == other[place].is_some();
            prop_assert_eq!(told, rest.0 == rest.1 && is_comparable(2) && is_comparable(3));
        }
    }
}
