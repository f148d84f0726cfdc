//! A standalone server with several users; their tokens and rules are in watched files.

use std::fs;
use std::path::Path;

use ballast::node::certs::Files;
use ballast::node::config::ServeArgs;
use ballast::node::serve::{self, Running};
use http::Method;
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::fleet::cluster;
use crate::support::objects::{BINDINGS, CLUSTERS, REBALANCERS, TASKS, binding, rebalancer};
use crate::support::raw::{Raw, Reply};
use crate::support::wait_for;

const POLICY: &str =
    "rules:\n- {groups: [ops], verbs: [get, list], apiGroups: [apps.karmada.io], resources: [workloadrebalancers]}\n";

fn token_line(token: &str, user: &str, groups: &str) -> String {
    let hash: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hash},{user},,\"{groups}\"\n")
}

async fn start(shape: impl FnOnce(&mut ServeArgs, &Path)) -> (Running, Raw, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut args = ServeArgs {
        secure_port: 0,
        database_url: "memory:".to_owned(),
        cert_dir: folder.path().join("certs"),
        ..ServeArgs::default()
    };
    shape(&mut args, folder.path());
    let files = Files::in_dir(&args.cert_dir);
    let running = serve::start(args).await.unwrap();
    let nobody = Raw::nobody(running.address, &files);
    (running, nobody, folder)
}

async fn with_token(client: &Raw, method: Method, token: &str) -> Reply {
    client.send(method, REBALANCERS, &[("authorization", &format!("Bearer {token}"))], "{}").await
}

#[tokio::test]
async fn tokens_and_rules_of_files_let_users_in_and_change_under_a_running_server() {
    let (running, client, folder) = start(|args, folder| {
        let (tokens, policy) = (folder.join("tokens.csv"), folder.join("policy.yaml"));
        fs::write(&tokens, token_line("t-jane", "jane", "ops") + &token_line("t-joe", "joe", "")).unwrap();
        fs::write(&policy, POLICY).unwrap();
        args.identity.token_auth_file = Some(tokens);
        args.identity.authorization_policy_file = Some(policy);
    })
    .await;
    assert_eq!(with_token(&client, Method::GET, "t-jane").await.code, 200);
    assert_eq!(with_token(&client, Method::POST, "t-jane").await.code, 403, "a verb that no rule names");
    assert_eq!(with_token(&client, Method::GET, "t-joe").await.code, 403);
    assert_eq!(with_token(&client, Method::GET, "t-eve").await.code, 401);
    assert_eq!(client.get(REBALANCERS).await.code, 401, "nobody is anonymous here");

    // Written atomically: a partly written file may be empty, and would contain no user.
    let put = |name: &str, text: &str| {
        let next = folder.path().join("next");
        fs::write(&next, text).unwrap();
        fs::rename(&next, folder.path().join(name)).unwrap();
    };
    put("policy.yaml", &POLICY.replace("get, list", "get, list, create"));
    wait_for("the new rule", async || (with_token(&client, Method::POST, "t-jane").await.code == 400).then_some(()))
        .await;
    put("tokens.csv", "not a token file");
    put("policy.yaml", POLICY);
    assert_eq!(with_token(&client, Method::GET, "t-jane").await.code, 200, "what cannot be read changes nothing");
    put("tokens.csv", &token_line("t-joe", "joe", "ops"));
    wait_for("the token's end", async || (with_token(&client, Method::GET, "t-jane").await.code == 401).then_some(()))
        .await;
    assert_eq!(with_token(&client, Method::GET, "t-joe").await.code, 200);
    running.stop().await.unwrap();
}

/// As with the roles system:discovery and system:basic-user of a cluster: a user without rules may
/// read discovery, the own identity and the own rights, also when impersonated by an administrator.
#[tokio::test]
async fn without_a_policy_users_may_ask_what_is_served_and_about_themselves() {
    let (running, nobody, folder) = start(|args, folder| {
        let tokens = folder.join("tokens.csv");
        fs::write(&tokens, token_line("t-joe", "joe", "")).unwrap();
        args.identity.token_auth_file = Some(tokens);
    })
    .await;
    let admin = Raw::admin(running.address, &Files::in_dir(&folder.path().join("certs")));
    let json = ("content-type", "application/json");
    for (client, credential, name) in
        [(&nobody, ("authorization", "Bearer t-joe"), "joe"), (&admin, ("impersonate-user", "jane"), "jane")]
    {
        for path in ["/version", "/api", "/apis", "/apis/apps.karmada.io/v1alpha1", "/openapi/v2", "/openapi/v3"] {
            let reply = client.send(Method::GET, path, &[credential], "").await;
            assert_eq!(reply.code, 200, "{name} {path}: {}", reply.text());
        }
        let ask = async |path: &str, review: serde_json::Value| {
            let reply = client.send(Method::POST, path, &[credential, json], review.to_string()).await;
            assert_eq!(reply.code, 201, "{name} {path}: {}", reply.text());
            reply.json()["status"].clone()
        };
        let whoami = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let whoami = ask("/apis/authentication.k8s.io/v1/selfsubjectreviews", whoami).await;
        assert_eq!(whoami["userInfo"], json!({"username": name, "groups": ["system:authenticated"]}));
        let may_list = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "list", "group": "cluster.karmada.io", "resource": "clusters"}}});
        let may_list = ask("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", may_list).await;
        assert_eq!(may_list["allowed"], false);
        let rules = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": "default"}});
        let rules = ask("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", rules).await;
        assert_eq!(rules["nonResourceRules"][0]["nonResourceURLs"][0], "/healthz", "{rules}");
        for path in [CLUSTERS, "/metrics", "/readyz/storage"] {
            assert_eq!(client.send(Method::GET, path, &[credential], "").await.code, 403, "{name} {path}");
        }
    }
    running.stop().await.unwrap();
}

