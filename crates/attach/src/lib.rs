//! Attached to a Karmada: another API server, the *upstream*, keeps clusters, policies and
//! bindings, and Ballast schedules them.
//!
//! ```text
//!                     upstream (Karmada's API server)
//!           list, watch │      ▲ merge patches   ▲ events
//!                       ▼      │                 │
//!   reflector ──► applier ◄── upstream_writes  events
//!                   │ answers      ▲             ▲
//!                   ▼              │             │
//!                  log ──► views ──► workers ────┘
//! ```
//!
//! The reflector lists and watches the attached kinds, and the applier writes their states to the
//! log here. Workers read that log as they read any other. They write through
//! `registry::RemoteStore`: a write becomes a patch of the upstream object, and the answer goes
//! through the applier, too. So every state of an attached object enters the log by one door.
//!
//! *What is promised.*
//! - The log has these kinds as they are upstream: uid, times, generation, and fields that no
//!   schema here knows. Only managed fields are left out. An unchanged object is not written again.
//! - Every write names the upstream version that it was decided on. If others wrote in between, the
//!   upstream refuses it, and the worker decides again. Nothing that others wrote is lost.
//! - A write is in the view here before it is acknowledged, so no decision follows from the state
//!   before it. When the watch reports the same version later, nothing changes.
//! - A write that was cut off after its first half is finished by the next pass. The missing half
//!   is the status, with the answer to a trigger: the pass is repeated and never lost.
//!
//! *Why so.* Two servers have no common transaction, so a version is the precondition of each
//! write, and the order of the writes says what a crash leaves. Spec and status are two patches,
//! because the status is a subresource. The upstream versions are kept in memory only: after a
//! restart everything is listed again, and what the log has already is not written.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `kinds`: the kinds that the upstream keeps
//! - `upstream_object`: an object as the upstream sent it
//! - `patch`: what a write changes, as merge patches
//! - `progress`: which kinds were listed, and what goes wrong
//! - `applier`: writes upstream states to the log, and knows the upstream version of each object
//! - `write_limits`: how many writes are in flight, and when the upstream wants none
//! - `attached`: the upstream and all that belongs to it
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
