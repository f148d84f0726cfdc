//! The rules of the conformance suite about lost histories.

use std::sync::Arc;
use std::time::Duration;

use ballast::k8s::Revision;
use ballast::store::{Candidate, Error, ReplicaReport, Store, Term};

use super::conformance::{Rows, anna, bert};
use super::fixtures::binding;

const LEASE: Duration = Duration::from_secs(60);

pub async fn re10_the_end_of_the_log_is_told_with_its_row_and_its_lift(store: Arc<dyn Store>) {
    let empty = store.tip(Revision(1)).await.unwrap();
    assert_eq!((empty.bounds.last, empty.own, empty.lift), (Revision::ZERO, None, 0));
    let rows = Rows::default().create(&binding("web")).update(&binding("web"), 1, 1).rows;
    store.commit(Term::default(), &rows).await.unwrap();
    for row in &rows {
        let tip = store.tip(row.revision).await.unwrap();
        assert_eq!((tip.bounds.last, tip.own.as_ref(), tip.marked), (Revision(2), Some(row), Revision::ZERO));
    }
    let mut lifts = Vec::new();
    for to in [Revision(1000), Revision(2000)] {
        store.bump_revision(Term::default(), to).await.unwrap();
        let tip = store.tip(to).await.unwrap();
        assert_eq!((tip.bounds.last, tip.bounds.compacted, tip.own), (to, to, None));
        lifts.push(tip.lift);
    }
    assert!(lifts[0] != 0 && lifts[1] != 0 && lifts[0] != lifts[1], "{lifts:?}");
}

pub async fn re11_a_lost_history_is_marked_until_the_log_is_lifted_beyond_it(store: Arc<dyn Store>) {
    let term = store.lead(&anna(), LEASE).await.unwrap().term;
    store.commit(term, &Rows::default().create(&binding("web")).rows).await.unwrap();
    assert_eq!(store.losses().await.unwrap().marked, Revision::ZERO);

    // The mark ends the term, so nothing is numbered before the lift.
    store.mark_lost(Term::default(), Revision(40)).await.unwrap();
    let refused = store.commit(term, &Rows::after(1).create(&binding("api")).rows).await.unwrap_err();
    assert!(matches!(refused, Error::Deposed { .. }), "{refused:?}");
    let next = store.lead(&bert(), LEASE).await.unwrap();
    assert!(next.is_held_by(&bert()) && next.term > term, "{next:?}");

    // A later mark raises it, an earlier one does not lower it, and both leave the new term alone.
    for (seen, expected) in [(30, 40), (50, 50), (40, 50)] {
        store.mark_lost(Term::default(), Revision(seen)).await.unwrap();
        assert_eq!(store.losses().await.unwrap().marked, Revision(expected));
        assert_eq!(store.tip(Revision(1)).await.unwrap().marked, Revision(expected));
    }
    let losses = store.losses().await.unwrap();
    let to = losses.lift_to(losses.lift_beyond(Revision::ZERO).unwrap()).unwrap();
    assert!(to > Revision(50));
    store.bump_revision(next.term, to).await.unwrap();
    assert_eq!(store.losses().await.unwrap().lift_beyond(Revision::ZERO), None);
    store.commit(next.term, &Rows::after(to.0).create(&binding("api")).rows).await.unwrap();

    // Revisions that were lifted over need no further mark. Later ones are lifted again.
    store.mark_lost(Term::default(), Revision(60)).await.unwrap();
    assert_eq!(store.losses().await.unwrap().marked, Revision::ZERO);
    store.mark_lost(next.term, Revision(to.0 + 7)).await.unwrap();
    let losses = store.losses().await.unwrap();
    assert_eq!(losses.lift_beyond(Revision::ZERO), Some(Revision(to.0 + 7)));
    assert_eq!(store.lead(&bert(), LEASE).await.unwrap().term, next.term, "who marks in its term keeps it");
}

pub async fn re11_what_a_replica_has_seen_is_known_to_the_next_leader(store: Arc<dyn Store>) {
    let report = |replica: Candidate, seen: i64| ReplicaReport {
        replica,
        version: "0.1.0".into(),
        seen: Revision(seen),
        missing: 0,
        lag: Duration::ZERO,
    };
    store.commit(Term::default(), &Rows::default().create(&binding("web")).rows).await.unwrap();
    store.announce(&report(anna(), 1)).await.unwrap();
    store.announce(&report(bert(), 1)).await.unwrap();
    assert_eq!(store.losses().await.unwrap().lift_beyond(Revision::ZERO), None);
    // More than exists: the log has lost it.
    store.announce(&report(bert(), 7)).await.unwrap();
    let losses = store.losses().await.unwrap();
    assert_eq!(
        (losses.last, losses.seen, losses.lift_beyond(Revision::ZERO)),
        (Revision(1), Revision(7), Some(Revision(7)))
    );
    assert_eq!((losses.is_promoted, losses.awaited), (false, 0));
    // After a mark, every replica reports again.
    store.mark_lost(Term::default(), Revision(9)).await.unwrap();
    assert_eq!(store.losses().await.unwrap().awaited, 2);
    store.announce(&report(anna(), 1)).await.unwrap();
    assert_eq!(store.losses().await.unwrap().awaited, 1);
    store.depart("bert").await.unwrap();
    assert_eq!(store.losses().await.unwrap().awaited, 0);
}
