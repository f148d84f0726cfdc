//! The rules of the conformance suite about the past, and replaced states.

use std::sync::Arc;

use ballast::k8s::{Key, Revision};
use ballast::store::{Error, HistoryOf, Replacement, Span, Store};

use super::conformance::{Rows, commit, compact};
use super::fixtures::*;

pub async fn what_the_keys_of_a_kind_had_before_their_first_change_is_told(store: Arc<dyn Store>) {
    let (web, api, db) = (binding("web"), binding("api"), binding("db"));
    let member = Key::cluster(CLUSTERS, "member1");
    let rows = Rows::default()
        .create(&web)
        .create(&member)
        .create(&api)
        .update(&web, 1, 1)
        .update(&member, 2, 2)
        // From here on, each key changes more than once.
        .update(&web, 1, 4)
        .create(&db)
        .delete(&api, 3, 3)
        .update(&web, 1, 6)
        .create(&api)
        .delete(&db, 7, 7)
        .update(&member, 2, 5);
    let rows = commit(&store, rows).await;
    let replaced = async |span: (i64, i64), after: i64, limit: usize| {
        let span = Span { after: Revision(span.0), through: Revision(span.1) };
        let states = store.replaced(BINDINGS, span, Revision(after), limit).await?;
        let wanted: Vec<_> = states.iter().map(|state| rows[state.revision.0 as usize - 1].clone()).collect();
        assert_eq!(states, wanted);
        Ok::<Vec<i64>, Error>(states.iter().map(|state| state.revision.0).collect())
    };
    assert_eq!(replaced((5, 12), 0, 10).await.unwrap(), [3, 4], "each key once, and nothing of what is new");
    assert_eq!(replaced((5, 7), 0, 10).await.unwrap(), [4], "api is replaced later");
    assert_eq!(replaced((5, 12), 0, 1).await.unwrap(), [3]);
    assert_eq!(replaced((5, 12), 3, 1).await.unwrap(), [4]);
    assert_eq!(replaced((5, 12), 4, 1).await.unwrap(), [0; 0]);
    assert_eq!(replaced((0, 12), 0, 10).await.unwrap(), [0; 0]);
    assert_eq!(replaced((8, 12), 0, 10).await.unwrap(), [6, 7]);
    assert_eq!(replaced((12, 12), 0, 10).await.unwrap(), [0; 0]);
    assert_eq!(replaced((12, 5), 0, 10).await.unwrap(), [0; 0]);
    compact(&store, 5).await;
    assert_eq!(replaced((5, 12), 0, 10).await.unwrap(), [3, 4]);
    let error = replaced((4, 12), 0, 10).await.unwrap_err();
    assert!(matches!(error, Error::Compacted { asked: Revision(4), compacted: Revision(5) }));
}

pub async fn the_past_of_a_kind_is_told_with_what_it_replaced(store: Arc<dyn Store>) {
    let (web, member) = (binding("web"), Key::cluster(CLUSTERS, "member1"));
    let rows = Rows::default().create(&web).create(&member).update(&web, 1, 1).delete(&web, 1, 3).create(&web);
    let rows = commit(&store, rows).await;
    let told = |row: usize, before: Option<usize>| Replacement {
        change: rows[row - 1].clone(),
        before: before.map(|before| rows[before - 1].object.clone()),
    };
    let all = [told(1, None), told(3, Some(1)), told(4, Some(3)), told(5, None)];
    let history = async |of: HistoryOf, after: i64, through: i64, limit: usize| {
        store.history(&of, Span { after: Revision(after), through: Revision(through) }, limit).await
    };
    let past = async |after, through, limit| history(HistoryOf::Kind(BINDINGS), after, through, limit).await;
    assert_eq!(past(0, 5, 10).await.unwrap(), all);
    assert_eq!(past(0, 99, 10).await.unwrap(), all);
    assert_eq!(past(1, 4, 10).await.unwrap(), all[1..3]);
    assert_eq!(past(1, 5, 2).await.unwrap(), all[1..3]);
    assert_eq!(past(5, 5, 10).await.unwrap(), []);
    assert_eq!(past(7, 5, 10).await.unwrap(), []);
    assert_eq!(history(HistoryOf::Key(web), 0, 5, 3).await.unwrap(), all[..3]);
    assert_eq!(history(HistoryOf::Key(binding("api")), 0, 5, 3).await.unwrap(), []);
    compact(&store, 3).await;
    assert_eq!(past(3, 5, 10).await.unwrap(), all[2..], "what a remaining change replaced remains");
    assert!(matches!(past(2, 5, 10).await, Err(Error::Compacted { asked: Revision(2), compacted: Revision(3) })));
}

pub async fn the_past_of_a_key_is_what_the_past_of_its_kind_tells_of_it(store: Arc<dyn Store>) {
    let (web, api, gone) = (binding("web"), binding("api"), binding("gone"));
    let rows = Rows::default().create(&web).create(&api).update(&web, 1, 1).delete(&web, 1, 3).create(&gone);
    let rows = rows.create(&web).update(&api, 2, 2).update(&web, 6, 6).delete(&gone, 5, 5).update(&web, 6, 8);
    commit(&store, rows).await;
    let history = async |of: HistoryOf, after: i64, through: i64, limit: usize| {
        let span = Span { after: Revision(after), through: Revision(through) };
        store.history(&of, span, limit).await.unwrap()
    };
    for (after, through) in (0..10).flat_map(|after| (after..11).map(move |through| (after, through))) {
        let of_kind = history(HistoryOf::Kind(BINDINGS), after, through, 20).await;
        for key in [&web, &api, &gone, &binding("nobody")] {
            let expected: Vec<Replacement> = of_kind.iter().filter(|it| it.change.key == *key).cloned().collect();
            for limit in 1..7 {
                let found = history(HistoryOf::Key(key.clone()), after, through, limit).await;
                let expected = &expected[..limit.min(expected.len())];
                assert_eq!(found, expected, "{key:?} in ({after}, {through}], at most {limit}");
            }
        }
    }
}

pub async fn what_history_takes_is_told_for_each_change(store: Arc<dyn Store>) {
    let (web, api) = (binding("web"), binding("api"));
    let rows = Rows::default().create(&web).create(&api).update(&web, 1, 1).delete(&api, 2, 2).update(&web, 1, 3);
    let rows = commit(&store, rows).await;
    let told = store.replaced_bytes(Revision::ZERO, 10).await.unwrap();
    let revisions: Vec<i64> = told.iter().map(|(revision, _)| revision.0).collect();
    assert_eq!(revisions, [1, 2, 3, 4, 5]);
    assert_eq!((told[0].1, told[1].1), (0, 0), "what is new replaces nothing");
    // The back ends encode managers differently, so the sizes are only close to those of the texts.
    let size = |row: usize| rows[row - 1].object.len() as u64;
    for (at, all) in [(2, size(1)), (3, size(2) + size(4)), (4, size(3))] {
        assert!(told[at].1 > all / 4 && told[at].1 <= all, "{told:?}: {all}");
    }
    assert_eq!(store.replaced_bytes(Revision(2), 1).await.unwrap(), told[2..3]);
    compact(&store, 3).await;
    let left = store.replaced_bytes(Revision(3), 10).await.unwrap();
    assert_eq!(left, told[3..], "what the rest replaced is there");
    compact(&store, 5).await;
    assert_eq!(store.replaced_bytes(Revision(5), 10).await.unwrap(), []);
}
