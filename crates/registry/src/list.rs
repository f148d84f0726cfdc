//! Get and list: chooses the state to read, selects objects, and paginates them (RV1-RV9, RV16,
//! CH1-CH10).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::core::{Core, Registry};
use super::locator::Locator;
use super::{commit, newest};
use ballast_base::telemetry;
use ballast_k8s::{
    Cause, ContinueToken, Details, GetOptions, ListOptions, Object, Remaining, Revision, RevisionMatch, Status,
};
use ballast_resource::Lifetime;
use ballast_watch::{PastError, Stale, View};

/// How long a read waits for a revision that does not exist yet (RV3).
const REVISION_WAIT: Duration = Duration::from_secs(3);

/// One page of a list, or the whole list.
#[derive(Clone, Debug)]
pub struct List {
    /// The revision of the state that contains the items (RV16).
    pub revision: Revision,
    pub items: Vec<Arc<Object>>,
    /// The token of the next page. `None` if this is the last page.
    pub continue_token: Option<String>,
    /// The number of objects after this page. `None` on the last page, and if a selector would have
    /// to check each object (CH2).
    pub remaining: Option<usize>,
}

impl Registry {
    pub async fn get(&self, target: &Locator, options: &GetOptions) -> Result<Arc<Object>, Status> {
        if target.row.lifetime == Lifetime::Action {
            // Objects of this kind are never stored. kubectl apply gets the object, and then
            // creates it (C1).
            let name = target.name.as_deref().unwrap_or_default();
            return Err(Status::not_found(target.row.resource, name));
        }
        target.allow("get")?;
        let key = target.key()?;
        await_state(&self.core, options.revision).await?;
        let view = self.core.cache.view();
        view.get(&key).cloned().ok_or_else(|| Status::not_found(key.resource, &key.name))
    }

    /// Returns the size in bytes of the object that the target names; zero if it does not exist.
    pub fn stored_bytes(&self, target: &Locator) -> usize {
        let Ok(key) = target.key() else { return 0 };
        self.core.cache.view().get(&key).map_or(0, |object| object.text.len())
    }

    pub async fn list(&self, target: &Locator, options: &ListOptions) -> Result<List, Status> {
        target.allow("list")?;
        self.list_collection(target, options).await
    }

    pub(super) async fn list_collection(&self, target: &Locator, options: &ListOptions) -> Result<List, Status> {
        check_selectors(target, options)?;
        let namespaced = target.row.is_namespaced();
        let token = options.continue_token.as_deref().map(|token| ContinueToken::decode(token, namespaced));
        let token = token.transpose()?;
        let view = match &token {
            Some(token) => {
                // Another replica may have served the previous page, from a state that is not here
                // yet.
                if token.revision.is_none_or(|revision| revision > self.core.cache.view().revision) {
                    await_state(&self.core, None).await?;
                }
                self.view_of(token)?
            }
            None => self.view_for(target, options).await?,
        };
        Ok(page(&view, target, options, token.as_ref()))
    }

    fn view_of(&self, token: &ContinueToken) -> Result<Arc<View>, Status> {
        let Some(revision) = token.revision else { return Ok(self.core.cache.view()) };
        if revision > self.core.cache.view().revision {
            return Err(Status::bad_request(
                "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion",
            ));
        }
        self.core.cache.view_at(revision).map_err(|_| {
            // The rest can still be listed, but in its newest state (CH5).
            let rest = ContinueToken { revision: None, remaining: None, ..token.clone() };
            Status::expired(TOKEN_EXPIRED).with_continue(rest.encode())
        })
    }

    /// Implements the matrix of `resourceVersion`, `resourceVersionMatch` and `limit` (RV4-RV9).
    async fn view_for(&self, target: &Locator, options: &ListOptions) -> Result<Arc<View>, Status> {
        await_state(&self.core, options.revision).await?;
        let Some(revision) = options.revision.filter(|&revision| revision > Revision::ZERO) else {
            return Ok(self.core.cache.view());
        };
        let is_exact = match options.revision_match {
            Some(wanted) => wanted == RevisionMatch::Exact,
            None => options.limit.is_some(),
        };
        if !is_exact {
            return Ok(self.core.cache.view());
        }
        match self.core.cache.view_at(revision) {
            Ok(view) => Ok(view),
            // All pages of a list are cut from one view, and the next page could not find this one.
            Err(_) if options.limit.is_some() => Err(Status::expired(LIST_EXPIRED)),
            Err(_) => self.logged_view(target, revision).await,
        }
    }

