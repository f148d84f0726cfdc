//! Reviews have the form of a write and change nothing. A follower answers them itself, from the
//! newest state.

use serde_json::{Value, json};

use super::fleet::Fleet;
use super::presence::metrics;
use crate::support::metric;
use crate::support::objects::rebalancer;

const REPLICAS: usize = 2;
const ROUNDS: usize = 20;
const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/placementreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn revision(text: &Value) -> i64 {
    text.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re6_a_follower_answers_reviews_itself_from_the_newest_state() {
    let Some(fleet) = Fleet::start(REPLICAS).await else { return };
    let (leader, _) = fleet.leader().await;
    let client = fleet.doors.enter((leader + 1) % REPLICAS).await.unwrap();
    let placement = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview",
        "spec": {"select": [{}], "mode": "AsIs"}});
    let access = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "clusters", "group": "cluster.karmada.io"}}});
    for round in 0..ROUNDS {
        let made = client.post(REBALANCERS, &rebalancer(&format!("web-{round}"))).await.unwrap();
        let told = client.post(REVIEWS, &placement).await.unwrap();
        let (made, told) = (revision(&made["metadata"]["resourceVersion"]), revision(&told["status"]["revision"]));
        assert!(told >= made, "{made} was acknowledged, and the review shows {told}");
        assert_eq!(client.post(ACCESS, &access).await.unwrap()["status"]["allowed"], json!(true));
    }
    let passed_on = metric(&metrics(&client).await, "ballast_forwarded_writes_total{code=\"201\"}");
    assert_eq!(passed_on, ROUNDS as f64, "the rebalancers, and no review");
}
