//! Reviews of the user's own access (`api::review`). The server's own authorizer decides them, so
//! the result of a review matches the decision about the request itself.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use ballast_api::review::{AccessReviewSpec, RulesReviewSpec};
use ballast_api::review::{SelfSubjectAccessReview, SelfSubjectReview, SelfSubjectRulesReview};
use ballast_api::tree;
use ballast_auth::{Attributes, Authorizer, Permission, ResourceAttributes};
use ballast_k8s::{GroupResource, Status, User};
use ballast_registry::Action;
use ballast_resource::Resource;

/// Returns the review kinds, each with its action.
pub fn reviews(authorizer: &Arc<Authorizer>) -> [(GroupResource, Arc<dyn Action>); 3] {
    [
        (SelfSubjectReview::resource(), Arc::new(SelfSubjectReviews)),
        (SelfSubjectAccessReview::resource(), Arc::new(SelfSubjectAccessReviews(Arc::clone(authorizer)))),
        (SelfSubjectRulesReview::resource(), Arc::new(SelfSubjectRulesReviews(Arc::clone(authorizer)))),
    ]
}

struct SelfSubjectReviews;

#[async_trait]
impl Action for SelfSubjectReviews {
    async fn create(
        &self,
        caller: &User,
        object: &mut Map<String, Value>,
        _dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        object.insert("status".to_owned(), json!({"userInfo": caller.info()}));
        Ok(Vec::new())
    }
}

struct SelfSubjectAccessReviews(Arc<Authorizer>);

#[async_trait]
impl Action for SelfSubjectAccessReviews {
    async fn create(
        &self,
        caller: &User,
        object: &mut Map<String, Value>,
        _dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        let spec: AccessReviewSpec = tree::decoded(object.get("spec"))?;
        let attributes = match (&spec.resource_attributes, &spec.non_resource_attributes) {
            (Some(asked), _) => Attributes::Resource(ResourceAttributes {
                verb: &asked.verb,
                group: &asked.group,
                version: &asked.version,
                resource: &asked.resource,
                subresource: &asked.subresource,
                namespace: &asked.namespace,
                name: &asked.name,
                ..ResourceAttributes::default()
            }),
            (None, Some(asked)) => Attributes::Path { verb: &asked.verb, path: &asked.path },
            (None, None) => return Err(Status::bad_request("nothing is asked about")),
        };
        let status = match self.0.decide(caller, &attributes).await {
            Permission::Allow(reason) => answer(true, "reason", reason),
            Permission::Deny(reason) => answer(false, "reason", reason),
            Permission::Failed(why) => answer(false, "evaluationError", why),
        };
        object.insert("status".to_owned(), status);
        Ok(Vec::new())
    }
}

fn answer(allowed: bool, name: &str, why: String) -> Value {
    match why.is_empty() {
        true => json!({"allowed": allowed}),
        false => json!({"allowed": allowed, name: why}),
    }
}

struct SelfSubjectRulesReviews(Arc<Authorizer>);

#[async_trait]
impl Action for SelfSubjectRulesReviews {
    async fn create(
        &self,
        caller: &User,
        object: &mut Map<String, Value>,
        _dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        let spec: RulesReviewSpec = tree::decoded(object.get("spec"))?;
        let namespace = spec.namespace.filter(|namespace| !namespace.is_empty());
        let namespace = namespace.ok_or_else(|| Status::bad_request("no namespace on request"))?;
        object.insert("status".to_owned(), self.0.rules(caller, &namespace));
        Ok(Vec::new())
    }
}
