//! Attaches Ballast to Karmada: another API server, the *upstream*, stores clusters, policies and
//! bindings, and Ballast schedules them.
//!
//! ```text
//!                     upstream (Karmada's API server)
//!           list, watch │      ▲ merge patches   ▲ events
//!                       ▼      │                 │
//!   reflector ──► applier ◄── upstream_writes  events
//!                   │ responses    ▲             ▲
//!                   ▼              │             │
//!                  log ──► views ──► workers ────┘
//! ```
//!
//! The reflector lists and watches the attached kinds, and the applier writes their states to the
//! local log. Workers read that log like any other. They write through `registry::RemoteStore`: a
//! write becomes a patch of the upstream object, and the response goes through the applier as well.
//! So the applier is the only writer of attached objects in the log.
//!
//! *Guarantees.*
//! - The log holds these kinds as they are upstream: uid, times, generation, and fields that no
//!   local schema knows. Only managed fields are dropped. An unchanged object is not written again.
//! - Every write carries the upstream version that it was decided on. If another client wrote in
//!   between, the upstream rejects it, and the worker decides again. No write of another client is
//!   lost.
//! - A write is in the local view before it is acknowledged, so no decision is based on the state
//!   before it. When the watch reports the same version later, nothing changes.
//! - A write that was interrupted after its first half is completed by the next pass. The missing
//!   half is the status, with the response to a trigger: the pass is repeated and never lost.
//!
//! *Rationale.* Two servers have no common transaction, so a version is the precondition of each
//! write, and the order of the writes determines the state after a crash. Spec and status are two
//! patches, because the status is a subresource. The upstream versions are kept in memory only:
//! after a restart everything is listed again, and states that the log already holds are not
//! written.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `kinds`: the kinds that the upstream stores
//! - `upstream_object`: an object as the upstream sent it
//! - `patch`: the changes of a write, as merge patches
//! - `progress`: the kinds that were listed, and current failures
//! - `applier`: writes upstream states to the log, and tracks the upstream version of each object
//! - `write_limits`: limits concurrent writes, and pauses them when the upstream is overloaded
//! - `attached`: the upstream and its state
//! - `reflector`: lists and watches the attached kinds
//! - `upstream_writes`: sends the writes of workers upstream
//! - `events`: sends events about bindings upstream

mod applier;
mod attached;
mod events;
mod kinds;
mod patch;
mod progress;
mod reflector;
mod upstream_object;
mod upstream_writes;
mod write_limits;

pub use attached::{Access, Attached, ReflectorScope, Upstream};
pub use events::UpstreamEvents;
pub use kinds::ATTACHED_KINDS;
pub use progress::Progress;
