//! Similar records of managers: they have the same interned entries, and times in the same order.
//! The bindings of a fleet were written by the same few managers in the same way, so the result of
//! a write to one of them applies to all.
//!
//! *Invariant:* the same change turns similar records into similar records. A change compares times
//! and sets new ones to `now`; it does not use times otherwise.

use std::collections::HashMap;

use internment::ArcIntern;

use super::text::{Entry, Managers, TIME_LEN};
use super::time::Time;

/// A time as Ballast writes it.
type Written = [u8; TIME_LEN];

/// The common part of similar records, together with the time of a write: records are similar if
/// their shapes are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordShape {
    interned: Box<[ArcIntern<str>]>,
    /// For each entry, and for the write, the number of earlier times.
    order: Box<[usize]>,
}

/// A change of a record, in a form that can be applied to all similar records.
#[derive(Clone, Debug)]
pub struct ShapePatch(Option<Box<[PatchedEntry]>>);

/// The interned part of an entry, and the source of its time.
type PatchedEntry = (ArcIntern<str>, Source);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Entry(usize),
    Now,
}

impl RecordShape {
    /// Returns the shape of a record. `None` if a time does not have the format that Ballast
    /// writes, so its order is unknown.
    pub fn of(managers: &Managers, now: Time) -> Option<RecordShape> {
        let mut times = managers.entries().iter().map(|entry| entry.time).collect::<Option<Vec<Written>>>()?;
        times.push(text(now)?);
        // Texts of this format have the order of the times.
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let order = times.iter().map(|time| sorted.partition_point(|other| other < time));
        let interned = managers.entries().iter().map(|entry| entry.interned.clone()).collect();
        Some(RecordShape { interned, order: order.collect() })
    }
}

impl ShapePatch {
    /// Returns the change from `before` to `after`, which was made at `now`. `None` if `after` has
    /// a time that is neither in `before` nor `now`.
    pub fn between(before: &Managers, after: Option<&Managers>, now: Time) -> Option<ShapePatch> {
        let Some(after) = after else { return Some(ShapePatch(None)) };
        let now = text(now)?;
        let mut known: HashMap<Written, usize> = HashMap::new();
        for (place, time) in before.entries().iter().enumerate().filter_map(|(place, entry)| Some((place, entry.time?)))
        {
            known.entry(time).or_insert(place);
        }
        let source = |entry: &Entry| {
            let time = entry.time?;
            let known = known.get(&time).copied().map(Source::Entry);
            Some((entry.interned.clone(), known.or((time == now).then_some(Source::Now))?))
        };
        Some(ShapePatch(Some(after.entries().iter().map(source).collect::<Option<_>>()?)))
    }

    /// Applies the same change to a similar record. The inner `None` means that no manager is left.
    /// The outer `None` means that the records are not similar.
    pub fn of(&self, before: &Managers, now: Time) -> Option<Option<Managers>> {
        let Some(entries) = &self.0 else { return Some(None) };
        let now = text(now)?;
        let entry = |(interned, from): &PatchedEntry| {
            let time = match from {
                Source::Entry(number) => before.entries().get(*number)?.time?,
                Source::Now => now,
            };
            Some(Entry { interned: interned.clone(), time: Some(time) })
        };
        Some(Some(entries.iter().map(entry).collect::<Option<_>>()?))
    }
}

fn text(time: Time) -> Option<Written> {
    time.to_string().as_bytes().try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(entries: &[(&str, &str)]) -> Managers {
        let entry = |(manager, time): &(&str, &str)| json!({"manager": manager, "operation": "Update", "time": time});
        Managers::of(&entries.iter().map(entry).collect::<Vec<_>>())
    }

    fn at(time: &str) -> Time {
        time.parse().unwrap()
    }

    const MORNING: &str = "2026-11-23T08:00:00Z";
    const NOON: &str = "2026-11-23T12:00:00Z";
    const EVENING: &str = "2026-11-23T20:00:00Z";

    #[test]
    fn records_are_alike_whose_words_are_the_same_and_whose_times_are_in_the_same_order() {
        let shape = |entries: &[(&str, &str)], now| RecordShape::of(&record(entries), at(now)).unwrap();
        let one = shape(&[("a", MORNING), ("b", NOON)], EVENING);
        assert_eq!(one, shape(&[("a", "2001-01-01T00:00:00Z"), ("b", MORNING)], NOON));
        for other in [
            shape(&[("a", NOON), ("b", MORNING)], EVENING),
            shape(&[("a", NOON), ("b", NOON)], EVENING),
            shape(&[("a", MORNING), ("b", NOON)], NOON),
            shape(&[("a", MORNING), ("c", NOON)], EVENING),
            shape(&[("a", MORNING)], EVENING),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_change_is_made_of_another_record_with_its_own_times() {
        let (before, after) = (record(&[("a", MORNING), ("b", NOON)]), record(&[("a", MORNING), ("B", EVENING)]));
        let patch = ShapePatch::between(&before, Some(&after), at(EVENING)).unwrap();
        let other = record(&[("a", "2001-01-01T00:00:00Z"), ("b", MORNING)]);
        let made = patch.of(&other, at(NOON)).unwrap();
        assert_eq!(made, Some(record(&[("a", "2001-01-01T00:00:00Z"), ("B", NOON)])));
        assert_eq!(ShapePatch::between(&before, None, at(EVENING)).unwrap().of(&other, at(NOON)), Some(None));
    }

    #[test]
    fn what_has_a_time_of_its_own_is_not_remade() {
        let (before, after) = (record(&[("a", MORNING)]), record(&[("a", NOON)]));
        assert!(ShapePatch::between(&before, Some(&after), at(EVENING)).is_none());
        let timeless = Managers::of(&[json!({"manager": "a"})]);
        assert!(RecordShape::of(&timeless, at(NOON)).is_none());
        assert!(ShapePatch::between(&before, Some(&timeless), at(NOON)).is_none());
        let precise = Managers::of(&[Value::from(r#"{"time":"2026-11-23T12:00:00.5Z"}"#)]);
        assert!(RecordShape::of(&precise, at(NOON)).is_none());
    }
}
