//! What the page is told of the place that serves it.

use serde::Serialize;

/// What the page is told of the place that serves it (NP2).
#[derive(Clone, Debug, Serialize)]
pub struct Surroundings {
    pub through: Through,
    /// The server that the page shows. `None`: the one that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The context of the kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The namespace of the context: a user who may not read all namespaces reads this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Stands over every screen, so that two servers are not confused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banner: Option<String>,
}

/// How the page reaches the API.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// Where it came from, once its user has signed in.
    Server,
    /// `ballast ui`, with the credentials of a kubeconfig.
    Proxy,
}

impl Surroundings {
    /// Those of a page that comes from the server itself.
    pub fn of_server(banner: Option<String>) -> Surroundings {
        Surroundings { through: Through::Server, server: None, context: None, namespace: None, banner }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts can be written as JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn np2_surroundings_name_what_is_known_and_nothing_else() {
        assert_eq!(Surroundings::of_server(None).to_json(), r#"{"through":"server"}"#);
        let marked = Surroundings::of_server(Some("PRODUCTION".to_owned()));
        let proxied = Surroundings { through: Through::Proxy, context: Some("eu".to_owned()), ..marked };
        assert_eq!(proxied.to_json(), r#"{"through":"proxy","context":"eu","banner":"PRODUCTION"}"#);
    }
}