    /// Reads a state that is older than the window from the log, unless it is compacted (RV9).
    async fn logged_view(&self, target: &Locator, revision: Revision) -> Result<Arc<View>, Status> {
        static SLOTS: Semaphore = Semaphore::const_new(PAST_LISTS_MAX);
        let _slot = SLOTS.acquire().await.map_err(Status::internal)?;
        self.core.cache.past(&[target.row.resource], revision).await.map_err(|why| match why {
            PastError::Expired(_) | PastError::TooMuch { .. } => Status::expired(LIST_EXPIRED),
            PastError::Unreadable(error) => {
                tracing::error!(error = telemetry::with_causes(&error), "a list cannot read the past");
                Status::unavailable("the past cannot be read now").already_logged()
            }
        })
    }
}

/// The limit of concurrent lists of old states. Further ones wait.
const PAST_LISTS_MAX: usize = 2;

const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";

const TOKEN_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can \
     start a new list without the continue parameter, or use the continue token in this response to retrieve the \
     remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
     created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Rejects selectors that the kind does not support. Only namespaced kinds have a namespace to
/// select by, and only the fields that the row names can be selected.
pub(super) fn check_selectors(target: &Locator, options: &ListOptions) -> Result<(), Status> {
    if let Some(refusal) = options.fields.unsupported(target.row.selectable_fields) {
        return Err(Status::bad_request(refusal));
    }
    if options.fields.mentions_namespace() && !target.row.is_namespaced() {
        return Err(Status::bad_request("field label not supported: metadata.namespace"));
    }
    match (&target.namespace, target.row.is_namespaced()) {
        (Some(_), false) => Err(Status::not_found(target.row.resource, "")),
        _ => Ok(()),
    }
}

/// Waits until the view is recent enough for a read: the newest state without a revision, at least
/// the given revision, and any state for zero.
pub(super) async fn await_state(core: &Core, revision: Option<Revision>) -> Result<(), Status> {
    match revision {
        None => newest::view(core).await.map(drop),
        Some(Revision::ZERO) if core.cache.is_outdated() => Err(commit::try_again(Stale::Unreachable)),
        Some(Revision::ZERO) => Ok(()),
        // A partitioned replica cannot know which revisions were compacted or rolled back.
        Some(_) if core.cache.is_cut_off() => Err(commit::try_again(Stale::Unreachable)),
        Some(revision) => await_revision(core, revision).await,
    }
}

/// Waits a short time for a revision that the caller may have seen at another replica (RV3).
pub(super) async fn await_revision(core: &Core, revision: Revision) -> Result<(), Status> {
    let current = core.cache.view().revision;
    if current >= revision || tokio::time::timeout(REVISION_WAIT, core.cache.reached(revision)).await.is_ok() {
        return Ok(());
    }
    let message = format!("Too large resource version: {revision}, current: {current}");
    let status = Status::timeout(&message, 1);
    let cause = Cause {
        reason: Status::RESOURCE_VERSION_TOO_LARGE.to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    };
    Err(status.with(Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() }))
}

/// Returns the objects that the options select, in key order.
pub(super) fn selected<'a>(
    view: &'a View,
    target: &'a Locator,
    options: &'a ListOptions,
    after: Option<&ContinueToken>,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let resource = target.row.resource;
    // A field selector can narrow the walk to one namespace. It is still checked for each object.
    let namespace = target.namespace.as_deref().or_else(|| options.fields.namespace());
    let start = after.map_or(("", ""), |token| (token.namespace.as_str(), token.name.as_str()));
    view.list_after(resource, namespace, start)
        .filter(move |object| options.labels.matches(&*object.labels) && options.fields.matches(object))
}

fn page(view: &View, target: &Locator, options: &ListOptions, after: Option<&ContinueToken>) -> List {
    let rest = selected(view, target, options, after);
    let is_all = options.labels.is_empty() && options.fields.is_empty();
    let collection = Collection { of: collection_of(target), size: || size(view, target), is_all };
    page_of(rest, view.revision, options.limit, after, &collection)
}

/// The collection that a page is cut from.
struct Collection<F> {
    /// Its name. A token carries it, so that its count is used for no other collection.
    of: String,
    /// The number of its objects, if known without a walk.
    size: F,
    /// Whether all objects are selected.
    is_all: bool,
}

fn collection_of(target: &Locator) -> String {
    format!("{}/{}", target.row.resource, target.namespace.as_deref().unwrap_or_default())
}