/// R50: a user with the right to create rebalancers needs no right to bindings, and gets none.
#[tokio::test]
async fn r50_a_user_who_may_do_nothing_but_make_rebalancers_moves_replicas_without_touching_a_binding() {
    const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web-deployment";
    let (running, nobody, folder) = start(|args, folder| {
        let (tokens, policy) = (folder.join("tokens.csv"), folder.join("policy.yaml"));
        fs::write(&tokens, token_line("t-jane", "jane", "ops") + &token_line("t-joe", "joe", "")).unwrap();
        fs::write(&policy, POLICY.replace("get, list", "create, get")).unwrap();
        args.identity.token_auth_file = Some(tokens);
        args.identity.authorization_policy_file = Some(policy);
    })
    .await;
    let admin = Raw::admin(running.address, &Files::in_dir(&folder.path().join("certs")));
    let json = ("content-type", "application/json");
    for name in ["member1", "member2"] {
        let object = cluster(name);
        assert_eq!(admin.send(Method::POST, CLUSTERS, &[json], object.to_string()).await.code, 201);
        let path = format!("{CLUSTERS}/{name}/status");
        let merge = ("content-type", "application/merge-patch+json");
        let status = json!({"status": object["status"]}).to_string();
        assert_eq!(admin.send(Method::PATCH, &path, &[merge], status).await.code, 200);
    }
    let mut web = binding("web");
    web["spec"]["replicas"] = json!(4);
    web["spec"]["placement"] = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    web["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}]);
    web["metadata"]["name"] = json!("web-deployment");
    assert_eq!(admin.send(Method::POST, BINDINGS, &[json], web.to_string()).await.code, 201);
    let scheduled = async || {
        let binding = admin.get(BINDING).await.json();
        binding["status"]["lastScheduledTime"].is_string().then_some(binding)
    };
    let before = wait_for("the first pass", scheduled).await;
    assert_eq!(before["spec"]["clusters"], json!([{"name": "member2", "replicas": 4}]), "it stays where it is");

    let asked = rebalancer("web").to_string();
    let by = async |token: &str, method: Method, path: &str, body: &str| {
        let token = format!("Bearer {token}");
        nobody.send(method, path, &[("authorization", &token), json], body.to_owned()).await
    };
    let refused = by("t-joe", Method::POST, REBALANCERS, &asked).await;
    assert_eq!(refused.code, 403, "{}", refused.text());
    for (method, path, body) in [
        (Method::GET, BINDING, ""),
        (Method::PUT, BINDING, "{}"),
        (Method::GET, BINDINGS, ""),
        (Method::POST, TASKS, "{}"),
        (Method::DELETE, "/apis/apps.karmada.io/v1alpha1/workloadrebalancers/web", ""),
    ] {
        assert_eq!(by("t-jane", method.clone(), path, body).await.code, 403, "{method} {path}");
    }
    let created = by("t-jane", Method::POST, REBALANCERS, &asked).await;
    assert_eq!(created.code, 201, "{}", created.text());
    wait_for("the replicas' return", async || {
        let binding = admin.get(BINDING).await.json();
        let spread = json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]);
        (binding["spec"]["clusters"] == spread).then_some(())
    })
    .await;
    let path = format!("{REBALANCERS}/web");
    let told = by("t-jane", Method::GET, &path, "").await.json();
    assert_eq!(told["status"]["observedWorkloads"][0]["result"], "Successful", "{told}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_used_stops_the_start_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    fs::write(&tokens, "secret,jane\n").unwrap();
    let mut args = ServeArgs {
        secure_port: 0,
        database_url: "memory:".to_owned(),
        cert_dir: folder.path().join("certs"),
        ..ServeArgs::default()
    };
    args.identity.token_auth_file = Some(tokens);
    let Err(error) = serve::start(args).await else { panic!("it started") };
    let told = format!("{error:#}");
    assert!(told.contains("line 1: the token must be given as sha256:"), "{told}");
    assert!(!told.contains("secret"), "{told}");
}
