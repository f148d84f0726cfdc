//! What users ask about themselves: `kubectl auth can-i`, `can-i --list` and `whoami`. Create-only
//! kinds of `authorization.k8s.io/v1` and `authentication.k8s.io/v1`, answered in their `status`.
//!
//! *Invariant:* served by a server on its own alone. Behind a host cluster these groups are the
//! host's. Deliberately absent: reviews of other users, and selectors; nothing here decides by
//! them.

mod access;
mod rules;
mod user;

pub use access::{AccessReviewSpec, AccessReviewStatus, ResourceAttributes, SelfSubjectAccessReview};
pub use rules::{RulesReviewSpec, SelfSubjectRulesReview};
pub use user::SelfSubjectReview;

use crate::resource::ResourceKind;

pub(super) fn rows() -> [ResourceKind; 3] {
    [
        ResourceKind::of::<SelfSubjectReview>(),
        ResourceKind::of::<SelfSubjectAccessReview>(),
        ResourceKind::of::<SelfSubjectRulesReview>(),
    ]
}
