//! Reads and writes the objects of a rebalance: the rebalance and its Moves, of both scopes.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use ballast_api::ballast::v1alpha1::{
    self as api, BindingRef, MovePhase, MoveSpec, MoveStatus, REBALANCE_LABEL, RebalanceSpec, RebalanceStatus, Share,
    move_name, other_move_name,
};
use ballast_api::fleet::placement::v1beta1::any as fleet;
use ballast_api::karmada::work::v1alpha2::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use ballast_api::meta::ObjectMeta;
use ballast_k8s::{GroupResource, Key, Object, read_json};
use ballast_scheduler::planning::{Clearing, PlanningSnapshot, Shortfall};
use ballast_watch::View;
use ballast_worker::events::ObjectReference;

pub use ballast_scheduler::move_annotation::{CLUSTER_MOVES, MOVES};

pub const REBALANCES: GroupResource = GroupResource::new("rebalances.ballast.dev");
pub const CLUSTER_REBALANCES: GroupResource = GroupResource::new("clusterrebalances.ballast.dev");

pub const BOTH_REBALANCES: [GroupResource; 2] = [REBALANCES, CLUSTER_REBALANCES];
pub const BOTH_MOVES: [GroupResource; 2] = [MOVES, CLUSTER_MOVES];

/// The clusters of the Karmada family.
pub const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

/// A Rebalance or a ClusterRebalance.
#[derive(Clone, Debug, Deserialize)]
pub struct AnyRebalance {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: RebalanceSpec,
    #[serde(default)]
    pub status: RebalanceStatus,
}

/// A Move or a ClusterMove.
#[derive(Clone, Debug, Deserialize)]
pub struct AnyMove {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: MoveSpec,
    #[serde(default)]
    pub status: MoveStatus,
}

/// The rebalance that owns Moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub key: Key,
    pub uid: String,
}

impl Owner {
    pub fn of(object: &Object) -> Owner {
        Owner { key: object.key.clone(), uid: object.uid.to_string() }
    }

    pub fn kind(&self) -> &'static str {
        if self.key.resource == REBALANCES { "Rebalance" } else { "ClusterRebalance" }
    }

    /// Returns the namespace of the bindings that it moves. `None`: all namespaces, and
    /// cluster-scoped bindings.
    pub fn scope(&self) -> Option<&str> {
        (self.key.resource == REBALANCES).then_some(&*self.key.namespace)
    }

    /// Returns the owner in the form of move annotations: `clusterrebalances/after-outage`,
    /// `rebalances/shop/after-outage`.
    pub fn by(&self) -> String {
        match self.scope() {
            None => format!("clusterrebalances/{}", self.key.name),
            Some(namespace) => format!("rebalances/{namespace}/{}", self.key.name),
        }
    }

    /// Returns the owner for messages: `ClusterRebalance after-outage`, `Rebalance
    /// shop/after-outage`.
    pub fn title(&self) -> String {
        match self.scope() {
            None => format!("{} {}", self.kind(), self.key.name),
            Some(namespace) => format!("{} {namespace}/{}", self.kind(), self.key.name),
        }
    }

    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(api_version()),
            kind: Some(self.kind().to_owned()),
            namespace: self.scope().map(str::to_owned),
            name: Some(self.key.name.to_string()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// Parses the rebalance in a move annotation, or returns `None` if it names none.
pub fn named_by(mark: &str) -> Option<Key> {
    let parts: Vec<&str> = mark.split('/').collect();
    match parts[..] {
        ["clusterrebalances", name] => Some(Key::cluster(CLUSTER_REBALANCES, name)),
        ["rebalances", namespace, name] => Some(Key::namespaced(REBALANCES, namespace, name)),
        _ => None,
    }
}

pub fn api_version() -> String {
    format!("{}/v1alpha1", api::GROUP)
}

impl AnyRebalance {
    /// Returns the snapshot for its plan: the present state, and the clusters that it clears.
    pub fn present(&self, present: PlanningSnapshot) -> PlanningSnapshot {
        match Clearing::of_rebalance(&self.spec) {
            Some(clearing) => present.clearing(clearing),
            None => present,
        }
    }

    pub fn read(object: &Object) -> Result<AnyRebalance, serde_json::Error> {
        read_json(&object.text.content())
    }
}

impl AnyMove {
    pub fn read(object: &Object) -> Option<AnyMove> {
        let read = read_json(&object.text.content());
        read.inspect_err(|error| tracing::warn!(key = %object.key, %error, "cannot be read as a Move")).ok()
    }

    /// Returns the rebalance that owns the Move.
    pub fn owner(&self) -> Option<Owner> {
        let owner = self.metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
        let key = match owner.kind.as_str() {
            "Rebalance" => Key::namespaced(REBALANCES, self.metadata.namespace.as_deref()?, owner.name.as_str()),
            "ClusterRebalance" => Key::cluster(CLUSTER_REBALANCES, owner.name.as_str()),
            _ => return None,
        };
        Some(Owner { key, uid: owner.uid.clone() })
    }
}

/// Returns the key of a binding that a Move references.
pub fn binding_key(binding: &BindingRef) -> Key {
    if let Some(kinds) = fleet::SCOPES.into_iter().find(|kinds| kinds.kind == binding.kind) {
        let namespace = binding.namespace.as_deref().unwrap_or_default();
        return Key { resource: kinds.placements, namespace: namespace.into(), name: binding.name.as_str().into() };
    }
    match binding.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => Key::namespaced(RESOURCE_BINDINGS, namespace, &*binding.name),
        _ => Key::cluster(CLUSTER_RESOURCE_BINDINGS, &*binding.name),
    }
}

