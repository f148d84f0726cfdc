//! The settings of the server that the page displays.

use serde::Serialize;

/// The settings of the server that the page displays (NP2).
#[derive(Clone, Debug, Serialize)]
pub struct Surroundings {
    pub through: Through,
    /// The server that the page shows. `None` for the server of the page itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The context of the kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The namespace of the context, for users without permission to read all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A banner on every screen, so that two servers are not confused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banner: Option<String>,
}

/// The route from the page to the API.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// The server that served the page, after the user has signed in.
    Server,
    /// `ballast ui`, with the credentials of a kubeconfig.
    Proxy,
}

impl Surroundings {
    /// Returns the settings of a page that the server itself serves.
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
