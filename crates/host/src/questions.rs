//! Access checks in expressions of policies and of webhooks' match conditions (AD23). The host
//! cluster evaluates them.

use std::sync::Arc;

use super::reviews::Reviews;
use ballast_auth::{AccessReviewer, Attributes, ResourceAttributes};
use ballast_policies::{AccessAnswers, AccessCheck, AccessQuestion, Answer, Asks, Judged, Value};
use ballast_registry::AdmissionAttributes;

/// Returns the values of `authorizer` and `authorizer.requestResource` for a write.
pub fn authorizer(attributes: &AdmissionAttributes<'_>) -> [Value<'static>; 2] {
    let AdmissionAttributes { row, subresource, namespace, name, .. } = *attributes;
    let of_request = AccessCheck::of_request(row.group, row.plural, subresource, namespace, name);
    [AccessCheck::begin(), of_request].map(|check| Value::Authorizer(Arc::new(check)))
}

/// Evaluates expressions until all access checks have results. For each missing result the host
/// cluster is queried and the evaluation restarts. Access checks are part of the cost limit, so
/// there are few.
pub async fn until_answered<T>(
    reviews: &Reviews,
    attributes: &AdmissionAttributes<'_>,
    answers: &mut AccessAnswers,
    judge: impl Fn(&AccessAnswers) -> Judged<T>,
) -> T {
    loop {
        let asked = match judge(answers) {
            Ok(judged) => return judged,
            Err(Asks(question)) => question,
        };
        let answer = ask(reviews, attributes, &asked).await;
        answers.insert(*asked, answer);
    }
}

async fn ask(reviews: &Reviews, attributes: &AdmissionAttributes<'_>, question: &AccessQuestion) -> Answer {
    let user = question.user(attributes.caller.user);
    let asked = match &question.path {
        Some(path) => Attributes::Path { verb: &question.verb, path },
        None => Attributes::Resource(ResourceAttributes {
            verb: &question.verb,
            group: &question.group,
            version: "*",
            resource: &question.resource,
            subresource: &question.subresource,
            namespace: &question.namespace,
            name: &question.name,
            field_selector: &question.field_selector,
            label_selector: &question.label_selector,
        }),
    };
    match reviews.review(&user, &asked).await {
        Ok(answer) => Answer { allowed: answer.allowed, reason: answer.reason, error: String::new() },
        Err(unavailable) => Answer { allowed: false, reason: String::new(), error: unavailable.0 },
    }
}
