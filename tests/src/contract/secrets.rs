//! The secret store's contract.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use local::aws::Endpoint;
use serde_json::json;
use shared::adapters::aws::SsmSecrets;
use shared::arrival::secrets::SecretStore;
use shared::model::ModelSecrets;

use super::on_model_and_emulator;
use crate::fixtures::aws;

/// A store under test: our port, and the operator's side.
#[async_trait]
trait Store: Send + Sync {
    fn store(&self) -> &dyn SecretStore;
    /// Puts one more secret at a path, under a name of its own.
    async fn put(&self, path: &str, name: &str, secret: &str);
}

on_model_and_emulator!(
    every_secret_of_a_path_is_read,
    nothing_at_a_path_is_an_empty_list,
    neighbours_and_what_is_below_are_not_read,
    a_secret_variable_is_no_secret_of_its_integration,
);

async fn read(store: &impl Store, path: &str) -> Vec<String> {
    let secrets = store.store().read(path).await.expect("the store answers");
    let mut texts: Vec<String> = secrets.iter().map(|secret| secret.expose().to_owned()).collect();
    texts.sort();
    texts
}

/// SSM gives ten at a time.
async fn every_secret_of_a_path_is_read(store: impl Store) {
    let secrets: Vec<String> = (10..35).map(|n| format!("secret-{n}")).collect();
    for secret in &secrets {
        store.put("sources/many", secret, secret).await;
    }
    assert_eq!(read(&store, "sources/many").await, secrets);
}

async fn nothing_at_a_path_is_an_empty_list(store: impl Store) {
    assert_eq!(read(&store, "sources/nobody").await, Vec::<String>::new());
}

async fn neighbours_and_what_is_below_are_not_read(store: impl Store) {
    store.put("sources/web", "current", "ours").await;
    store.put("sources/web-forms", "current", "a neighbour's").await;
    store.put("sources/web/below", "current", "nobody's").await;
    assert_eq!(read(&store, "sources/web").await, ["ours"]);
}

async fn a_secret_variable_is_no_secret_of_its_integration(store: impl Store) {
    store.put("integrations/crm", "2026-11", "the token").await;
    store.put("integrations/crm/vars/hook", "2026-12", "the hook").await;
    assert_eq!(read(&store, "integrations/crm").await, ["the token"]);
    assert_eq!(read(&store, "integrations/crm/vars/hook").await, ["the hook"]);
    assert_eq!(read(&store, "integrations/crm/vars").await, Vec::<String>::new());
}

pub(super) fn model() -> ModelSecrets {
    ModelSecrets::default()
}

#[async_trait]
impl Store for ModelSecrets {
    fn store(&self) -> &dyn SecretStore {
        self
    }

    async fn put(&self, path: &str, _: &str, secret: &str) {
        ModelSecrets::put(self, path, secret);
    }
}

/// SSM, below a prefix of its own.
pub(super) struct EmulatedSecrets {
    endpoint: Endpoint,
    prefix: String,
    store: SsmSecrets,
}

pub(super) async fn emulator() -> EmulatedSecrets {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    let prefix = format!("/contract-{unique}");
    let endpoint = Endpoint::of_environment().expect("make test names the emulator");
    EmulatedSecrets { endpoint, store: SsmSecrets::new(&aws().await, &prefix), prefix }
}

#[async_trait]
impl Store for EmulatedSecrets {
    fn store(&self) -> &dyn SecretStore {
        &self.store
    }

    async fn put(&self, path: &str, name: &str, secret: &str) {
        let name = format!("{}/{path}/{name}", self.prefix);
        let input = json!({"Name": name, "Value": secret, "Type": "SecureString"});
        self.endpoint.act("ssm", "AmazonSSM.PutParameter", input).await.expect("the emulator answers");
    }
}
