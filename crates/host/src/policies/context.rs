//! The variables of expressions for one write, and the access checks that they need.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::params::Param;
use crate::questions::{authorizer, until_answered};
use crate::request::{admission_request, worded};
use crate::reviews::Reviews;
use ballast_policies::{AccessAnswers, Inputs, Judged, Value};
use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;

type Tree = Map<String, Json>;

/// A write in one version of its kind.
pub struct Context<'a> {
    request: Json,
    object: Option<Cow<'a, Tree>>,
    old: Option<Cow<'a, Tree>>,
    namespace: Option<Arc<Json>>,
    authorizer: [Value<'static>; 2],
}

impl<'a> Context<'a> {
    pub fn new(
        attributes: &AdmissionAttributes<'_>,
        row: &ResourceKind,
        object: Option<&'a Tree>,
        old: Option<&'a Tree>,
        namespace: Option<Arc<Json>>,
    ) -> Context<'a> {
        let shown = |object: Option<&'a Tree>| {
            object.map(|object| match row.is_stored_version() {
                true => Cow::Borrowed(object),
                false => Cow::Owned(worded(object.clone(), row)),
            })
        };
        Context {
            request: admission_request(attributes, row, ""),
            object: shown(object),
            old: shown(old),
            namespace,
            authorizer: authorizer(attributes),
        }
    }

    /// Evaluates with this parameter, and sends the access checks of the expressions to the host
    /// cluster.
    pub async fn judge<T>(
        &self,
        reviews: &Reviews,
        attributes: &AdmissionAttributes<'_>,
        answers: &mut AccessAnswers,
        param: &Param,
        judge: impl Fn(&Inputs<'_>) -> Judged<T>,
    ) -> T {
        until_answered(reviews, attributes, answers, |answers| judge(&self.inputs(param, answers))).await
    }

    fn inputs<'b>(&'b self, param: &'b Param, answers: &'b AccessAnswers) -> Inputs<'b> {
        let of = |json: Option<&'b Json>| json.map_or(Value::Null, Value::of);
        let tree = |tree: &'b Option<Cow<'a, Tree>>| tree.as_deref().map_or(Value::Null, Value::of_object);
        Inputs {
            object: tree(&self.object),
            old_object: tree(&self.old),
            request: Value::of(&self.request),
            params: of(param.as_deref()),
            namespace: of(self.namespace.as_deref()),
            authorizer: Some(self.authorizer.clone()),
            answers,
        }
    }
}

/// Returns the name of the object in error messages, as in kube-apiserver.
pub fn name_of<'a>(attributes: &AdmissionAttributes<'a>, object: Option<&'a Tree>) -> &'a str {
    if !attributes.name.is_empty() {
        return attributes.name;
    }
    let metadata = object.and_then(|object| object.get("metadata"));
    let text = |member: &str| metadata.and_then(|metadata| metadata[member].as_str()).filter(|text| !text.is_empty());
    text("name").or_else(|| text("generateName")).unwrap_or("Unknown")
}
