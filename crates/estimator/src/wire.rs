//! The messages of `karmada-scheduler-estimator`, and the conversion of a binding to a message
//! (RM13).
//!
//! Upstream has replaced fields that contain Kubernetes types inline with fields that contain their
//! bytes, and has reserved the old numbers. An embedded message and its bytes are the same on the
//! wire. So both fields have the same content here, which old and new estimators understand.

use std::collections::BTreeMap;

use prost::Message;

use ballast_api::Pairs;
use ballast_api::core as api;
use ballast_api::core::Quantity as WireQuantity;
use ballast_api::karmada::work::v1alpha2 as work;

/// The name of the service in the path of a call.
pub const SERVICE: &str = "github.com.karmada_io.karmada.pkg.estimator.service.Estimator";

#[derive(Clone, PartialEq, Message)]
pub struct MaxAvailableReplicasRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, optional, tag = "2")]
    pub replica_requirements: Option<ReplicaRequirements>,
    #[prost(message, repeated, tag = "3")]
    pub assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct MaxAvailableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub max_replicas: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct MaxAvailableComponentSetsRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, repeated, tag = "2")]
    pub components: Vec<Component>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct MaxAvailableComponentSetsResponse {
    #[prost(int32, tag = "1")]
    pub max_sets: i32,
}

/// Pods that are assigned to a cluster but do not exist there yet.
#[derive(Clone, PartialEq, Message)]
pub struct AssumedWorkload {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(message, repeated, tag = "2")]
    pub components: Vec<Component>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnschedulableReplicasRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, optional, tag = "2")]
    pub resource: Option<ObjectReference>,
    /// In nanoseconds.
    #[prost(int64, tag = "3")]
    pub unschedulable_threshold: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ObjectReference {
    #[prost(string, tag = "1")]
    pub api_version: String,
    #[prost(string, tag = "2")]
    pub kind: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    pub name: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct UnschedulableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub unschedulable_replicas: i32,
}

/// The resource requests of one replica. `inline_…` are the fields that upstream has reserved.
#[derive(Clone, PartialEq, Message)]
pub struct ReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub node_claim: Option<NodeClaim>,
    #[prost(btree_map = "string, bytes", tag = "2")]
    pub inline_resource_request: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    pub priority_class_name: String,
    #[prost(btree_map = "string, bytes", tag = "5")]
    pub resource_request: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeClaim {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub inline_node_affinity: Option<Vec<u8>>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub node_selector: BTreeMap<String, String>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub inline_tolerations: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "4")]
    pub node_affinity: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub tolerations: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Component {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
    #[prost(int32, tag = "3")]
    pub replicas: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ComponentReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub node_claim: Option<NodeClaim>,
    #[prost(btree_map = "string, bytes", tag = "2")]
    pub inline_resource_request: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    pub priority_class_name: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub resource_request: BTreeMap<String, Vec<u8>>,
}

/// `resource.Quantity` of Kubernetes.
#[derive(Clone, PartialEq, Message)]
pub struct Quantity {
    #[prost(string, tag = "1")]
    pub text: String,
}

/// `NodeSelector` of Kubernetes.
#[derive(Clone, PartialEq, Message)]
pub struct NodeSelector {
    #[prost(message, repeated, tag = "1")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeSelectorTerm {
    #[prost(message, repeated, tag = "1")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    #[prost(message, repeated, tag = "2")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeSelectorRequirement {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub operator: String,
    #[prost(string, repeated, tag = "3")]
    pub values: Vec<String>,
}

/// `Toleration` of Kubernetes.
#[derive(Clone, PartialEq, Message)]
pub struct Toleration {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub operator: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub value: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub effect: Option<String>,
    #[prost(int64, optional, tag = "5")]
    pub toleration_seconds: Option<i64>,
}

