//! A server on its own with more users than its administrator: tokens and rules from files, both followed.

use std::fs;
use std::path::Path;

use ballast::cli::certs::Files;
use ballast::cli::config::ServeArgs;
use ballast::cli::serve::{self, Running};
use http::Method;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::raw::{Raw, Reply};
use crate::support::wait_for;

const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
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

    fs::write(folder.path().join("policy.yaml"), POLICY.replace("get, list", "get, list, create")).unwrap();
    wait_for("the new rule", async || (with_token(&client, Method::POST, "t-jane").await.code == 400).then_some(()))
        .await;
    fs::write(folder.path().join("tokens.csv"), "not a token file").unwrap();
    fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
    assert_eq!(with_token(&client, Method::GET, "t-jane").await.code, 200, "what cannot be read changes nothing");
    fs::write(folder.path().join("tokens.csv"), token_line("t-joe", "joe", "ops")).unwrap();
    wait_for("the token's end", async || (with_token(&client, Method::GET, "t-jane").await.code == 401).then_some(()))
        .await;
    assert_eq!(with_token(&client, Method::GET, "t-joe").await.code, 200);
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
