//! The audit log: requests and their outcomes as `audit.k8s.io/v1` events, one JSON object a line
//! (AU2-AU4).
//!
//! *Invariants:* requests never wait for the log. An event that cannot be queued is dropped and
//! counted. A shutdown writes all queued events. No event has credentials: of the headers, only
//! addresses and the user agent are read.

mod event;
mod log;
mod policy;

use std::sync::Arc;

pub use event::{Entry, Request};
pub use log::{Log, LogError, Rotation};
pub use policy::{Level, Policy, PolicyError, Scope, Stage};

use ballast_auth::Attributes;
use ballast_base::clock::Clock;
use ballast_k8s::User;

pub struct Audit {
    policy: Policy,
    log: Log,
}

impl Audit {
    pub fn new(policy: Policy, log: Log) -> Audit {
        Audit { policy, log }
    }

    /// Returns whether any rule records responses.
    pub fn wants_answers(&self) -> bool {
        self.policy.wants_answers()
    }

    /// Returns the audit scope of this request. `None` if it is not recorded.
    pub fn scope(&self, user: &User, attributes: &Attributes<'_>) -> Option<Scope> {
        self.policy.scope(user, attributes)
    }

    pub fn write(&self, scope: Scope, entry: Entry) {
        if scope.takes(entry.stage) {
            self.log.write(scope, entry);
        }
    }

    /// Returns once all earlier events are in the file.
    pub fn flush(&self) {
        self.log.flush();
    }
}

/// The last event of a watch. The drop writes it, for any end of the watch.
pub struct CompletionEntry {
    audit: Arc<Audit>,
    scope: Scope,
    entry: Option<Entry>,
    clock: Arc<dyn Clock>,
}

impl CompletionEntry {
    pub fn new(audit: Arc<Audit>, scope: Scope, entry: Entry, clock: Arc<dyn Clock>) -> CompletionEntry {
        CompletionEntry { audit, scope, entry: Some(entry), clock }
    }
}

impl Drop for CompletionEntry {
    fn drop(&mut self) {
        if let Some(mut entry) = self.entry.take() {
            entry.now_ms = self.clock.now_ms();
            self.audit.write(self.scope, entry);
        }
    }
}