/// Returns the query for the number of replicas that fit. The name of the cluster is added later.
pub fn replicas_request(requirements: Option<&work::ReplicaRequirements>) -> MaxAvailableReplicasRequest {
    let requirements = requirements.map(|given| {
        let resource_request = amounts(&given.resource_request);
        ReplicaRequirements {
            node_claim: given.node_claim.as_ref().map(node_claim),
            inline_resource_request: resource_request.clone(),
            namespace: given.namespace.clone().unwrap_or_default(),
            priority_class_name: given.priority_class_name.clone().unwrap_or_default(),
            resource_request,
        }
    });
    MaxAvailableReplicasRequest { replica_requirements: requirements, ..MaxAvailableReplicasRequest::default() }
}

/// Returns the query for the number of sets that fit. The name of the cluster is added later.
pub fn sets_request(components: &[work::Component], namespace: &str) -> MaxAvailableComponentSetsRequest {
    MaxAvailableComponentSetsRequest {
        components: components.iter().map(component).collect(),
        namespace: namespace.to_owned(),
        ..MaxAvailableComponentSetsRequest::default()
    }
}

/// Returns the message for these arriving copies of a workload. If `of_sets`, a copy is a set of
/// its components. Otherwise it is one replica.
pub fn assumed_workload(
    spec: &work::ResourceBindingSpec,
    namespace: &str,
    of_sets: bool,
    copies: i64,
) -> AssumedWorkload {
    let copies = i32::try_from(copies).unwrap_or(i32::MAX);
    let components = match of_sets {
        true => {
            let each = |of: &work::Component| {
                let replicas = of.replicas.saturating_mul(copies);
                Component { replicas, ..component(of) }
            };
            spec.components.iter().map(each).collect()
        }
        false => vec![Component {
            name: spec.resource.name.clone(),
            replica_requirements: spec.replica_requirements.as_deref().map(|given| {
                component_requirements(
                    &given.resource_request,
                    given.node_claim.as_ref(),
                    given.priority_class_name.as_deref(),
                )
            }),
            replicas: copies,
        }],
    };
    AssumedWorkload { namespace: namespace.to_owned(), components }
}

fn component(component: &work::Component) -> Component {
    Component {
        name: component.name.clone(),
        replica_requirements: component.replica_requirements.as_ref().map(|given| {
            component_requirements(
                &given.resource_request,
                given.node_claim.as_ref(),
                given.priority_class_name.as_deref(),
            )
        }),
        replicas: component.replicas,
    }
}

fn component_requirements(
    requests: &Pairs<WireQuantity>,
    claim: Option<&work::NodeClaim>,
    priority_class: Option<&str>,
) -> ComponentReplicaRequirements {
    let resource_request = amounts(requests);
    ComponentReplicaRequirements {
        node_claim: claim.map(node_claim),
        inline_resource_request: resource_request.clone(),
        priority_class_name: priority_class.unwrap_or_default().to_owned(),
        resource_request,
    }
}

fn amounts(amounts: &Pairs<WireQuantity>) -> BTreeMap<String, Vec<u8>> {
    let bytes = |amount: &WireQuantity| Quantity { text: amount.text().to_string() }.encode_to_vec();
    amounts.iter().map(|(name, amount)| (name.to_string(), bytes(amount))).collect()
}

fn node_claim(claim: &work::NodeClaim) -> NodeClaim {
    let affinity = claim.hard_node_affinity.as_ref().map(|affinity| node_selector(affinity).encode_to_vec());
    let tolerations: Vec<Vec<u8>> = claim.tolerations.iter().map(|it| toleration(it).encode_to_vec()).collect();
    NodeClaim {
        inline_node_affinity: affinity.clone(),
        node_selector: claim.node_selector.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
        inline_tolerations: tolerations.clone(),
        node_affinity: affinity.unwrap_or_default(),
        tolerations,
    }
}

fn node_selector(selector: &api::NodeSelector) -> NodeSelector {
    let requirement = |it: &api::NodeSelectorRequirement| NodeSelectorRequirement {
        key: it.key.clone(),
        operator: it.operator.clone(),
        values: it.values.clone(),
    };
    let term = |term: &api::NodeSelectorTerm| NodeSelectorTerm {
        match_expressions: term.match_expressions.iter().map(requirement).collect(),
        match_fields: term.match_fields.iter().map(requirement).collect(),
    };
    NodeSelector { node_selector_terms: selector.node_selector_terms.iter().map(term).collect() }
}

