//! Access queries of expressions. The evaluation sends no request: it ends with the query
//! (`Fault::Asks`), and its caller obtains the decision.

use std::collections::BTreeMap;

use ballast_k8s::User;

/// A query to the host cluster, sent as a SubjectAccessReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessQuestion {
    /// A service account, if the query is about one instead of the requesting user.
    pub service_account: Option<(String, String)>,
    /// A non-resource path. The fields below are empty then.
    pub path: Option<String>,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
    pub verb: String,
}

/// A decision of the host cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub allowed: bool,
    pub reason: String,
    /// The error of the review. Empty if it succeeded.
    pub error: String,
}

pub type AccessAnswers = BTreeMap<AccessQuestion, Answer>;

/// The state of a query that an expression builds step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
}

#[derive(Clone, Debug)]
pub struct AccessCheck {
    pub stage: Stage,
    pub question: AccessQuestion,
}

impl AccessCheck {
    /// Returns the check for `authorizer`.
    pub fn begin() -> AccessCheck {
        AccessCheck { stage: Stage::Authorizer, question: AccessQuestion::default() }
    }

    /// Returns the check for `authorizer.requestResource`.
    pub fn of_request(group: &str, resource: &str, subresource: &str, namespace: &str, name: &str) -> AccessCheck {
        let [group, resource, subresource, namespace, name] =
            [group, resource, subresource, namespace, name].map(str::to_owned);
        let question = AccessQuestion { group, resource, subresource, namespace, name, ..AccessQuestion::default() };
        AccessCheck { stage: Stage::Resource, question }
    }

    pub fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Authorizer => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }

    /// Returns the check that a function derives from this one, or `None` if this check has no such
    /// function.
    pub fn narrowed(&self, function: &str, arguments: &[&str]) -> Option<Result<AccessCheck, &'static str>> {
        let mut next = self.clone();
        let question = &mut next.question;
        let set = |place: &mut String, value: &str| value.clone_into(place);
        match (self.stage, function, arguments) {
            (Stage::Authorizer, "path", [path]) => {
                if path.is_empty() {
                    return Some(Err("path must not be empty"));
                }
                question.path = Some((*path).to_owned());
                next.stage = Stage::Path;
            }
            (Stage::Authorizer, "group", [group]) => {
                set(&mut question.group, group);
                next.stage = Stage::Group;
            }
            (Stage::Authorizer, "serviceAccount", [namespace, name]) => {
                question.service_account = Some(((*namespace).to_owned(), (*name).to_owned()));
            }
            (Stage::Group, "resource", [resource]) => {
                set(&mut question.resource, resource);
                next.stage = Stage::Resource;
            }
            (Stage::Resource, "subresource", [value]) => set(&mut question.subresource, value),
            (Stage::Resource, "namespace", [value]) => set(&mut question.namespace, value),
            (Stage::Resource, "name", [value]) => set(&mut question.name, value),
            (Stage::Resource, "fieldSelector", [value]) => set(&mut question.field_selector, value),
            (Stage::Resource, "labelSelector", [value]) => set(&mut question.label_selector, value),
            _ => return None,
        }
        Some(Ok(next))
    }

    /// Returns the query of `check(verb)`, or `None` if this check has no such function.
    pub fn question(&self, verb: &str) -> Option<AccessQuestion> {
        let is_whole = matches!(self.stage, Stage::Path | Stage::Resource);
        is_whole.then(|| AccessQuestion { verb: verb.to_owned(), ..self.question.clone() })
    }
}

impl AccessQuestion {
    /// Returns the user that the query is about.
    pub fn user(&self, requester: &User) -> User {
        match &self.service_account {
            None => requester.clone(),
            Some((namespace, name)) => User {
                name: format!("system:serviceaccount:{namespace}:{name}"),
                groups: vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ],
                ..User::default()
            },
        }
    }
}
