//! A fake of the admission webhooks of a host cluster.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast::k8s::Status;
use ballast::registry::{AdmissionAttributes, ExternalAdmission};
use serde_json::{Map, Value};
use tokio::sync::watch;

type Tree = Map<String, Value>;
type Rule = Box<dyn FnMut(&Question) -> Answer + Send>;

pub enum Answer {
    Allowed,
    Refused(Box<Status>),
    /// Allowed once `open` is called.
    Late,
}

/// A review request.
#[derive(Clone, Debug)]
pub struct Question {
    pub user: String,
    pub name: String,
    pub object: Value,
    pub old: Value,
}

pub struct Doorkeeper {
    rule: Mutex<Rule>,
    asked: Mutex<Vec<Question>>,
    /// Incremented by `open`.
    opened: watch::Sender<u64>,
}

impl Doorkeeper {
    /// Creates a webhook that reviews every binding except for names beginning with `free`.
    pub fn new(rule: impl FnMut(&Question) -> Answer + Send + 'static) -> Arc<Doorkeeper> {
        let (rule, asked) = (Mutex::new(Box::new(rule) as Rule), Mutex::default());
        Arc::new(Doorkeeper { rule, asked, opened: watch::Sender::new(0) })
    }

    pub fn answer(&self, rule: impl FnMut(&Question) -> Answer + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// Sends the pending responses.
    pub fn open(&self) {
        self.opened.send_modify(|times| *times += 1);
    }

    pub fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl ExternalAdmission for Doorkeeper {
    async fn check_create(&self, _: &AdmissionAttributes<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn applies_to(&self, _: &AdmissionAttributes<'_>) -> bool {
        false
    }

    async fn mutate(&self, _: &AdmissionAttributes<'_>, _: &mut Tree, _: Option<&Tree>) -> Result<(), Status> {
        Ok(())
    }

    async fn validate(&self, _: &AdmissionAttributes<'_>, _: Option<&Tree>, _: Option<&Tree>) -> Result<(), Status> {
        Ok(())
    }

    fn matches_any(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.row.resource.to_string().ends_with("work.karmada.io")
    }

    fn matches(&self, attributes: &AdmissionAttributes<'_>, _: &Tree, _: &Tree) -> bool {
        !attributes.name.starts_with("free")
    }

    async fn review(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Tree,
        old: &Tree,
    ) -> Option<Result<(), Status>> {
        let value = |tree: &Tree| Value::Object(tree.clone());
        let (user, name) = (attributes.caller.user.name.clone(), attributes.name.to_owned());
        let question = Question { user, name, object: value(object), old: value(old) };
        let mut opened = self.opened.subscribe();
        let answer = (self.rule.lock().unwrap())(&question);
        self.asked.lock().unwrap().push(question);
        Some(match answer {
            Answer::Allowed => Ok(()),
            Answer::Refused(status) => Err(*status),
            Answer::Late => {
                opened.changed().await.expect("the doorkeeper lives");
                Ok(())
            }
        })
    }
}