fn toleration(toleration: &api::Toleration) -> Toleration {
    Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.clone(),
        value: toleration.value.clone(),
        effect: toleration.effect.clone(),
        toleration_seconds: toleration.toleration_seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields of a message: the number and the content of each.
    fn fields(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = prost::encoding::decode_varint(&mut bytes).unwrap();
            let content = match tag & 7 {
                0 => prost::encoding::decode_varint(&mut bytes).unwrap().to_be_bytes().to_vec(),
                2 => {
                    let length = prost::encoding::decode_varint(&mut bytes).unwrap() as usize;
                    let (content, rest) = bytes.split_at(length);
                    bytes = rest;
                    content.to_vec()
                }
                other => panic!("wire type {other}"),
            };
            fields.push(((tag >> 3) as u32, content));
        }
        fields
    }

    fn contents(fields: &[(u32, Vec<u8>)], number: u32) -> Vec<&[u8]> {
        fields.iter().filter(|(known, _)| *known == number).map(|(_, content)| &**content).collect()
    }

    #[test]
    fn rm13_estimators_of_either_age_find_the_requirements() {
        let requirements: work::ReplicaRequirements = serde_json::from_value(serde_json::json!({
            "resourceRequest": {"cpu": "500m"},
            "namespace": "shop",
            "priorityClassName": "high",
            "nodeClaim": {
                "nodeSelector": {"disk": "ssd"},
                "hardNodeAffinity": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                ]},
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            },
        }))
        .unwrap();
        let sent = fields(&replicas_request(Some(&requirements)).encode_to_vec());
        let [requirements] = contents(&sent, 2)[..] else { panic!("{sent:?}") };
        let requirements = fields(requirements);
        // Key and value of the entry. The value is a Quantity whose field 1 is the text.
        let cpu = [&b"\x0a\x03cpu\x12\x06\x0a\x04500m"[..]];
        assert_eq!(contents(&requirements, 2), cpu);
        assert_eq!(contents(&requirements, 5), cpu);
        assert_eq!(contents(&requirements, 3), [b"shop"]);
        assert_eq!(contents(&requirements, 4), [b"high"]);
        let [claim] = contents(&requirements, 1)[..] else { panic!("{requirements:?}") };
        let claim = fields(claim);
        let affinity = [&b"\x0a\x12\x0a\x10\x0a\x04zone\x12\x02In\x1a\x01a\x1a\x01b"[..]];
        assert_eq!(contents(&claim, 1), affinity);
        assert_eq!(contents(&claim, 4), affinity);
        assert_eq!(contents(&claim, 2), [b"\x0a\x04disk\x12\x03ssd"]);
        let toleration = [&b"\x0a\x03gpu\x12\x06Exists\x22\x0aNoSchedule"[..]];
        assert_eq!(contents(&claim, 3), toleration);
        assert_eq!(contents(&claim, 5), toleration);
    }

    #[test]
    fn rm13_who_requests_nothing_says_so() {
        assert_eq!(replicas_request(None).encode_to_vec(), b"");
        let empty = work::ReplicaRequirements::default();
        assert_eq!(replicas_request(Some(&empty)).encode_to_vec(), b"\x12\x00");
    }

    #[test]
    fn rm13_a_set_names_its_components() {
        let components: Vec<work::Component> = serde_json::from_value(serde_json::json!([
            {"name": "job", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
        ]))
        .unwrap();
        let sent = fields(&sets_request(&components, "shop").encode_to_vec());
        assert_eq!(contents(&sent, 3), [b"shop"]);
        let job = fields(contents(&sent, 2)[0]);
        assert_eq!(contents(&job, 1), [b"job"]);
        assert_eq!(contents(&job, 3), [2_u64.to_be_bytes()]);
        let requirements = fields(contents(&job, 2)[0]);
        assert_eq!(contents(&requirements, 2), contents(&requirements, 4));
        assert_eq!(contents(&requirements, 4), [b"\x0a\x03cpu\x12\x03\x0a\x011"]);
    }
}