fn size(view: &View, target: &Locator) -> Option<usize> {
    target.namespace.is_none().then(|| view.count(target.row.resource, None))
}

/// Returns the first `limit` objects of `rest`, which follows `after`. The rest is counted at most
/// once in a chain of pages: each token contains the number of objects that follow it (CH2).
fn page_of<'a>(
    mut rest: impl Iterator<Item = &'a Arc<Object>>,
    revision: Revision,
    limit: Option<usize>,
    after: Option<&ContinueToken>,
    collection: &Collection<impl Fn() -> Option<usize>>,
) -> List {
    let Some(limit) = limit else {
        let items = rest.cloned().collect();
        return List { revision, items, continue_token: None, remaining: None };
    };
    let items: Vec<Arc<Object>> = rest.by_ref().take(limit).cloned().collect();
    let is_more = rest.next().is_some();
    let Some(last) = items.last().filter(|_| is_more) else {
        return List { revision, items, continue_token: None, remaining: None };
    };
    let known = match after {
        None => (collection.size)(),
        Some(token) => {
            let counted = token.remaining.as_ref().filter(|remaining| remaining.of == collection.of);
            counted.map(|remaining| remaining.count)
        }
    };
    let remaining = collection.is_all.then(|| match known.and_then(|known| known.checked_sub(items.len())) {
        // At least one object follows. A token with another count was not issued by this server.
        Some(left) if left > 0 => left,
        _ => 1 + rest.count(),
    });
    let token = ContinueToken {
        revision: Some(revision),
        namespace: last.key.namespace.to_string(),
        name: last.key.name.to_string(),
        remaining: remaining.map(|count| Remaining { of: collection.of.clone(), count }),
    };
    List { revision, continue_token: Some(token.encode()), items, remaining }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use ballast_k8s::{GroupResource, Key};

    const PLANTS: GroupResource = GroupResource::new("plants.garden.example.com");

    fn plants(count: usize) -> Vec<Arc<Object>> {
        let plant = |number: usize| {
            let key = Key::namespaced(PLANTS, "home", format!("p{number:04}").as_str());
            let json = json!({"metadata": {"name": &*key.name, "namespace": "home"}});
            Arc::new(Object::decode(key, Revision(1), json.to_string().into()).unwrap())
        };
        (0..count).map(plant).collect()
    }

    /// Reads a collection page by page. Returns the remaining count of each page, and the number of
    /// objects visited for all of them.
    fn read_in_pages(plants: &[Arc<Object>], limit: usize, size: Option<usize>) -> (Vec<Option<usize>>, usize) {
        let visited = Cell::new(0);
        let collection = Collection { of: "plants/home".to_owned(), size: || size, is_all: true };
        let (mut seen, mut left, mut token) = (0, Vec::new(), None);
        loop {
            let rest = plants[seen..].iter().inspect(|_| visited.set(visited.get() + 1));
            let list = page_of(rest, Revision(1), Some(limit), token.as_ref(), &collection);
            seen += list.items.len();
            left.push(list.remaining);
            match list.continue_token {
                Some(text) => token = Some(ContinueToken::decode(&text, true).unwrap()),
                None => return (left, visited.get()),
            }
        }
    }

    #[test]
    fn ch2_a_chain_of_pages_counts_the_rest_once_at_most() {
        const COUNT: usize = 1_000;
        const LIMIT: usize = 10;
        let pages = COUNT / LIMIT;
        let plants = plants(COUNT);
        // A page visits its own objects and the next one.
        let needed = COUNT + pages - 1;
        for (size, visited_max) in [(Some(COUNT), needed), (None, needed + COUNT)] {
            let (left, visited) = read_in_pages(&plants, LIMIT, size);
            let counted_down = (1..pages).rev().map(|page| Some(page * LIMIT)).chain([None]);
            assert_eq!(left, counted_down.collect::<Vec<_>>());
            assert!(visited <= visited_max, "{visited} objects were looked at for {COUNT}");
        }
    }

    #[test]
    fn ch2_the_count_of_another_collection_is_not_taken_over() {
        let plants = plants(5);
        let token = ContinueToken {
            revision: Some(Revision(1)),
            namespace: "home".to_owned(),
            name: "a".to_owned(),
            remaining: Some(Remaining { of: "plants/away".to_owned(), count: 77 }),
        };
        let collection = Collection { of: "plants/home".to_owned(), size: || None, is_all: true };
        let list = page_of(plants.iter(), Revision(1), Some(2), Some(&token), &collection);
        assert_eq!(list.remaining, Some(3));
    }
}