fn named_move(binding: &Object, name: String) -> Key {
    match &*binding.key.namespace {
        "" => Key::cluster(CLUSTER_MOVES, name),
        namespace => Key::namespaced(MOVES, namespace, name),
    }
}

/// Returns the key of the Move of a binding if another Move has its plain name.
pub fn other_move_key(owner: &Owner, binding: &Object) -> Key {
    named_move(binding, other_move_name(&owner.key.name, &binding.key.name, [&owner.uid, &binding.uid]))
}

/// Maximum number of rounds in which a drain plans workloads that arrive after its plan.
pub const DRAIN_ROUNDS_MAX: i64 = 20;

/// Returns the key of a Move from a later round of a drain, for a binding that already has a Move.
pub fn round_move_key(owner: &Owner, binding: &Object, round: i64) -> Key {
    let uids = [&owner.uid, &*format!("{}/{round}", binding.uid)];
    named_move(binding, other_move_name(&owner.key.name, &binding.key.name, uids))
}

/// Returns the round in which a drain planned the Move of this key. 0: it belongs to the plan.
pub fn round_of(owner: &Owner, binding: &Object, key: &Key) -> i64 {
    (1..=DRAIN_ROUNDS_MAX).find(|round| round_move_key(owner, binding, *round) == *key).unwrap_or_default()
}

/// Returns the first Move of a binding that has begun, or else the Move of the plan.
pub fn first_move(owner: &Owner, binding: &Object, view: &View) -> Option<AnyMove> {
    let find = |key: Key| {
        let read = AnyMove::read(view.get(&key)?)?;
        let is_it = read.owner().as_ref() == Some(owner) && *read.spec.binding.uid == *binding.uid;
        is_it.then_some(read)
    };
    let planned = find(move_key(owner, binding, view));
    if planned.as_ref().is_some_and(|read| read.status.started_at.is_some()) {
        return planned;
    }
    let rounds = (1..=DRAIN_ROUNDS_MAX).filter_map(|round| find(round_move_key(owner, binding, round)));
    rounds.into_iter().find(|read| read.status.started_at.is_some()).or(planned)
}

/// Returns the key of the Move of a binding: its plain name, or another if that is taken.
pub fn move_key(owner: &Owner, binding: &Object, view: &View) -> Key {
    let named = |name: String| named_move(binding, name);
    let plain = named(move_name(&owner.key.name, &binding.key.name));
    let is_taken = view.get(&plain).and_then(|object| AnyMove::read(object)).is_some_and(|known| {
        known.owner().is_none_or(|other| other.uid != owner.uid) || binding_key(&known.spec.binding) != binding.key
    });
    match is_taken {
        true => other_move_key(owner, binding),
        false => plain,
    }
}

/// Returns the status of a Move in progress. `short` is present if the move is partial, and
/// otherwise `note` is its message.
pub fn moving_status(short: Option<&Shortfall>, note: &str) -> MoveStatus {
    MoveStatus {
        phase: Some(MovePhase::Moving),
        reason: short.map(|short| short.reason),
        message: short.map_or_else(|| note.to_owned(), |short| short.message.clone()),
        ..MoveStatus::default()
    }
}

/// Returns a new Move.
pub fn new_move(owner: &Owner, key: &Key, spec: &MoveSpec, status: &MoveStatus) -> Map<String, Value> {
    let mut metadata = json!({
        "name": *key.name,
        "labels": {REBALANCE_LABEL: *owner.key.name},
        "ownerReferences": [{
            "apiVersion": api_version(),
            "kind": owner.kind(),
            "name": *owner.key.name,
            "uid": owner.uid,
            "controller": true,
            "blockOwnerDeletion": false,
        }],
    });
    if !key.namespace.is_empty() {
        metadata["namespace"] = (*key.namespace).into();
    }
    let kind = if key.resource == MOVES { "Move" } else { "ClusterMove" };
    // The macro would copy each of the trees.
    let members = [
        ("apiVersion", api_version().into()),
        ("kind", kind.into()),
        ("metadata", metadata),
        ("spec", written(spec)),
        ("status", written(status)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub fn written(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("what was read can be written")
}

/// Iterates over the Moves of all rebalances that have had this name, in a view.
pub fn moves_of<'a>(view: &'a View, owner: &'a Key) -> impl Iterator<Item = (Key, AnyMove)> + 'a {
    let scope = (owner.resource == REBALANCES).then_some(&*owner.namespace);
    let prefix = format!("{}.", owner.name);
    let resources = if scope.is_some() { &BOTH_MOVES[..1] } else { &BOTH_MOVES[..] };
    let objects = resources.iter().flat_map(move |resource| view.list(*resource, scope));
    objects
        .filter(move |object| object.key.name.starts_with(&prefix))
        .filter_map(|object| AnyMove::read(object).map(|read| (object.key.clone(), read)))
        .filter(|(_, read)| read.owner().is_some_and(|known| known.key == *owner))
}

/// Formats targets as `member1:2,member2:4`; without replicas, only the names.
pub fn listed(shares: &[Share]) -> String {
    let share = |share: &Share| match share.replicas {
        0 => share.name.clone(),
        replicas => format!("{}:{replicas}", share.name),
    };
    match shares {
        [] => "nowhere".to_owned(),
        shares => shares.iter().map(share).collect::<Vec<_>>().join(","),
    }
}
