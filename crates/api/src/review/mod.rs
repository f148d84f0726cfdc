//! Reviews: queries of users for their own permissions and identity, as in `kubectl auth can-i`,
//! `can-i --list` and `whoami`.
//!
//! They are create-only kinds of `authorization.k8s.io/v1` and `authentication.k8s.io/v1`. The
//! result is in their `status`.
//!
//! *Invariant:* only a standalone server serves them. Behind a host cluster, the host serves these
//! groups. Reviews of other users and of selectors are left out, because no authorizer here uses
//! them.

mod access;
mod rules;
mod user;

pub use access::{AccessReviewSpec, AccessReviewStatus, ResourceAttributes, SelfSubjectAccessReview};
pub use rules::{RulesReviewSpec, SelfSubjectRulesReview};
pub use user::SelfSubjectReview;

use ballast_resource::ResourceKind;

pub(super) fn rows() -> [ResourceKind; 3] {
    [
        ResourceKind::of::<SelfSubjectReview>(),
        ResourceKind::of::<SelfSubjectAccessReview>(),
        ResourceKind::of::<SelfSubjectRulesReview>(),
    ]
}
