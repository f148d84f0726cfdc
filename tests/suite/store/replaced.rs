//! The rule of the conformance suite about the states that a part of the log has replaced.

use std::sync::Arc;

use ballast::k8s::{Key, Revision};
use ballast::store::{Error, Span, Store};

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
